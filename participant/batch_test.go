package participant_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/pgproxy"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// newBatched is newGrouped with the action queue, whose handler queues one statement.
func newBatched(k *kit) *grouped {
	g := newGrouped(k, waitTimeout)
	g.queue("queue", func(b *pgx.Batch) error { b.Queue(sqlTake); return nil })
	return g
}

// queue adds an action whose handler queues.
func (g *grouped) queue(action string, f func(*pgx.Batch) error) {
	participant.Handle(g.p, action, participant.BatchPivot[participant.None, string]{
		Try: func(b *pgx.Batch, _ participant.Call[participant.None], _ *string) error { return f(b) },
	})
}

// committedIn returns the number of local transactions that the barrier rows of the commands were last written by.
func (g *grouped) committedIn(cmds ...saga.Command) (n int) {
	g.t.Helper()
	var ids [][16]byte
	for _, c := range cmds {
		ids = append(ids, c.Transaction)
	}
	if err := g.pool.QueryRow(g.t.Context(), "SELECT count(DISTINCT xmin::text) FROM saga.barrier WHERE transaction_id = ANY ($1)", ids).Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// What one command of a batch does leaves the others as they are: whatever its handler does, its answer is the one that it
// gets by itself, and the others have one effect each. What is done, or refused before anything was queued, shares the
// transaction of the others.
func TestBatch(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	returns := func(err error) func(*pgx.Batch) error {
		return func(b *pgx.Batch) error {
			b.Queue(sqlTake).Exec(func(pgconn.CommandTag) error { return err })
			return nil
		}
	}
	tests := []struct {
		name    string
		try     func(*pgx.Batch) error
		outcome saga.Outcome
		code    string
		shares  bool // the transaction of the others
		effects int
	}{
		{"done", returns(nil), saga.OutcomeDone, "", true, 1},
		{"done without a statement", func(*pgx.Batch) error { return nil }, saga.OutcomeDone, "", true, 0},
		{"refused", func(b *pgx.Batch) error { b.Queue(sqlTake); return participant.Refuse("no", boom) }, saga.OutcomeRefused, "no", true, 0},
		{"refused by a callback", returns(participant.Refuse("no", boom)), saga.OutcomeRefused, "no", false, 0},
		{"retry", func(*pgx.Batch) error { return participant.RetryAfter(time.Second, boom) }, saga.OutcomeRetry, saga.CodeError, false, 0},
		{"retry by a callback", returns(participant.RetryAfter(time.Second, boom)), saga.OutcomeRetry, saga.CodeError, false, 0},
		{"fault", func(*pgx.Batch) error { return participant.Fault(boom) }, saga.OutcomeFault, saga.FaultHandler, false, 0},
		{"panic", func(*pgx.Batch) error { panic("boom") }, saga.OutcomeRetry, saga.CodePanic, false, 0},
		{"panic of a callback", func(b *pgx.Batch) error {
			b.Queue(sqlTake).Exec(func(pgconn.CommandTag) error { panic("boom") })
			return nil
		}, saga.OutcomeRetry, saga.CodePanic, false, 0},
		{"syntax error", func(b *pgx.Batch) error { b.Queue(sqlTake); b.Queue("SELEC"); return nil }, saga.OutcomeRetry, saga.CodeError, false, 0},
		{"failed statement", func(b *pgx.Batch) error { b.Queue(sqlTake); b.Queue(sqlFails); return nil }, saga.OutcomeRetry, saga.CodeError, false, 0},
		{"COMMIT", func(b *pgx.Batch) error { b.Queue(sqlTake); b.Queue(" commit ;"); return nil }, saga.OutcomeFault, saga.FaultHandler, false, 0},
		{"ROLLBACK behind comments", func(b *pgx.Batch) error {
			b.Queue("-- x\n /* y /* z */ */ ROLLBACK/**/").Exec(func(pgconn.CommandTag) error { return nil })
			b.Queue(sqlTake)
			return nil
		}, saga.OutcomeFault, saga.FaultHandler, false, 0},
		{"savepoint", func(b *pgx.Batch) error { b.Queue("\fSAVEPOINT mine"); return nil }, saga.OutcomeFault, saga.FaultHandler, false, 0},
		{"nil", func(b *pgx.Batch) error { b.QueuedQueries = append(b.QueuedQueries, nil); return nil }, saga.OutcomeFault, saga.FaultHandler, false, 0},
		{"callback that queues", func(b *pgx.Batch) error {
			b.Queue(sqlTake).Exec(func(pgconn.CommandTag) error { b.Queue(sqlTake); return nil })
			return nil
		}, saga.OutcomeFault, saga.FaultHandler, false, 0},
		{"Goexit of a callback", func(b *pgx.Batch) error {
			b.Queue(sqlTake).Exec(func(pgconn.CommandTag) error { runtime.Goexit(); return nil })
			return nil
		}, saga.OutcomeRetry, saga.CodePanic, false, 0},
		{"COMMIT that fails", func(b *pgx.Batch) error {
			b.Queue(sqlTake)
			b.Queue("INSERT INTO late VALUES (1), (1)")
			return nil
		}, saga.OutcomeRetry, saga.CodeError, false, 0},
		{"lock that is not granted", func(b *pgx.Batch) error {
			b.Queue("DO $$ BEGIN RAISE lock_not_available; END $$")
			return nil
		}, saga.OutcomeRetry, saga.CodeBusy, false, 0},
	}
	k := newKit(t)
	if _, err := k.pool.Exec(t.Context(), `CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	g := newBatched(k)
	for i, test := range tests {
		g.queue(fmt.Sprintf("a%d", i), test.try)
	}
	k.run(g.p)
	for i, test := range tests {
		if t.Failed() {
			return
		}
		t.Run(test.name, func(t *testing.T) {
			participant.TryBatches(g.p)
			before := k.balance()
			cmds := g.commands("queue", "queue", fmt.Sprintf("a%d", i), "queue", "take", "queue")
			g.together(cmds...)
			for n, c := range cmds {
				r := k.reply(c)
				if n == 2 {
					want(t, r, test.outcome, test.code)
				} else {
					want(t, r, saga.OutcomeDone, "")
				}
				stored := r.Outcome == saga.OutcomeDone || r.Outcome == saga.OutcomeRefused
				if again := k.do(again(c)); again.Replayed != stored {
					t.Errorf("then %+v", again)
				}
			}
			if n := before - k.balance(); n != 5+test.effects {
				t.Errorf("%d effects, want %d", n, 5+test.effects)
			}
			batch := slices.Concat(cmds[:4], cmds[5:])
			if n := g.committedIn(batch...); test.shares && n != 1 {
				t.Errorf("they were committed in %d transactions", n)
			}
		})
	}
}

// A try whose cancel came first, beside others: it is hanging, the others run once.
func TestBatchWithAHangingTry(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	g := newBatched(k)
	k.run(g.p)
	cmds := g.commands("queue", "queue", "queue")
	want(t, k.do(with(cmds[1], saga.PhaseCancel, nil)), saga.OutcomeDone, "")
	g.together(cmds...)
	want(t, k.reply(cmds[0]), saga.OutcomeDone, "")
	want(t, k.reply(cmds[1]), saga.OutcomeHanging, "")
	want(t, k.reply(cmds[2]), saga.OutcomeDone, "")
	if n := seedCents - k.balance(); n != 2 {
		t.Errorf("%d effects", n)
	}
}

// M2, X1: the connection is cut in each of the round trips of a batch, which are one, or two if a callback has a say, before
// the server has seen it or without its answer. Every command takes effect once.
func TestBatchIsCut(t *testing.T) {
	t.Parallel()
	for _, callback := range []bool{false, true} {
		k := newKit(t)
		x, g := newCutter(k, newBatched)
		g.queue("sees", func(b *pgx.Batch) error {
			b.Queue(sqlTake).Exec(func(pgconn.CommandTag) error { return nil })
			return nil
		})
		action, trips := "queue", 1
		if callback {
			action, trips = "sees", 2
		}
		r := k.run(g.p)
		t.Cleanup(x.pool.Close)
		t.Cleanup(r.stop)
		for range 2 { // so that the statements are prepared
			want(t, k.do(g.commands(action)[0]), saga.OutcomeDone, "")
		}
		// Counting first: the round trips of a batch without a cut, those of the gate's end included.
		x.next.Store(1000)
		cmds := g.commands(action, action, action)
		g.together(cmds...)
		for _, c := range cmds {
			want(t, k.reply(c), saga.OutcomeDone, "")
		}
		if n := int(x.count.Load()); n != 1+trips { // the commit of the gate's own group
			t.Errorf("callback %t: %d round trips, want %d", callback, n-1, trips)
		}
		for _, how := range []pgproxy.Cut{pgproxy.Before, pgproxy.After, pgproxy.Middle} {
			for trip := range trips {
				if t.Failed() {
					return
				}
				t.Run(fmt.Sprintf("callback %t, cut %d in round trip %d", callback, how, trip+1), func(t *testing.T) {
					participant.TryBatches(g.p)
					x.cut.Store(int32(how))
					x.next.Store(int32(trip + 2))
					before := k.balance()
					cmds := g.commands(action, action, action)
					g.together(cmds...)
					for _, c := range cmds {
						want(t, k.reply(c), saga.OutcomeDone, "")
					}
					if n := before - k.balance(); n != len(cmds) {
						t.Errorf("%d effects, want %d", n, len(cmds))
					}
					if x.armed.Load() != 0 {
						t.Errorf("nothing was cut: %d round trips", x.count.Load())
					}
				})
			}
		}
	}
}

// Without groups a command whose handler queues is carried out in one local transaction of its own: all outcomes of all
// phases are those that any other handler has.
func TestBatchOfOne(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.bank(func(*participant.Config) {})
	queue := func(b *pgx.Batch) error { b.Queue(sqlTake); return nil }
	participant.Handle(p, "hold", participant.BatchTCC[participant.None, string]{
		Try: func(b *pgx.Batch, _ participant.Call[participant.None], out *string) error {
			b.Queue(sqlTake + " RETURNING 'the result'").QueryRow(func(r pgx.Row) error { return r.Scan(out) })
			return nil
		},
		Confirm: func(b *pgx.Batch, c participant.Settle[participant.None, string]) error {
			if c.Try != nil && *c.Try != "the result" {
				return fmt.Errorf("the try returned %q", *c.Try)
			}
			return queue(b)
		},
		Cancel: func(b *pgx.Batch, _ participant.Settle[participant.None, string]) error { return queue(b) },
	})
	k.run(p)
	for _, settle := range []saga.Phase{saga.PhaseConfirm, saga.PhaseCancel} {
		before := k.balance()
		try := k.command("hold", saga.KindTCC, saga.PhaseTry, nil)
		r := k.do(try)
		want(t, r, saga.OutcomeDone, "")
		if string(r.Result.Data) != `"the result"` {
			t.Errorf("the result is %s", r.Result.Data)
		}
		end := with(try, settle, nil)
		want(t, k.do(end), saga.OutcomeDone, "")
		for _, c := range []saga.Command{again(try), again(end)} {
			r := k.do(c)
			wantOutcome := saga.OutcomeDone
			if settle == saga.PhaseCancel && c.Phase == saga.PhaseTry {
				wantOutcome = saga.OutcomeHanging
			} else if !r.Replayed {
				t.Errorf("%s was done again", c.Phase)
			}
			want(t, r, wantOutcome, "")
		}
		if n := before - k.balance(); n != 2 {
			t.Errorf("%d effects", n)
		}
	}
	// A cancel of what never ran is kept, and a try that comes later is refused.
	never := k.command("hold", saga.KindTCC, saga.PhaseTry, nil)
	want(t, k.do(with(never, saga.PhaseCancel, nil)), saga.OutcomeDone, "")
	want(t, k.do(never), saga.OutcomeHanging, "")
}

// explosive is a result that cannot be encoded.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

// A result whose encoding panics, and a callback that does not return, cost their own command, not the process and not
// the others.
func TestBatchSurvivesUserCode(t *testing.T) {
	t.Parallel()
	for _, groupMax := range []int{0, groupMax} {
		for _, callback := range []bool{false, true} {
			t.Run(fmt.Sprintf("GroupMax %d, callback %t", groupMax, callback), func(t *testing.T) {
				t.Parallel()
				k := newKit(t)
				p := k.bank(func(c *participant.Config) {
					c.GroupMax, c.HandlerTimeout, c.Concurrency = groupMax, time.Second, 4
				})
				participant.OneGroupAtATime(p, 100*time.Millisecond)
				release := make(chan struct{})
				participant.Handle(p, "explode", participant.BatchPivot[participant.None, explosive]{
					Try: func(b *pgx.Batch, _ participant.Call[participant.None], _ *explosive) error {
						q := b.Queue(sqlTake)
						if callback {
							q.Exec(func(pgconn.CommandTag) error { return nil })
						}
						return nil
					},
				})
				participant.Handle(p, "block", participant.BatchPivot[participant.None, string]{
					Try: func(b *pgx.Batch, _ participant.Call[participant.None], _ *string) error {
						if !callback {
							<-release
						}
						b.Queue("SELECT 1").Exec(func(pgconn.CommandTag) error { <-release; return nil }) // without locks that others wait for
						return nil
					},
				})
				participant.Handle(p, "queue", participant.BatchPivot[participant.None, string]{
					Try: func(b *pgx.Batch, _ participant.Call[participant.None], _ *string) error {
						b.Queue(sqlTake)
						return nil
					},
				})
				k.run(p)
				defer close(release)
				var cmds []saga.Command
				for _, action := range []string{"queue", "explode", "block", "queue", "block", "queue", "explode", "queue"} {
					cmds = append(cmds, k.command(action, saga.KindPivot, saga.PhaseTry, nil))
				}
				k.send(cmds...)
				for _, c := range cmds {
					switch r := k.reply(c); c.Action {
					case "explode":
						want(t, r, saga.OutcomeRetry, saga.CodePanic)
					case "block":
						want(t, r, saga.OutcomeRetry, participant.CodeTimeout)
					default:
						want(t, r, saga.OutcomeDone, "")
					}
				}
				if n := seedCents - k.balance(); n != 4 {
					t.Errorf("%d effects, want 4", n)
				}
			})
		}
	}
}

// A batch that a handler sends by itself cannot end the transaction in its middle: what stands behind would have its effect
// without a record, each time again (M2).
func TestSendBatchThatEndsTheTransaction(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.bank(func(*participant.Config) {})
	for i, end := range []string{"ROLLBACK", "/* x */ COMMIT", "END", "rollback work"} {
		handleTry(p, fmt.Sprintf("end%d", i), func(ctx context.Context, tx pgx.Tx) (string, error) {
			var b pgx.Batch
			b.Queue(end)
			b.Queue(sqlTake)
			return "", tx.SendBatch(ctx, &b).Close()
		})
	}
	handleTry(p, "savepoint", func(ctx context.Context, tx pgx.Tx) (string, error) {
		var b pgx.Batch
		for _, sql := range []string{"SAVEPOINT mine", sqlTake, "ROLLBACK TO SAVEPOINT mine", sqlTake, "RELEASE mine"} {
			b.Queue(sql)
		}
		return "", tx.SendBatch(ctx, &b).Close()
	})
	k.run(p)
	for i := range 4 {
		want(t, k.do(k.command(fmt.Sprintf("end%d", i), saga.KindPivot, saga.PhaseTry, nil)), saga.OutcomeFault, saga.FaultHandler)
	}
	if n := seedCents - k.balance(); n != 0 {
		t.Errorf("%d effects", n)
	}
	want(t, k.do(k.command("savepoint", saga.KindPivot, saga.PhaseTry, nil)), saga.OutcomeDone, "")
	if n := seedCents - k.balance(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}
