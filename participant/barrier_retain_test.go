package participant

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

const testDay = 24 * time.Hour

// retainedID returns an id of some time ago.
func retainedID(ago time.Duration) saga.ID {
	id := saga.FirstIDAt(time.Now().Add(-ago))
	n := barrierIDs.Add(1)
	id[14], id[15] = byte(n>>8), byte(n)
	return id
}

// makeWeek makes the partition of an id's week.
func makeWeek(t *testing.T, pool *pgxpool.Pool, id saga.ID) {
	t.Helper()
	week := id.Time().UnixMilli() / saga.Week.Milliseconds()
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`DO $$ BEGIN EXECUTE format('CREATE TABLE IF NOT EXISTS saga.barrier_w%d PARTITION OF saga.barrier
		FOR VALUES FROM (%%L) TO (%%L)', saga.barrier_week_floor(%d), saga.barrier_week_floor(%d)); END $$`, week, week, week+1))
	if err != nil {
		t.Fatal(err)
	}
}

type retainAnswer struct {
	floor, held      pgtype.UUID
	blocked          pgtype.Text
	dropped, deleted int
}

func tryRetain(ctx context.Context, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, source string, sagaFloor saga.ID,
) (a retainAnswer, err error) {
	err = db.QueryRow(ctx, `SELECT * FROM saga.barrier_retain($1, $2, interval '30 days', 100)`, source, uuid(sagaFloor)).
		Scan(&a.floor, &a.held, &a.blocked, &a.dropped, &a.deleted)
	return a, err
}

