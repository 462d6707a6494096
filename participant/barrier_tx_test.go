package participant

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

func mustEnter(t *testing.T, b *Barrier, cmd saga.Command) *Entry {
	t.Helper()
	e, err := b.Enter(t.Context(), cmd)
	if err != nil || e.Verdict.Do != saga.DoRun {
		t.Fatalf("%v %v", e, err)
	}
	t.Cleanup(func() { e.Abandon(context.WithoutCancel(t.Context())) })
	return e
}

// TestBarrierTxOwned: a handler cannot end the transaction, has savepoints, and has nothing after the end.
func TestBarrierTxOwned(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b, cmd := NewBarrier(pool, 0), barrierCommand(barrierID(), saga.PhaseTry)
	e := mustEnter(t, b, cmd)
	tx := e.Tx()
	if err := tx.Commit(t.Context()); !errors.Is(err, ErrTxOwned) {
		t.Errorf("Commit: %v", err)
	}
	if err := tx.Rollback(t.Context()); !errors.Is(err, ErrTxOwned) {
		t.Errorf("Rollback: %v", err)
	}
	for _, keep := range []bool{true, false} {
		nested, err := tx.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := barrierEffect(t.Context(), nested, cmd); err != nil {
			t.Fatal(err)
		}
		end := nested.Rollback
		if keep {
			end = nested.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	left, err := tx.Begin(t.Context()) // a savepoint that stays open
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Conclude(t.Context(), barrierDone(saga.PhaseTry)); err != nil {
		t.Fatal(err)
	}
	if n := barrierEffectsOf(t, pool, cmd.Transaction, saga.PhaseTry); n != 1 {
		t.Errorf("%d effects, want the one of the savepoint that was kept", n)
	}
	var one int
	errs := map[string]error{"QueryRow": tx.QueryRow(t.Context(), "SELECT 1").Scan(&one)}
	_, errs["Exec in a savepoint"] = left.Exec(t.Context(), "SELECT 1")
	errs["Commit of a savepoint"] = left.Commit(t.Context())
	_, errs["Begin"] = tx.Begin(t.Context())
	_, errs["Exec"] = tx.Exec(t.Context(), "SELECT 1")
	_, errs["Query"] = tx.Query(t.Context(), "SELECT 1") //nolint:gocritic,rowserrcheck,sqlclosecheck // it fails
	_, errs["Prepare"] = tx.Prepare(t.Context(), "p", "SELECT 1")
	_, errs["CopyFrom"] = tx.CopyFrom(t.Context(), pgx.Identifier{"once"}, []string{"id"}, pgx.CopyFromRows(nil))
	errs["SendBatch"] = tx.SendBatch(t.Context(), &pgx.Batch{}).Close()
	_, errs["Conclude"] = e.Conclude(t.Context(), barrierDone(saga.PhaseTry))
	for name, err := range errs {
		if !errors.Is(err, ErrTxOver) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

// TestBarrierTxEndedBySQL: a handler that sends COMMIT is found out; what it did is never repeated.
func TestBarrierTxEndedBySQL(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b, cmd := NewBarrier(pool, 0), barrierCommand(barrierID(), saga.PhaseTry)
	e := mustEnter(t, b, cmd)
	if err := barrierEffect(t.Context(), e.Tx(), cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Tx().Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if reply, err := e.Conclude(t.Context(), barrierDone(saga.PhaseTry)); !errors.Is(err, ErrTxOwned) {
		t.Errorf("%+v %v", reply, err)
	}
	if _, err := barrierExecute(t.Context(), b, cmd, barrierDone(saga.PhaseTry)); pg.Code(err) != "SG004" {
		t.Errorf("again: %v", err)
	}
	if n := barrierEffectsOf(t, pool, cmd.Transaction, saga.PhaseTry); n != 1 {
		t.Errorf("%d effects", n)
	}
	healthy(t.Context(), t, pool)
}

// TestBarrierFailedTx: success after a swallowed SQL error is an error, and rows left open are one.
func TestBarrierFailedTx(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	for name, spoil := range map[string]func(pgx.Tx){
		"swallowed error": func(tx pgx.Tx) { _, _ = tx.Exec(t.Context(), "INSERT INTO once VALUES (1)") },
		"open rows":       func(tx pgx.Tx) { _, _ = tx.Query(t.Context(), "SELECT generate_series(1, 100000)") }, //nolint:gocritic,rowserrcheck,sqlclosecheck // on purpose
	} {
		cmd := barrierCommand(barrierID(), saga.PhaseTry)
		e := mustEnter(t, b, cmd)
		spoil(e.Tx())
		reply, err := e.Conclude(t.Context(), barrierDone(saga.PhaseTry))
		var unknown *CommitUnknownError
		if err == nil || errors.As(err, &unknown) {
			t.Errorf("%s: %+v %v", name, reply, err)
		}
		if row := barrierRowOf(t, pool, cmd.Transaction); row.State != "" {
			t.Errorf("%s: left behind: %+v", name, row)
		}
		healthy(t.Context(), t, pool)
	}
}

// TestBarrierCancelledContext: X1. A context that ends never makes a success, wherever it ends; the pool stays
// whole, and the operation is rolled back.
func TestBarrierCancelledContext(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	dead, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	cmd := barrierCommand(barrierID(), saga.PhaseTry)
	if _, err := b.Enter(dead, cmd); !errors.Is(err, context.Canceled) {
		t.Errorf("before Enter: %v", err)
	}
	e := mustEnter(t, b, cmd)
	if err := barrierEffect(t.Context(), e.Tx(), cmd); err != nil {
		t.Fatal(err)
	}
	_, err := e.Conclude(dead, barrierDone(saga.PhaseTry))
	var unknown *CommitUnknownError
	if !errors.Is(err, context.Canceled) || errors.As(err, &unknown) {
		t.Errorf("before Conclude, nothing was sent: %v", err)
	}
	e = mustEnter(t, b, cmd)
	if reply, err := e.Conclude(dead, saga.Ran{Outcome: saga.OutcomeRetry}); err != nil || reply.Outcome != saga.OutcomeRetry {
		t.Errorf("a rollback does not need the context: %+v %v", reply, err)
	}
	if row := barrierRowOf(t, pool, cmd.Transaction); row.State != "" || barrierEffectsOf(t, pool, cmd.Transaction, saga.PhaseTry) != 0 {
		t.Errorf("left behind: %+v", row)
	}
	healthy(t.Context(), t, pool)
}

// TestBarrierCommitUnknown: X1. The context ends while the server commits: the outcome is unknown, the connection is
// closed, and the next delivery finds out.
func TestBarrierCommitUnknown(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	// A deferred trigger makes COMMIT wait for a lock that the test holds.
	const slow = `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`
	if _, err := pool.Exec(t.Context(), slow, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	holder, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release()
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	b, cmd := NewBarrier(pool, time.Minute), barrierCommand(barrierID(), saga.PhaseTry)
	e := mustEnter(t, b, cmd)
	conn := e.Tx().Conn()
	if err := barrierEffect(t.Context(), e.Tx(), cmd); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := e.Conclude(ctx, barrierDone(saga.PhaseTry))
		ended <- err
	}()
	waitForLock(t, pool, holder)
	cancel()
	var unknown *CommitUnknownError
	if err := <-ended; !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if !conn.IsClosed() {
		t.Error("the connection is still open")
	}
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	// Whether the server committed or not: after the next delivery there is one effect and one record.
	reply := mustExecute(t, b, cmd, barrierDone(saga.PhaseTry))
	if n := barrierEffectsOf(t, pool, cmd.Transaction, saga.PhaseTry); n != 1 || reply.Outcome != saga.OutcomeDone {
		t.Errorf("%d effects, %+v", n, reply)
	}
	healthy(t.Context(), t, pool)
}

// waitForLock returns when some session waits for a lock that the holder has.
func waitForLock(t *testing.T, pool *pgxpool.Pool, holder *pgxpool.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if blocked, _ := waitBlocked(ctx, t, pool, holder.Conn().PgConn().PID(), nil); !blocked {
		t.Fatal("nobody waits")
	}
	runtime.Gosched()
}

// TestBarrierDeadline: B4. The clock is the database's, read after the wait for the row.
func TestBarrierDeadline(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	var now time.Time
	if err := pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[saga.Kind]saga.Outcome{saga.KindTCC: saga.OutcomeRefused, saga.KindPivot: saga.OutcomeRefused, saga.KindRetriable: saga.OutcomeDone} {
		cmd := barrierCommand(barrierID(), saga.PhaseTry)
		cmd.Kind, cmd.Deadline = kind, now
		for range 2 {
			if reply := mustExecute(t, b, cmd, barrierDone(saga.PhaseTry)); reply.Outcome != want || want == saga.OutcomeRefused && reply.Code != saga.CodeDeadline {
				t.Errorf("%s: %+v", kind, reply)
			}
		}
	}
}
