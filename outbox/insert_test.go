package outbox_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
)

func TestInsertKeepsEveryByte(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	entries := insert(t, pool,
		outbox.Message{Subject: "a.b", Data: every, Header: map[string][]string{
			"traceparent": {"00-1"}, "Saga-Step": {"one", "two: three"}, "Nats-Msg-Id": {"own id"},
		}},
		outbox.Message{Subject: "a.c", TTL: time.Minute},
	)
	var subject, id, headers string
	var data []byte
	var expires, claimed *time.Time
	read := func(e outbox.Entry) {
		t.Helper()
		err := pool.QueryRow(t.Context(), "SELECT subject, message_id, headers, data, expires_at, claimed_until FROM outbox WHERE id = $1",
			e.ID()).Scan(&subject, &id, &headers, &data, &expires, &claimed)
		if err != nil {
			t.Fatal(err)
		}
	}
	read(entries[0])
	if subject != "a.b" || id != "own id" || headers != "Saga-Step: one\nSaga-Step: two: three\ntraceparent: 00-1\n" ||
		!bytes.Equal(data, every) || expires != nil || claimed != nil {
		t.Errorf("row: %q %q %q %x %v %v", subject, id, headers, data, expires, claimed)
	}
	read(entries[1])
	if id != entries[1].ID().String() || headers != "" || len(data) != 0 || expires == nil || entries[1].ID().Version() != 7 {
		t.Errorf("row: %q %q %x %v", id, headers, data, expires)
	}
}

func TestInsertRefuses(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	header := func(name, value string) outbox.Message {
		return outbox.Message{Subject: "a", Header: map[string][]string{name: {value}}}
	}
	for name, m := range map[string]outbox.Message{
		"no subject":     {},
		"long subject":   {Subject: strings.Repeat("a", 256)},
		"wildcard":       {Subject: "a.*"},
		"full wildcard":  {Subject: "a.>"},
		"empty token":    {Subject: "a..b"},
		"space":          {Subject: "a b"},
		"line break":     {Subject: "a\r\nPUB x"},
		"negative TTL":   {Subject: "a", TTL: -1},
		"header name":    header("a:b", "c"),
		"no header name": header("", "c"),
		"header break":   header("a", "b\r\nc: d"),
		"header UTF-8":   header("a", "ä"),
		"header spaces":  header("a", " b"),
		"status":         header("Status", "409"),
		"empty id":       header("Nats-Msg-Id", ""),
	} {
		_, err := outbox.Queue(&pgx.Batch{}, outbox.Message{Subject: "good"}, m)
		var invalid *outbox.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := outbox.Insert(t.Context(), tx, outbox.Message{Subject: "good"}, outbox.Message{Subject: "a", Data: make([]byte, 1<<20)})
		var large *outbox.TooLargeError
		if !errors.As(err, &large) || large.Subject != "a" || large.BytesMax != outbox.DefaultMessageBytesMax || large.Bytes <= 1<<20 {
			t.Errorf("too large: %v", err)
		}
		small := outbox.Writer{MessageBytesMax: 100}
		if _, err := small.Insert(t.Context(), tx, outbox.Message{Subject: "a", Data: make([]byte, 100)}); !errors.As(err, &large) {
			t.Errorf("too large for the writer: %v", err)
		}
		return nil
	})
	if err != nil || rowCount(t, pool) != 0 {
		t.Errorf("%d rows, %v", rowCount(t, pool), err)
	}
}

func TestQueueGoesWithTheCallersBatch(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	ctx := t.Context()
	if _, err := pool.Exec(ctx, "CREATE TABLE orders (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	send := func() error {
		b := &pgx.Batch{}
		b.Queue("INSERT INTO orders VALUES (1)")
		if entries, err := outbox.Queue(b, numbered("a", 3)...); err != nil || len(entries) != 3 || b.Len() != 2 {
			t.Fatalf("%d entries, %d statements, %v", len(entries), b.Len(), err)
		}
		return pool.SendBatch(ctx, b).Close()
	}
	if err := send(); err != nil || rowCount(t, pool) != 3 {
		t.Fatalf("%d rows, %v", rowCount(t, pool), err)
	}
	if err := send(); err == nil || rowCount(t, pool) != 3 { // the order exists: nothing of the batch stays
		t.Fatalf("%d rows, %v", rowCount(t, pool), err)
	}
	if entries, err := outbox.Queue(&pgx.Batch{}); err != nil || entries != nil {
		t.Errorf("no messages: %v, %v", entries, err)
	}
}
