package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

const day = 24 * time.Hour

// retained are the rows of a transaction in each table, and its request key.
func (w *world) retained(id saga.ID) string {
	w.t.Helper()
	var s string
	err := w.pool.QueryRow(w.ctx(10*time.Second), `
		SELECT concat_ws(' ', (SELECT count(*) FROM transactions WHERE id = $1), (SELECT count(*) FROM submissions WHERE transaction_id = $1),
		                 (SELECT count(*) FROM operations WHERE transaction_id = $1), (SELECT count(*) FROM attempts WHERE transaction_id = $1),
		                 (SELECT count(*) FROM requests WHERE transaction_id = $1))`, id.String()).Scan(&s)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) retain(c *coordinator.Coordinator, later time.Duration) {
	w.t.Helper()
	if err := c.Retain(w.ctx(30*time.Second), time.Now().Add(later)); err != nil {
		w.t.Fatal(err)
	}
}

// I-9, I-10, I6: retention with an unresolved transaction in the range: it stays reachable by its id and its request id,
// can be replayed to its end, and goes then; the rest goes at once. Nothing that is past retention is done again.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	var ill atomic.Bool
	ill.Store(true)
	w.participant("bank", func(saga.Command) saga.Ran {
		if ill.Load() {
			return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: "no"}
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	})
	whole := define(saga.KindSaga, 2)
	stuck := saga.Define("stuck").Saga("s1", "stock", "reserve").Saga("s2", "bank", "debit").MustBuild()
	var gone []saga.ID
	for i := range 3 {
		gone = append(gone, w.submit(c, whole, fmt.Sprint("k", i)))
	}
	held := w.submit(c, stuck, "held")
	for _, id := range gone {
		w.wait(c, id)
	}
	var letter dlq.DeadLetter
	w.until("a dead letter is open", func() bool {
		letters, err := c.Admin().DeadLetters(w.ctx(5*time.Second), dlq.Filter{Status: saga.DeadLetterOpen})
		if err != nil || len(letters) != 1 {
			return false
		}
		letter = letters[0]
		return true
	})

	w.retain(c, 20*day)
	if got := w.retained(gone[0]); got != "1 1 2 0 1" {
		t.Fatalf("before its time: %s", got)
	}
	w.retain(c, 40*day)
	for i, id := range gone {
		if got := w.retained(id); got != "0 0 0 0 0" {
			t.Errorf("rows of a committed transaction are left: %s", got)
		}
		if _, err := c.Get(w.ctx(5*time.Second), caller, id); !errors.Is(err, coordinator.ErrPastRetention) {
			t.Errorf("by its id: %v", err)
		}
		if _, err := c.FindByRequest(w.ctx(5*time.Second), caller, fmt.Sprint("k", i)); !errors.Is(err, coordinator.ErrPastRetention) {
			t.Errorf("by its request id: %v", err)
		}
		for _, b := range [][]byte{body(whole), body(stuck)} {
			_, err := c.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: fmt.Sprint("k", i), Body: b})
			if !errors.Is(err, coordinator.ErrPastRetention) {
				t.Errorf("submitted again: %v", err)
			}
		}
	}
	if _, err := c.Get(w.ctx(5*time.Second), coordinator.Caller{Tenant: "other", Client: "x"}, held); !errors.Is(err, coordinator.ErrPastRetention) {
		t.Errorf("somebody else's: %v", err) // as for every id of that time (I-14)
	}
	other := coordinator.Caller{Tenant: "acme", Client: "another"} // whose keys are its own (I1)
	if s, err := c.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: other, RequestID: "k0", Body: body(whole)}); err != nil || s.Replayed {
		t.Errorf("the key of another client: %+v, %v", s, err)
	}

	v, err := c.FindByRequest(w.ctx(5*time.Second), caller, "held")
	if err != nil || v.ID != held || !v.Suspended {
		t.Fatalf("the unresolved one: %+v, %v", v, err)
	}
	if s, err := c.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "held", Body: body(stuck)}); err != nil || s.ID != held || !s.Replayed {
		t.Errorf("the unresolved one submitted again: %+v, %v", s, err)
	}
	ill.Store(false)
	click := coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, Version: letter.Version, Reason: "again"}
	if err := c.Admin().Replay(w.ctx(5*time.Second), click); err != nil {
		t.Fatal(err)
	}
	if v := w.wait(c, held); v.Status != saga.StatusCommitted {
		t.Errorf("got %s", v.Status)
	}
	w.retain(c, 80*day)
	if got := w.retained(held); got != "0 0 0 0 0" {
		t.Errorf("rows of a transaction that moved on and has ended since are left: %s", got)
	}
	if _, err := c.FindByRequest(w.ctx(5*time.Second), caller, "held"); !errors.Is(err, coordinator.ErrPastRetention) {
		t.Errorf("it is over: %v", err)
	}
	w.retain(c, 100*day) // the other client's, and dead letters
	if n := w.count(`SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	w.retain(c, 1000*day)
	if n := w.count(`SELECT count(*) FROM request_hashes`); n != 0 {
		t.Errorf("%d keys are remembered for ever", n)
	}
}

// Periods that are negative are for ever.
func TestRetentionForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(func(cfg *coordinator.Config) {
		cfg.Retention = coordinator.Retention{Transactions: -1, KeyMemory: -1, DeadLetters: -1, Incidents: -1, Audit: -1}
	})
	w.participant("stock", nil)
	id := w.submit(c, define(saga.KindSaga, 1), "k")
	w.wait(c, id)
	w.retain(c, 10_000*day)
	if got := w.retained(id); got != "1 1 1 0 1" {
		t.Errorf("left: %s", got)
	}
	if n := w.count(`SELECT count(*) FROM pg_class WHERE relname ~ '^(audit|incidents|request_hashes)_w'`); n < 3 {
		t.Errorf("%d partitions", n)
	}
}

// I-10: what the view says has to be kept is what saga.MayDrop refuses.
func TestRetainedAgrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now().UTC().Truncate(time.Microsecond)
	const retention = 30 * day
	type combination struct {
		status   saga.Status
		finished time.Duration // how long ago, or zero if it runs
		letter   saga.DeadLetterStatus
	}
	var all []combination
	for _, status := range []saga.Status{saga.StatusAccepted, saga.StatusRunning, saga.StatusConfirming, saga.StatusCancelling, saga.StatusCommitted, saga.StatusCancelled, saga.StatusResolved} {
		for _, finished := range []time.Duration{0, day, retention - time.Second, retention, retention + time.Second, 90 * day} {
			for _, letter := range []saga.DeadLetterStatus{"", saga.DeadLetterOpen, saga.DeadLetterReplaying, saga.DeadLetterClosed, saga.DeadLetterObsolete, saga.DeadLetterDiscarded} {
				all = append(all, combination{status, finished, letter})
			}
		}
	}
	want := map[saga.ID]bool{}
	var batch pgx.Batch
	for i, x := range all {
		id := saga.FirstIDAt(now.Add(-100 * day))
		id[14], id[15] = byte(i>>8), byte(i)
		r := saga.Retained{Status: x.status}
		var finishedAt *time.Time
		if x.finished > 0 {
			r.FinishedAt = now.Add(-x.finished)
			finishedAt = &r.FinishedAt
		}
		if x.letter == saga.DeadLetterOpen || x.letter == saga.DeadLetterReplaying {
			r.OpenLetters = 1
		}
		want[id] = saga.MayDrop(r, retention, now)
		batch.Queue(`INSERT INTO transactions (id, version, status, tenant, client, definition, definition_name, created_at, finished_at)
			VALUES ($1, 1, $2, 'acme', 'shop', '', '', now(), $3)`, id.String(), string(x.status), finishedAt)
		if x.letter != "" {
			batch.Queue(`INSERT INTO dead_letters (id, kind, status, cause, fingerprint, transaction_id, step, phase, subject, headers, body)
				VALUES (gen_random_uuid(), 'operation', $2, '', '', $1, 's', 'try', '', '{}', '')`, id.String(), string(x.letter))
		}
	}
	if err := w.pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := w.pool.Query(t.Context(), `SELECT id, NOT unresolved AND finished_at < $1 FROM transactions_retained`, now.Add(-retention)) //nolint:rowserrcheck // ForEachRow checks it
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var id [16]byte
	var may bool
	_, err = pgx.ForEachRow(rows, []any{&id, &may}, func() error {
		n++
		if want[id] != may {
			t.Errorf("%s: SQL says %t, saga.MayDrop %t", saga.ID(id), may, want[id])
		}
		return nil
	})
	if err != nil || n != len(all) {
		t.Fatalf("%d of %d rows, %v", n, len(all), err)
	}
}

// A submission that waits for a key while it is being forgotten is not begun (I6).
func TestKeyIsForgottenMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	def := define(saga.KindSaga, 1)
	w.wait(c, w.submit(c, def, "k"))
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `WITH gone AS (DELETE FROM requests RETURNING tenant, client, request_id)
		INSERT INTO request_hashes SELECT request_hash(tenant, client, request_id), week_floor(week_of(now())) FROM gone`)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "k", Body: body(def)})
		answer <- err
	}()
	w.until("the submission waits", func() bool {
		return w.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; !errors.Is(err, coordinator.ErrPastRetention) {
		t.Errorf("it was answered %v", err)
	}
	if n := w.count(`SELECT count(*) FROM transactions`); n != 1 {
		t.Errorf("%d transactions", n)
	}
}

// A week that is in use is not dropped, nobody waits for long, and nothing is half done.
func TestWeekInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	id := w.submit(c, define(saga.KindSaga, 1), "k")
	w.wait(c, id)
	drop := func() (err error) {
		_, err = w.pool.Exec(w.ctx(10*time.Second), `SELECT retain_week(week_of(now()), now() + interval '1 day', 100, 50)`)
		return err
	}
	for _, table := range []string{"transactions", "operations", "attempts"} {
		tx, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `LOCK TABLE `+table+` IN ACCESS SHARE MODE`); err != nil {
			t.Fatal(err)
		}
		if err := drop(); pg.Code(err) != "55P03" {
			t.Errorf("while %s is read: %v", table, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.retained(id); got != "1 1 1 0 1" {
			t.Errorf("while %s was read it was done in part: %s", table, got)
		}
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	if got := w.retained(id); got != "0 0 0 0 1" { // the key is forgotten before, not here
		t.Errorf("left: %s", got)
	}
}

// A week with too many that have to move on stays as it is.
func TestWeekOfManyUnresolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	ids := make([]saga.ID, 3)
	for i := range ids {
		ids[i] = w.submit(c, define(saga.KindSaga, 1), "") // nobody answers
	}
	var problem string
	var kept int
	err := w.pool.QueryRow(t.Context(), `SELECT problem, kept FROM retain_week(week_of(now()), now() + interval '1 day', 2, 1000)`).Scan(&problem, &kept)
	if err != nil || problem != "too_many" || kept != 3 {
		t.Errorf("%q, %d, %v", problem, kept, err)
	}
	if n := w.count(`SELECT count(*) FROM transactions_rest`); n != 0 {
		t.Errorf("%d moved on", n)
	}
}

// K: retention that is cut off between any of its steps, and goes on later, with two coordinators that do it at once and
// traffic all the while. Every key is answered with the same bytes or refused as past retention, never begun again.
func TestRetentionInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c1, _ := w.coordinator()
	c2, _ := w.coordinator()
	w.participant("stock", nil)
	def := define(saga.KindSaga, 1)
	const n = 60
	answers := make([][]byte, n)
	for i := range answers {
		s, err := c1.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: fmt.Sprint("k", i), Body: body(def)})
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = s.Answer
		w.wait(c1, s.ID)
	}
	stop := make(chan struct{})
	var working sync.WaitGroup
	for _, c := range []*coordinator.Coordinator{c1, c2} {
		working.Go(func() {
			for i := 0; ; i = (i + 1) % n {
				select {
				case <-stop:
					return
				default:
				}
				s, err := c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: fmt.Sprint("k", i), Body: body(def)})
				if !errors.Is(err, coordinator.ErrPastRetention) && (err != nil || !s.Replayed || !bytes.Equal(s.Answer, answers[i])) {
					t.Errorf("key %d: %+v, %v", i, s, err)
					return
				}
			}
		})
	}
	later := time.Now().Add(40 * day)
	for i := range 12 {
		var both sync.WaitGroup
		for _, c := range []*coordinator.Coordinator{c1, c2} {
			both.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(2+4*i)*time.Millisecond)
				defer cancel()
				_ = c.Retain(ctx, later) // cut off
			})
		}
		both.Wait()
	}
	w.until("retention has finished", func() bool {
		w.retain(c1, 40*day)
		return w.count(`SELECT count(*) FROM requests`) == 0 && w.count(`SELECT count(*) FROM transactions`) == 0
	})
	close(stop)
	working.Wait()
	if n := w.count(`SELECT count(*) FROM transactions`) + w.count(`SELECT count(*) FROM operations`) + w.count(`SELECT count(*) FROM submissions`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if got := w.count(`SELECT count(DISTINCT hash) FROM request_hashes`); got != n {
		t.Errorf("%d keys are remembered", got)
	}
}