func mustRetain(t *testing.T, pool *pgxpool.Pool, sagaFloor saga.ID) retainAnswer {
	t.Helper()
	a, err := tryRetain(t.Context(), pool, "saga.accounts", sagaFloor)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func settledTry(t *testing.T, b *Barrier, id saga.ID) saga.Command {
	t.Helper()
	cmd := barrierCommand(id, saga.PhaseTry)
	cmd.Kind = saga.KindSaga
	mustExecute(t, b, cmd, barrierDone(saga.PhaseTry))
	return cmd
}

// B7, B8: saga.RaiseFloor and the SQL say the same.
func TestRaiseFloorAgrees(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	ids := []saga.ID{{}}
	for _, ago := range []time.Duration{0, time.Hour, testDay, 29 * testDay, 30 * testDay, 31 * testDay, 60 * testDay, 61 * testDay, 400 * testDay} {
		ids = append(ids, retainedID(ago))
	}
	null := func(id saga.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }
	var batch pgx.Batch
	for _, current := range ids {
		for _, sagaFloor := range ids {
			for _, held := range ids {
				for _, retention := range []time.Duration{time.Hour, 30 * testDay, 100_000 * testDay} {
					batch.Queue(`SELECT saga.barrier_raise($1, $2, $3::bigint * interval '1 millisecond', $4)`, uuid(current), null(sagaFloor), retention.Milliseconds(), null(held)).
						QueryRow(func(row pgx.Row) error {
							var got [16]byte
							err := row.Scan(&got)
							if want := saga.RaiseFloor(current, sagaFloor, retention, held); want != saga.ID(got) {
								t.Errorf("from %s, Saga-Floor %s, held %s, %s: SQL says %s, saga %s", current, sagaFloor, held, retention, saga.ID(got), want)
							}
							return err
						})
				}
			}
		}
	}
	if err := pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
}

// I-6, B7: what is below the floor goes, from partitions and from the rest, and is answered past_retention from then on.
// What is above stays and is answered as before.
func TestBarrierRetain(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	old, rest, young := retainedID(60*testDay), retainedID(50*testDay), retainedID(10*testDay)
	makeWeek(t, pool, old)
	commands := map[saga.ID]saga.Command{}
	for _, id := range []saga.ID{old, rest, young} {
		commands[id] = settledTry(t, b, id)
	}
	a := mustRetain(t, pool, retainedID(time.Hour))
	if a.dropped != 1 || a.deleted != 1 || a.held.Valid || a.blocked.Valid {
		t.Errorf("answer %+v", a)
	}
	if ago := time.Since(saga.ID(a.floor.Bytes).Time()) - 30*testDay; ago < time.Hour-time.Minute || ago > time.Hour+time.Minute {
		t.Errorf("the floor is %s beyond the retention period", ago)
	}
	for id, gone := range map[saga.ID]bool{old: true, rest: true, young: false} {
		row := barrierRowOf(t, pool, id)
		if (row.State == "") != gone {
			t.Errorf("row %+v, want it gone: %t", row, gone)
		}
		reply := mustExecute(t, b, commands[id], barrierDone(saga.PhaseTry))
		if gone && reply.Code != saga.FaultPastRetention || !gone && !reply.Replayed {
			t.Errorf("answer %+v, want it gone: %t", reply, gone)
		}
		if n := barrierEffectsOf(t, pool, id, saga.PhaseTry); n != 1 {
			t.Errorf("%d effects", n)
		}
	}
	// A Saga-Floor that is behind, as of a command that was late, lowers nothing.
	if again := mustRetain(t, pool, retainedID(200*testDay)); again.floor != a.floor || again.dropped+again.deleted != 0 {
		t.Errorf("again: %+v", again)
	}
}

// I-10: a try whose confirm or cancel is to come holds the floor, until a person lets go of it.
func TestBarrierRetainHeld(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	first, held, later := retainedID(80*testDay), retainedID(60*testDay), retainedID(50*testDay)
	for _, id := range []saga.ID{first, held, later} {
		makeWeek(t, pool, id)
	}
	settledTry(t, b, first)
	mustExecute(t, b, barrierCommand(held, saga.PhaseTry), barrierDone(saga.PhaseTry)) // tcc
	settledTry(t, b, later)
	a := mustRetain(t, pool, retainedID(time.Hour))
	if a.dropped != 1 || a.held.Bytes != held || a.floor.Bytes != held {
		t.Errorf("answer %+v", a)
	}
	if row := barrierRowOf(t, pool, later); row.State != saga.BarrierTried {
		t.Errorf("above the floor: %+v", row)
	}
	confirm := barrierCommand(held, saga.PhaseConfirm)
	probe := func() saga.Reply {
		e, err := b.Enter(t.Context(), confirm)
		if err != nil {
			t.Fatal(err)
		}
		e.Abandon(t.Context())
		return e.Verdict.Reply
	}
	if reply := probe(); reply.Outcome != "" {
		t.Errorf("the held one cannot be confirmed any more: %+v", reply)
	}
	if _, err := pool.Exec(t.Context(), `SELECT saga.barrier_let_go($1, 'given up, settled by hand')`, uuid(held)); err != nil {
		t.Fatal(err)
	}
	if a := mustRetain(t, pool, retainedID(time.Hour)); a.dropped != 2 || a.held.Valid {
		t.Errorf("after it was let go: %+v", a)
	}
	if reply := probe(); reply.Code != saga.FaultPastRetention {
		t.Errorf("after it was let go: %+v", reply)
	}
}

// Each participant that shares the database bounds the floor: it may be served by another coordinator. And so does the
// database's clock.
func TestBarrierRetainSources(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 0)
	old := retainedID(60 * testDay)
	settledTry(t, b, old)
	tell := func(source string, floor *saga.ID, retention *string) {
		var id pgtype.UUID
		if floor != nil {
			id = uuid(*floor)
		}
		if _, err := pool.Exec(t.Context(), `SELECT saga.barrier_tell($1, $2, $3::interval)`, source, id, retention); err != nil {
			t.Fatal(err)
		}
	}
	month, now := "30 days", retainedID(0)
	stays := func(why, blocked string) {
		t.Helper()
		if a := mustRetain(t, pool, now); a.blocked.String != blocked || a.dropped+a.deleted > 0 {
			t.Errorf("%s: %+v", why, a)
		}
		if row := barrierRowOf(t, pool, old); row.State != saga.BarrierTried {
			t.Errorf("%s: the row is gone", why)
		}
	}
	tell("other.stock", nil, &month)
	stays("the other has got no command yet", "other.stock")
	tell("other.stock", &now, nil)
	stays("the other keeps rows for ever", "other.stock")
	running := retainedID(70 * testDay)
	tell("other.stock", &running, &month)
	stays("the other's coordinator runs an old transaction", "")
	tell("other.stock", &now, &month)
	future := saga.FirstIDAt(time.Now().Add(1000 * testDay))
	if a := mustRetain(t, pool, future); a.deleted != 1 || time.Since(saga.ID(a.floor.Bytes).Time()) < 30*testDay-time.Minute {
		t.Errorf("with a Saga-Floor from the future: %+v", a)
	}
	if _, err := pool.Exec(t.Context(), `SELECT saga.barrier_retain('x', NULL, interval '10 minutes')`); pg.Code(err) != "SG002" {
		t.Errorf("a period that is too short: %v", err)
	}
}

