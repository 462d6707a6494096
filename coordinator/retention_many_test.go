package coordinator_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// fillWeek adds finished transactions of eight weeks ago, with their request keys, operations and submissions.
func (w *world) fillWeek(n int) {
	w.t.Helper()
	week := `week_of(clock_timestamp()) - 8`
	for _, sql := range []string{
		`DO $$ DECLARE parent text; BEGIN
			FOREACH parent IN ARRAY ARRAY['transactions', 'submissions', 'operations', 'attempts'] LOOP
				EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', parent || '_w' || (` + week + `), parent,
					week_floor(` + week + `), week_floor(` + week + ` + 1));
			END LOOP;
		END $$`,
		fmt.Sprintf(`CREATE UNLOGGED TABLE made AS
			SELECT (lpad(to_hex((%s) * 604800000 + i %% 604800000), 12, '0') || '7' || lpad(to_hex(i / 604800000), 3, '0') || '8' || substr(md5(i::text), 1, 15))::uuid AS id, i
			  FROM generate_series(1, %d) i`, week, n),
		`INSERT INTO transactions (id, version, status, tenant, client, request_id, definition, definition_name, created_at, decided_at, finished_at)
			SELECT id, 4, 'committed', 'acme', 'shop', 'old-' || i, '\x00', 'order', at, at, at FROM made, (SELECT now() - interval '50 days') a (at)`,
		`INSERT INTO submissions SELECT id, '\x00', '{}' FROM made`,
		`INSERT INTO requests (tenant, client, request_id, transaction_id, content_sha256, answer) SELECT 'acme', 'shop', 'old-' || i, id, '\x00', '{}' FROM made`,
		`INSERT INTO operations (transaction_id, step, phase, state, wait, replaying, attempt, counted, counted_to, floor, revision, content_sha256, sent_at)
			SELECT id, 's1', 'try', 'done', '', false, 1, 0, 0, 0, 1, '\x00', now() FROM made`,
		`DROP TABLE made`,
	} {
		if _, err := w.pool.Exec(w.ctx(10*time.Minute), sql); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Retention of many transactions with one that is unresolved among them: it stays reachable, the rest goes, and what runs
// meanwhile is hardly held up. RETENTION_ROWS=1000000: make retention.
func TestRetentionOfMany(t *testing.T) {
	t.Parallel()
	n := 5_000
	if many, err := strconv.Atoi(os.Getenv("RETENTION_ROWS")); err == nil {
		n = many
	}
	w := newWorld(t)
	var logged bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&logged, nil)) // a handler writes one line at a time
	began := time.Now()
	w.fillWeek(n)
	t.Logf("%d transactions were loaded in %s", n, time.Since(began).Round(time.Millisecond))
	c, stopAll := w.coordinator()
	w.participant("stock", nil)
	held := w.submit(c, saga.Define("held").Saga("s1", "nobody", "reserve").MustBuild(), "held") // never answered
	old := saga.FirstIDAt(time.Now().Add(-56 * day))
	for table, key := range map[string]string{"transactions": "id", "submissions": "transaction_id", "operations": "transaction_id", "requests": "transaction_id"} {
		if _, err := w.pool.Exec(t.Context(), fmt.Sprintf(`UPDATE %s SET %s = $2 WHERE %s = $1`, table, key, key), held.String(), old.String()); err != nil {
			t.Fatal(err)
		}
	}

	stop, slowest := make(chan struct{}), make(chan time.Duration)
	go func() { // traffic
		var worst time.Duration
		for {
			select {
			case <-stop:
				slowest <- worst
				return
			default:
			}
			began := time.Now()
			if _, err := c.Submit(w.ctx(time.Minute), coordinator.SubmitParams{Caller: caller, Body: body(define(saga.KindSaga, 1))}); err != nil {
				t.Error(err)
			}
			worst = max(worst, time.Since(began))
		}
	}()
	began = time.Now()
	for w.count(`SELECT count(*) FROM pg_class WHERE relname = 'transactions_w' || week_of(clock_timestamp()) - 8`) > 0 { // it may be at it by itself
		if err := c.Retain(w.ctx(10*time.Minute), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d transactions were forgotten in %s with their keys", n, time.Since(began).Round(time.Millisecond))
	close(stop)
	t.Logf("the slowest submission meanwhile took %s", (<-slowest).Round(time.Millisecond))

	const past = `WHERE $1::uuid > %s`
	for table, key := range map[string]string{"transactions": "id", "submissions": "transaction_id", "operations": "transaction_id", "requests": "transaction_id"} {
		floor := saga.FirstIDAt(time.Now().Add(-30 * day)).String()
		if left := w.count(`SELECT count(*) FROM `+table+` `+fmt.Sprintf(past, key), floor); left != 1 {
			t.Errorf("%d rows of %s are left, want the one that is unresolved", left, table)
		}
	}
	if got := w.count(`SELECT count(*) FROM request_hashes`); got != n {
		t.Errorf("%d keys are remembered, want %d", got, n)
	}
	if v, err := c.Get(w.ctx(10*time.Second), caller, old); err != nil || v.Status != saga.StatusRunning {
		t.Errorf("the unresolved one: %+v, %v", v, err)
	}
	if v, err := c.FindByRequest(w.ctx(10*time.Second), caller, "held"); err != nil || v.ID != old {
		t.Errorf("the unresolved one by its request id: %+v, %v", v, err)
	}
	_, err := c.Submit(w.ctx(10*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "old-7", Body: body(define(saga.KindSaga, 1))})
	if !errors.Is(err, coordinator.ErrPastRetention) {
		t.Errorf("a key that is past retention: %v", err)
	}
	stopAll()
	for line := range strings.Lines(logged.String()) {
		if _, drop, ok := strings.Cut(line, `msg="a week of transactions was dropped"`); ok {
			t.Logf("a week was dropped:%s", strings.TrimSpace(drop))
		}
	}
}
