package dlq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/migrate"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	dlqsql "github.com/sagacity-tx/sagacity/migrations/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var schema = testdb.Template{Name: "dlq", Migrate: func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn, dlqsql.FS, "dlq")
	return err
}}

// The worst text that a participant, a message or an operator may bring.
var nasty = "a\x00b\xff\xed\xa0\x80" + strings.Repeat("ä", 5000)

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// queue sends the changes as one batch, which is one transaction.
func queue(t *testing.T, pool *pgxpool.Pool, changes ...dlq.Change) error {
	t.Helper()
	var batch pgx.Batch
	for _, c := range changes {
		if err := dlq.Queue(&batch, c); err != nil {
			t.Fatal(err)
		}
	}
	return pool.SendBatch(t.Context(), &batch).Close()
}

func list(t *testing.T, pool *pgxpool.Pool, f dlq.Filter) []dlq.DeadLetter {
	t.Helper()
	letters, err := dlq.List(t.Context(), pool, f)
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

func buried(id saga.ID, attempt int, reason string) dlq.Change {
	return dlq.Change{
		Tenant: "acme", TransactionID: id, Message: wire.Message{Subject: "saga.cmd.stock", Data: []byte{0, 1, 0xff}, Header: wire.Header{"A": {"1", "2"}}},
		DeadLetterChange: saga.DeadLetterChange{
			Step: "s1", Phase: saga.PhaseTry, To: saga.DeadLetterOpen, Cause: saga.DeadLetterExhausted, Reason: reason,
			Outcome: saga.OutcomeRetry, Attempt: attempt,
			Command: saga.Command{Participant: "stock", Action: "reserve", Revision: 1, ContentSHA256: [32]byte{1}},
		},
	}
}

func moved(c dlq.Change, to saga.DeadLetterStatus) dlq.Change {
	c.To = to
	return c
}

// open → replaying → open again → … is one row whose version rises with every change (D1).
func TestStates(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	id := saga.ID(newID(t))
	c := buried(id, 3, "no answer")
	expect := func(status saga.DeadLetterStatus, version int64, count int) {
		t.Helper()
		letters := list(t, pool, dlq.Filter{TransactionID: id})
		if len(letters) != 1 || letters[0].Status != status || letters[0].Version != version || letters[0].BuriedCount != count {
			t.Fatalf("got %+v, want %s at version %d, buried %d times", letters, status, version, count)
		}
	}
	must := func(changes ...dlq.Change) {
		t.Helper()
		if err := queue(t, pool, changes...); err != nil {
			t.Fatal(err)
		}
	}
	must(c)
	expect(saga.DeadLetterOpen, 1, 1)
	l := list(t, pool, dlq.Filter{})[0]
	if !bytes.Equal(l.Message.Data, c.Message.Data) || l.Message.Subject != c.Message.Subject || !slices.Equal(l.Message.Header["A"], []string{"1", "2"}) ||
		l.Step != "s1" || l.Phase != saga.PhaseTry || l.Participant != "stock" || l.Action != "reserve" || l.Attempt != 3 || l.Tenant != "acme" ||
		l.Kind != dlq.KindOperation || l.Outcome != saga.OutcomeRetry || l.BuriedAt.Location() != time.UTC || len(l.ContentSHA256) != 32 {
		t.Errorf("read back %+v", l)
	}
	must(moved(c, saga.DeadLetterReplaying))
	expect(saga.DeadLetterReplaying, 2, 1)
	again := moved(c, saga.DeadLetterReplaying)
	if err := queue(t, pool, buried(saga.ID(newID(t)), 1, ""), again); pg.Code(err) != "SG404" {
		t.Errorf("a second replay: %v", err)
	}
	if n := len(list(t, pool, dlq.Filter{})); n != 1 {
		t.Errorf("%d rows: the batch of a refused replay was stored in part", n)
	}
	must(buried(id, 4, "no answer again"))
	expect(saga.DeadLetterOpen, 3, 2)
	must(moved(c, saga.DeadLetterReplaying), buried(id, 5, "and again"), moved(c, saga.DeadLetterDiscarded)) // in one batch
	expect(saga.DeadLetterDiscarded, 6, 3)
	must(moved(c, saga.DeadLetterClosed), moved(c, saga.DeadLetterObsolete)) // it has ended: nothing to close
	expect(saga.DeadLetterDiscarded, 6, 3)
	if got := list(t, pool, dlq.Filter{})[0]; got.ID != l.ID || got.BuriedAt != l.BuriedAt || !got.UpdatedAt.After(l.UpdatedAt) {
		t.Errorf("the row was replaced: %+v", got)
	}
}

// Whatever text there is, it is stored; bytes of bodies stay as they are.
func TestNastyText(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	c := buried(saga.ID(newID(t)), 1, nasty)
	c.Cause = nasty
	c.Message.Header = wire.Header{nasty: {nasty, "\x00"}, "\xff": {""}}
	c.Message.Data = nil
	if err := queue(t, pool, c); err != nil {
		t.Fatal(err)
	}
	data := []byte(nasty)
	m := wire.Message{Subject: nasty, Header: wire.Header{nasty: {nasty}}, Data: data}
	if err := dlq.BuryMessage(t.Context(), pool, m, nasty, saga.FaultUndecodable, nasty); err != nil {
		t.Fatal(err)
	}
	if err := dlq.BuryMessage(t.Context(), pool, wire.Message{}, "", saga.FaultUndecodable, ""); err != nil {
		t.Fatal(err)
	}
	letters := list(t, pool, dlq.Filter{})
	if len(letters) != 3 {
		t.Fatalf("%d dead letters", len(letters))
	}
	if l := letters[1]; l.Kind != dlq.KindMessage || !bytes.Equal(l.Message.Data, data) {
		t.Errorf("the exact bytes are gone: %d of %d", len(l.Message.Data), len(data))
	}
	for _, l := range letters {
		for _, s := range []string{l.Reason, l.Cause, l.Participant, l.Message.Subject} {
			if !utf8.ValidString(s) || strings.Contains(s, "\x00") || len(s) > saga.ReasonBytesMax {
				t.Errorf("stored %.30q, %d bytes", s, len(s))
			}
		}
	}
	e := dlq.AuditEntry{Actor: nasty, Action: "replay", Object: "x", Allowed: true, Reason: nasty, Detail: nasty}
	if err := dlq.InsertAudit(t.Context(), pool, e); err != nil {
		t.Fatal(err)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	const n = 25
	var ids []saga.ID
	for i := range n {
		id := saga.ID(newID(t))
		ids = append(ids, id)
		c := buried(id, 1, fmt.Sprintf("reason %d", i))
		if i%5 == 0 {
			c.Cause, c.Command.Participant = saga.DeadLetterPanic, "bank"
		}
		if err := queue(t, pool, c); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := queue(t, pool, moved(c, saga.DeadLetterClosed)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var seen []saga.ID
	page := dlq.Filter{Limit: 7}
	for {
		letters := list(t, pool, page)
		for _, l := range letters {
			seen = append(seen, l.TransactionID)
		}
		if len(letters) < page.Limit {
			break
		}
		page.Before = letters[len(letters)-1].ID
	}
	slices.Reverse(ids)
	if !slices.Equal(seen, ids) {
		t.Errorf("pages show %d dead letters in another order or not all", len(seen))
	}
	fingerprint := list(t, pool, dlq.Filter{Cause: saga.DeadLetterPanic})[0].Fingerprint
	for what, tc := range map[string]struct {
		f    dlq.Filter
		want int
	}{
		"open":                 {dlq.Filter{Status: saga.DeadLetterOpen}, 12},
		"closed":               {dlq.Filter{Status: saga.DeadLetterClosed}, 13},
		"participant":          {dlq.Filter{Participant: "bank"}, 5},
		"cause":                {dlq.Filter{Cause: saga.DeadLetterExhausted}, 20},
		"transaction":          {dlq.Filter{TransactionID: ids[3]}, 1},
		"group":                {dlq.Filter{Fingerprint: fingerprint}, 5},
		"group, open":          {dlq.Filter{Fingerprint: fingerprint, Status: saga.DeadLetterOpen}, 2},
		"quotes are data only": {dlq.Filter{Participant: `' OR '1'='1`}, 0},
		"default limit":        {dlq.Filter{}, n},
	} {
		if got := len(list(t, pool, tc.f)); got != tc.want {
			t.Errorf("%s: %d, want %d", what, got, tc.want)
		}
	}
	if _, err := dlq.Get(t.Context(), pool, newID(t)); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("Get of nothing: %v", err)
	}
}

// Entries of the audit come back newest first, those of one object or all.
func TestAudit(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	for i := range 10 {
		e := dlq.AuditEntry{Actor: "ann", Action: "replay", Object: fmt.Sprint(i % 2), Allowed: i%3 == 0, Reason: fmt.Sprint(i)}
		if err := dlq.InsertAudit(t.Context(), pool, e); err != nil {
			t.Fatal(err)
		}
	}
	var batch pgx.Batch
	dlq.QueueAudit(&batch, dlq.AuditEntry{Actor: "bob", Action: "discard", Object: "1"})
	if err := pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	all, err := dlq.ListAudit(t.Context(), pool, dlq.AuditFilter{Limit: 100})
	if err != nil || len(all) != 11 || all[0].Actor != "bob" || all[10].Reason != "0" {
		t.Errorf("%d entries, %v", len(all), err)
	}
	one, err := dlq.ListAudit(t.Context(), pool, dlq.AuditFilter{Objects: []string{"0"}, Limit: 3})
	if err != nil || len(one) != 3 || one[0].Reason != "8" || one[2].Reason != "4" {
		t.Errorf("of one object: %+v, %v", one, err)
	}
}