// An operation under way is not overtaken: retention gives up and changes nothing. One that comes while a partition goes
// waits, and is not executed.
func TestBarrierRetainRaces(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 10*time.Second)
	id := retainedID(60 * testDay)
	makeWeek(t, pool, id)
	cmd := barrierCommand(id, saga.PhaseTry)
	cmd.Kind = saga.KindSaga
	e, err := b.Enter(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	now := retainedID(0)
	if _, err := tryRetain(t.Context(), pool, "saga.accounts", now); pg.Code(err) != "55P03" {
		t.Errorf("while an operation is under way: %v", err)
	}
	var floor [16]byte
	if err := pool.QueryRow(t.Context(), `SELECT floor FROM saga.barrier_floor`).Scan(&floor); err != nil || !saga.ID(floor).IsZero() {
		t.Errorf("the floor is %s without the drop, %v", saga.ID(floor), err)
	}
	if _, err := e.Conclude(t.Context(), barrierDone(saga.PhaseTry)); err != nil {
		t.Fatal(err)
	}

	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, err := tryRetain(t.Context(), tx, "saga.accounts", now); err != nil || a.dropped != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	fresh := cmd
	fresh.Transaction = retainedID(60 * testDay) // a copy that was late for two months
	answers := make(chan saga.Reply, 1)
	go func() {
		reply, err := barrierExecute(context.WithoutCancel(t.Context()), b, fresh, barrierDone(saga.PhaseTry))
		if err != nil {
			t.Error(err)
		}
		answers <- reply
	}()
	pid := tx.Conn().PgConn().PID()
	for blocked := false; !blocked; {
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l WHERE NOT l.granted AND $1 = ANY (pg_blocking_pids(l.pid)))`, int32(pid)).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reply := <-answers; reply.Code != saga.FaultPastRetention {
		t.Errorf("answered %+v", reply)
	}
	if n := barrierEffectsOf(t, pool, fresh.Transaction, saga.PhaseTry); n != 0 {
		t.Errorf("%d effects below the floor", n)
	}
}

// Statements look in the partition of their transaction only, with a plan that is made once.
func TestBarrierPartitionPlans(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	for _, sql := range []string{
		`SET LOCAL enable_seqscan = off`, `SET LOCAL plan_cache_mode = force_generic_plan`,
		`PREPARE enter AS SELECT * FROM saga.barrier b WHERE b.transaction_id = $1 AND b.step = $2 AND b.tenant = $3 FOR NO KEY UPDATE`,
		`PREPARE leave AS UPDATE saga.barrier b SET state = 'x' WHERE b.transaction_id = $1 AND b.step = $2 AND b.tenant = $3`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"enter", "leave"} {
		rows, err := tx.Query(t.Context(), fmt.Sprintf(`EXPLAIN EXECUTE %s('%s', 's', 't')`, name, retainedID(0)), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, "Subplans Removed: ") || strings.Count(plan, "Index Scan") != 1 {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
	// The functions do the same: nothing but this week's partition is read.
	b := NewBarrier(pool, 0)
	for range 8 {
		id := retainedID(0)
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseTry, saga.PhaseConfirm, saga.PhaseConfirm} {
			mustExecute(t, b, barrierCommand(id, phase), barrierDone(phase))
		}
	}
	var names string
	poolStats := `SELECT coalesce(string_agg(relname || ' ' || coalesce(idx_scan, 0) + seq_scan, ', '), '') FROM pg_stat_user_tables
		WHERE schemaname = 'saga' AND (relname = 'barrier_rest' OR relname ~ '^barrier_w' AND relname <> 'barrier_w' || floor(extract(epoch FROM clock_timestamp()) / 604800))
		  AND coalesce(idx_scan, 0) + seq_scan > 1`
	for range int(pool.Stat().MaxConns()) {
		if _, err := pool.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
	}
	if err := pool.QueryRow(t.Context(), poolStats).Scan(&names); err != nil || names != "" {
		t.Errorf("other partitions were read: %s %v", names, err)
	}
}
