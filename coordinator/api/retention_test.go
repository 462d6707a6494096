package api_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
)

// process is a coordinator with its API that can be stopped and started again on the same database.
type process struct {
	engine *coordinator.Coordinator
	server *httptest.Server
	stop   func()
}

func startProcess(t *testing.T, pool *pgxpool.Pool, prefix string) *process {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	b, err := bus.New(testdb.NATS(t), bus.Config{Prefix: prefix, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, Publisher: b, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{}
	if p.engine, err = coordinator.New(coordinator.Config{Pool: pool, Bus: b, Relay: relay, Log: quiet, Lanes: 4}); err != nil {
		t.Fatal(err)
	}
	p.server = httptest.NewServer(api.New(api.Config{Coordinator: p.engine, Authenticate: api.Loopback(), Log: quiet}))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = relay.Run(ctx) })
	running.Go(func() {
		if err := p.engine.Run(ctx); err != nil {
			t.Errorf("coordinator: %v", err)
		}
	})
	p.stop = sync.OnceFunc(func() { p.server.Close(); cancel(); running.Wait(); b.Close() })
	t.Cleanup(p.stop)
	return p
}

// post sends many submissions at once, 50 of each key, and returns the answers of each key.
func (p *process) post(t *testing.T, keys, each int, body string) [][]reply {
	t.Helper()
	answers := make([][]reply, keys)
	places := make(chan struct{}, 200)
	var all sync.WaitGroup
	for k := range answers {
		answers[k] = make([]reply, each)
		for i := range each {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				r, err := try(t.Context(), p.server, http.MethodPost, "/v1/transactions", body, "Content-Type", "application/json", "Idempotency-Key", fmt.Sprint("key-", k))
				if err != nil {
					t.Error(err)
				}
				answers[k][i] = r
			})
		}
	}
	all.Wait()
	return answers
}

// I1–I3, I5, I6: concurrent submissions of one key begin one transaction and are answered with the same bytes, after a
// restart too; other content is refused; after retention all of it is.
func TestKeysUntilAfterRetention(t *testing.T) {
	t.Parallel()
	keys, each := 20, 50
	if n, err := strconv.Atoi(os.Getenv("RETENTION_KEYS")); err == nil {
		keys = n
	}
	pool, prefix := testdb.New(t, schema), testdb.Prefix(t)
	const body = `{"definition":{"name":"none","version":1,"steps":[{"name":"s1","kind":"saga","participant":"stock","action":"reserve"}]},"input":{"n":1}}`
	count := func(sql string) (n int) {
		if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	p := startProcess(t, pool, prefix)
	began := time.Now()
	first := p.post(t, keys, each, body)
	t.Logf("%d submissions of %d keys, %d at once each: %s", keys*each, keys, each, time.Since(began).Round(time.Millisecond))
	same := func(when string, answers [][]reply) {
		t.Helper()
		differ, ids := 0, map[string]bool{}
		for k := range answers {
			for _, r := range answers[k] {
				if r.status != http.StatusAccepted || !bytes.Equal(r.body, first[k][0].body) {
					differ++
					t.Logf("key %d: %d %s", k, r.status, r.body)
				}
			}
			ids[string(answers[k][0].body)] = true
		}
		t.Logf("%s: %d different answers, %d answers that differ from the first of their key, %d transactions", when, len(ids), differ, count(`SELECT count(*) FROM transactions`))
		if differ > 0 || len(ids) != keys || count(`SELECT count(*) FROM transactions`) != keys {
			t.Errorf("%s: want %d different answers, all others equal", when, keys)
		}
	}
	refused := func(when string, status int, code string, answers [][]reply) {
		t.Helper()
		for k := range answers {
			for _, r := range answers[k] {
				if r.status != status || !bytes.Contains(r.body, []byte(`"code":"`+code+`"`)) {
					t.Fatalf("%s: key %d: %d %s", when, k, r.status, r.body)
				}
			}
		}
		t.Logf("%s: all %d answers are %d %s, %d transactions", when, len(answers)*len(answers[0]), status, code, count(`SELECT count(*) FROM transactions`))
	}
	same("at once", first)
	p.stop()
	p = startProcess(t, pool, prefix)
	same("after a restart", p.post(t, keys, each, body))
	refused("other content", http.StatusUnprocessableEntity, "key_reused", p.post(t, keys, 2, body+" "))

	if _, err := pool.Exec(t.Context(), `UPDATE transactions SET status = 'cancelled', why = 'client', decided_at = now(), finished_at = now(), wake_at = NULL`); err != nil {
		t.Fatal(err)
	}
	if err := p.engine.Retain(t.Context(), time.Now().Add(40*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	refused("after retention", http.StatusGone, "past_retention", p.post(t, keys, each, body))
	refused("after retention, other content", http.StatusGone, "past_retention", p.post(t, keys, 2, body+" "))
	p.stop()
	p = startProcess(t, pool, prefix)
	refused("after retention and a restart", http.StatusGone, "past_retention", p.post(t, keys, each, body))
	for _, path := range []string{first[0][0].header.Get("Location"), "/v1/requests?id=key-0"} {
		if r, err := try(t.Context(), p.server, http.MethodGet, path, ""); err != nil || r.status != http.StatusGone {
			t.Errorf("GET %s: %d %s, %v", path, r.status, r.body, err)
		}
	}
	if n := count(`SELECT count(*) FROM transactions`); n != 0 {
		t.Errorf("%d transactions", n)
	}
}
