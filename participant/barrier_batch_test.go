package participant

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// TestBatchAgrees: B8. saga.barrier_enter_all lets an operation pass beside another one exactly if saga.Admit lets it run,
// and saga.barrier_leave_all leaves the row that saga.Conclude leaves; the other one is stored too.
func TestBatchAgrees(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	ran, refused := 0, 0
	for i, c := range agreeCases() {
		if c.lease || c.cmd.Verb != saga.VerbExecute {
			continue
		}
		beside := barrierCommand(c.id, saga.PhaseTry)
		beside.Step, beside.Kind = "beside", saga.KindSaga
		beside.Transaction[0]++ // above the floor
		row, entered, err := c.sqlBatch(t.Context(), tx, beside, i%3 == 0)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		v, _, wantRow := c.pure()
		reserved := c.row.State == saga.BarrierAbsent && c.cmd.Phase == saga.PhaseTry // has a row: it is entered by itself
		if runs := v.Do == saga.DoRun; entered && !runs || runs && !entered && !reserved {
			t.Fatalf("%s: entered %t, saga says %s", c.name, entered, v.Do)
		}
		if !entered {
			refused++
			continue
		}
		ran++
		if barrierText(row) != barrierText(wantRow) {
			t.Fatalf("%s: SQL leaves\n %s, saga leaves\n %s", c.name, barrierText(row), barrierText(wantRow))
		}
	}
	if ran < 100 || refused < 100 {
		t.Errorf("%d ran and %d did not", ran, refused)
	}
}

// sqlBatch enters and leaves the case beside another operation, or alone, and rolls back to where it began.
func (c agreeCase) sqlBatch(ctx context.Context, tx pgx.Tx, beside saga.Command, alone bool) (row saga.BarrierRow, entered bool, err error) {
	var batch pgx.Batch
	batch.Queue("SAVEPOINT c")
	if c.row.State != "" {
		insert, args := barrierInsert(c.id, c.row)
		batch.Queue(insert, args...)
	}
	if c.row.PastRetention {
		above := c.id
		above[15]++
		batch.Queue("UPDATE saga.barrier_floor SET floor = $1", [16]byte(above))
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return row, false, err
	}
	work := []*queued{c.queued()}
	if !alone {
		other := agreeCase{cmd: beside, ran: barrierDone(saga.PhaseTry)}
		work = append(work, other.queued())
	}
	batch = pgx.Batch{}
	batch.Queue(sqlEnterAll, enterAllArgs(work, time.Second)...)
	err = tx.SendBatch(ctx, &batch).Close()
	entered = err == nil
	batch = pgx.Batch{}
	if entered {
		batch.Queue(sqlLeaveAll, leaveAllArgs(work)...)
		batch.Queue(barrierSelect, [16]byte(c.id)).QueryRow(func(r pgx.Row) (err error) {
			row, err = barrierScan(r)
			return err
		})
		if !alone {
			batch.Queue("SELECT state FROM saga.barrier WHERE step = 'beside'").QueryRow(func(r pgx.Row) error {
				var state string
				if err := r.Scan(&state); err != nil || state != string(saga.BarrierTried) {
					return errors.Join(err, errors.New("the operation beside it is "+state))
				}
				return nil
			})
		}
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return row, entered, err
		}
	} else if code := pg.Code(err); code != stateNotAll && code != stateNotLeft {
		return row, entered, err
	}
	_, err = tx.Exec(ctx, "ROLLBACK TO SAVEPOINT c")
	return row, entered, err
}

func (c agreeCase) queued() *queued {
	verdict, _ := saga.Conclude(saga.BarrierRow{}, c.cmd, c.ran)
	return &queued{member: &member{job: &job{cmd: c.cmd}, reply: verdict.Reply}}
}

// A trial that fails is left alone for longer and longer, and is tried again.
func TestTrial(t *testing.T) {
	t.Parallel()
	var tr trial
	tried := 0
	for range 1000 {
		if tr.worth() {
			tried++
			tr.learn(false)
		}
	}
	if tried < 10 || tried > 30 {
		t.Errorf("tried %d times of 1000", tried)
	}
	for range 200 {
		if tr.worth() {
			tr.learn(true)
		}
	}
	for range 10 {
		if !tr.worth() {
			t.Fatal("not tried after successes")
		}
		tr.learn(true)
	}
}

// Arrays that are not of one length are refused: what is missing in one of them would be entered without it.
func TestBatchArrays(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	work := []*queued{agreeCase{cmd: barrierCommand(barrierID(), saga.PhaseTry), ran: barrierDone(saga.PhaseTry)}.queued()}
	work = append(work, agreeCase{cmd: barrierCommand(barrierID(), saga.PhaseTry), ran: barrierDone(saga.PhaseTry)}.queued())
	for name, c := range map[string]struct {
		sql  string
		args []any
		skip int // arguments behind the arrays
	}{"enter": {sqlEnterAll, enterAllArgs(work, time.Second), 1}, "leave": {sqlLeaveAll, leaveAllArgs(work), 0}} {
		one := enterAllArgs(work[:1], time.Second)
		if name == "leave" {
			one = leaveAllArgs(work[:1])
		}
		for i := range len(c.args) - c.skip {
			for _, bad := range []any{one[i], nil} {
				args := slices.Clone(c.args)
				args[i] = bad
				if _, err := pool.Exec(t.Context(), c.sql, args...); pg.Code(err) != "SG002" {
					t.Errorf("%s, array %d: %v", name, i, err)
				}
			}
		}
	}
}
