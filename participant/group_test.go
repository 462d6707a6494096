package participant_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// grouped makes groups of what a test sends: the first command of a batch holds the only group until the others wait.
type grouped struct {
	*kit
	p       *participant.Participant
	gate    chan struct{} // lets the first command go
	begun   chan struct{} // the first command runs
	waiting chan int
	runs    sync.Map // of handlers, by operation
}

const groupMax = 16

// newGrouped returns a participant with the actions gate and take, whose result is the instant at which its local
// transaction began.
func newGrouped(k *kit, handlerLimit time.Duration) *grouped {
	g := &grouped{kit: k, gate: make(chan struct{}), begun: make(chan struct{}, 100), waiting: make(chan int, 1000)}
	g.p = k.bank(func(c *participant.Config) { c.GroupMax = groupMax; c.HandlerTimeout = 2 * handlerLimit })
	participant.OneGroupAtATime(g.p, handlerLimit)
	participant.OnGather(g.p, func(n int) { g.waiting <- n })
	handleTry(g.p, "gate", func(context.Context, pgx.Tx) (string, error) {
		g.begun <- struct{}{}
		<-g.gate
		return "open", nil
	})
	g.handle("take", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sqlTake)
		return err
	})
	return g
}

// handle adds an action with a try. Its runs are counted.
func (g *grouped) handle(action string, f func(ctx context.Context, tx pgx.Tx) error) {
	participant.Handle(g.p, action, participant.Pivot[participant.None, string]{
		Try: func(ctx context.Context, tx pgx.Tx, c participant.Call[participant.None]) (began string, err error) {
			n, _ := g.runs.LoadOrStore(c.Key(), new(int))
			*n.(*int)++ //nolint:forcetypeassert // stored above
			if err := tx.QueryRow(ctx, `SELECT now()::text`).Scan(&began); err != nil {
				return "", err
			}
			return began, f(ctx, tx)
		},
	})
}

func (g *grouped) runsOf(c saga.Command) int {
	n, ok := g.runs.Load(c.Key().String())
	if !ok {
		return 0
	}
	return *n.(*int) //nolint:forcetypeassert // see handle
}

// commands returns one command for each action, in the order in which a group carries them out.
func (g *grouped) commands(actions ...string) []saga.Command {
	cmds := make([]saga.Command, len(actions))
	ids := make([]saga.ID, len(actions))
	for i := range ids {
		ids[i] = newID()
	}
	slices.SortFunc(ids, func(a, b saga.ID) int { return bytes.Compare(a[:], b[:]) })
	for i, action := range actions {
		cmds[i] = g.command(action, saga.KindPivot, saga.PhaseTry, nil)
		cmds[i].Transaction = ids[i]
	}
	return cmds
}

// together sends commands so that they are in one group.
func (g *grouped) together(cmds ...saga.Command) {
	g.t.Helper()
	gate := g.command("gate", saga.KindPivot, saga.PhaseTry, nil)
	g.send(gate)
	wait(g.t, "the gate", g.begun)
	for len(g.waiting) > 0 {
		<-g.waiting
	}
	g.send(cmds...)
	for n := 0; n < len(cmds); {
		n = wait(g.t, "commands that wait", g.waiting)
	}
	g.gate <- struct{}{}
}

// What one command of a group does leaves the others as they are. What ends the group's transaction is not answered from
// it: each command runs again by itself, and has one effect.
func TestGroup(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	exec := func(sql string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		}
	}
	takeAnd := func(err error) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { return errors.Join(exec(sqlTake)(ctx, tx), err) }
	}
	tests := []struct {
		name    string
		try     func(context.Context, pgx.Tx) error
		outcome saga.Outcome
		code    string
		breaks  bool // the group
		runs    int
	}{
		{"done", exec(sqlTake), saga.OutcomeDone, "", false, 1},
		{"refused", takeAnd(participant.Refuse("no", boom)), saga.OutcomeRefused, "no", false, 1},
		{"refused after a failed statement", func(ctx context.Context, tx pgx.Tx) error {
			return participant.Refuse("no", errors.Join(exec(sqlTake)(ctx, tx), exec(sqlFails)(ctx, tx)))
		}, saga.OutcomeRefused, "no", false, 1},
		{"retry", takeAnd(participant.RetryAfter(time.Second, boom)), saga.OutcomeRetry, saga.CodeError, false, 1},
		{"fault", takeAnd(participant.Fault(boom)), saga.OutcomeFault, saga.FaultHandler, false, 1},
		{"panic", func(ctx context.Context, tx pgx.Tx) error {
			_ = exec(sqlTake)(ctx, tx)
			panic("boom")
		}, saga.OutcomeRetry, saga.CodePanic, false, 1},
		{"Goexit", func(context.Context, pgx.Tx) error { runtime.Goexit(); return nil }, saga.OutcomeRetry, saga.CodePanic, false, 1},
		{"syntax error", exec("SELEC"), saga.OutcomeRetry, saga.CodeError, false, 1},
		{"failed statement that is not returned", func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, sqlFails)
			return nil
		}, saga.OutcomeRetry, saga.CodeError, false, 1},
		{"Commit", func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, sqlTake)
			_ = tx.Commit(ctx)
			return nil
		}, saga.OutcomeFault, saga.FaultHandler, false, 1},
		{"savepoint left open", func(ctx context.Context, tx pgx.Tx) error {
			nested, err := tx.Begin(ctx)
			if err == nil {
				_, err = nested.Exec(ctx, sqlTake)
			}
			return err
		}, saga.OutcomeDone, "", false, 1},
		{"lock that is not granted", exec("DO $$ BEGIN RAISE lock_not_available; END $$"), saga.OutcomeRetry, saga.CodeBusy, false, 2},
		{"lock that is not granted, and refused for it", func(ctx context.Context, tx pgx.Tx) error {
			var n int
			return participant.Refuse("locked", tx.QueryRow(ctx, "SELECT 1 FROM bank.accounts WHERE id = 'alice' FOR UPDATE").Scan(&n))
		}, saga.OutcomeRefused, "locked", false, 1},
		{"ROLLBACK by SQL", exec("ROLLBACK"), saga.OutcomeFault, saga.FaultHandler, true, 2},
		{"COMMIT by SQL", exec("COMMIT"), saga.OutcomeFault, saga.FaultHandler, true, 1},
		{"its savepoint taken away", exec("RELEASE SAVEPOINT saga_operation"), saga.OutcomeRetry, saga.CodeError, true, 2},
		{"connection cut", exec("SELECT pg_terminate_backend(pg_backend_pid())"), "", "", true, 2},
		{"COMMIT that fails", exec("INSERT INTO late VALUES (1), (1)"), saga.OutcomeRetry, saga.CodeError, true, 2},
	}
	k := newKit(t)
	if _, err := k.pool.Exec(t.Context(), `CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	g := newGrouped(k, waitTimeout)
	cuts := 0
	for i, test := range tests {
		if test.outcome == "" { // only its first run
			cut := test.try
			test.try = func(ctx context.Context, tx pgx.Tx) error {
				if cuts++; cuts > 1 {
					return nil
				}
				return cut(ctx, tx)
			}
			tests[i].outcome = saga.OutcomeDone
		}
		g.handle(fmt.Sprintf("a%d", i), test.try)
	}
	k.run(g.p)
	for i, test := range tests {
		if t.Failed() {
			return
		}
		t.Run(test.name, func(t *testing.T) {
			before := k.balance()
			cmds := g.commands("take", "take", fmt.Sprintf("a%d", i), "take", "take")
			g.together(cmds...)
			odd := cmds[2]
			r := k.reply(odd)
			want(t, r, test.outcome, test.code)
			if n := g.runsOf(odd); n != test.runs && (test.name != "COMMIT that fails" || n < 2) {
				t.Errorf("it ran %d times, want %d", n, test.runs)
			}
			transactions := map[string]bool{}
			for _, c := range slices.Concat(cmds[:2], cmds[3:]) {
				r := k.reply(c)
				want(t, r, saga.OutcomeDone, "")
				transactions[string(r.Result.Data)] = true
				if n := g.runsOf(c); !test.breaks && n != 1 {
					t.Errorf("another one ran %d times", n)
				}
				if again := k.do(again(c)); !again.Replayed || !bytes.Equal(again.Result.Data, r.Result.Data) {
					t.Errorf("then %+v", again)
				}
			}
			if !test.breaks && len(transactions) != 1 {
				t.Errorf("the others were committed in %d transactions: %v", len(transactions), transactions)
			}
			took := 4
			if strings.HasPrefix(test.name, "done") || strings.HasPrefix(test.name, "savepoint") {
				took = 5
			}
			if n := before - k.balance(); n != took {
				t.Errorf("%d effects, want %d", n, took)
			}
			stored := test.outcome == saga.OutcomeDone || test.outcome == saga.OutcomeRefused
			if r := k.do(again(odd)); r.Replayed != stored {
				t.Errorf("then %+v", r)
			}
		})
	}
}

// A handler that takes long does not keep the others of its group for long: the group is given up, the others run by
// themselves, and so does it, with all of its time. Its action is not in groups for a while.
func TestGroupWithSlowHandler(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %t", deaf), func(t *testing.T) {
			k := newKit(t)
			g := newGrouped(k, 300*time.Millisecond)
			release := make(chan struct{})
			slowRuns := make(chan struct{}, 10)
			g.handle("slow", func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, sqlTake)
				slowRuns <- struct{}{}
				if len(slowRuns) > 1 {
					return err
				}
				if deaf {
					<-release
					return nil
				}
				_, err = tx.Exec(ctx, "SELECT pg_sleep(60)")
				return err
			})
			defer close(release)
			k.run(g.p)
			cmds := g.commands("take", "slow", "take")
			g.together(cmds...)
			for _, c := range cmds {
				want(t, k.reply(c), saga.OutcomeDone, "")
			}
			if n := g.runsOf(cmds[1]); n != 2 {
				t.Errorf("the slow one ran %d times", n)
			}
			if b := k.balance(); b != seedCents-3 {
				t.Errorf("balance %d", b)
			}
			for len(g.waiting) > 0 {
				<-g.waiting
			}
			slow := g.commands("slow")[0]
			want(t, k.do(slow), saga.OutcomeDone, "")
			if len(g.waiting) > 0 {
				t.Error("its action is in groups again")
			}
		})
	}
}

// A group whose time is over commits what it has; the others come next.
func TestGroupCommitsEarly(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	g := newGrouped(k, waitTimeout)
	participant.NoGroupTime(g.p)
	k.run(g.p)
	cmds := g.commands("take", "take", "take")
	g.together(cmds...)
	transactions := map[string]bool{}
	for _, c := range cmds {
		r := k.reply(c)
		want(t, r, saga.OutcomeDone, "")
		transactions[string(r.Result.Data)] = true
	}
	for _, c := range cmds {
		if n := g.runsOf(c); n != 1 {
			t.Errorf("%d runs", n)
		}
	}
	if len(transactions) != len(cmds) {
		t.Errorf("%d transactions", len(transactions))
	}
}

// M3, I-1, I-3: two processes with groups that lock the same rows in all orders, on copies of all phases in any order:
// one effect of each operation, and all of them end.
func TestGroupsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	in := func(c *participant.Config) { c.GroupMax = groupMax }
	k.run(k.bank(in))
	k.run(k.bank(in))
	var cmds []saga.Command
	for i := range 60 {
		move := bank.Move{Account: []string{"alice", "bob"}[i%2], Cents: 10}
		try := k.command("debit", saga.KindTCC, saga.PhaseTry, move)
		cmds = append(cmds, try, again(try), with(try, []saga.Phase{saga.PhaseCancel, saga.PhaseConfirm}[i%3%2], move))
	}
	k.send(cmds...)
	for _, c := range cmds {
		k.reply(c)
	}
	repeated, err := bank.Repeated(t.Context(), k.pool)
	if err != nil || len(repeated) > 0 {
		t.Errorf("effects that happened twice: %v %v", repeated, err)
	}
	wantRecorded(t, k)
}

// wantRecorded wants a record of each effect of the bank, and an effect of each record (M2).
func wantRecorded(t *testing.T, k *kit) {
	t.Helper()
	const differ = `
WITH effects AS (SELECT transaction_id, step, tenant, phase FROM bank.effects),
     records AS (SELECT transaction_id, step, tenant, 'try' AS phase FROM saga.barrier
                  WHERE try_outcome = 'done' AND convert_from(try_result, 'UTF8') <> '"open"' -- the gate has no effect
                 UNION ALL SELECT transaction_id, step, tenant, 'confirm' FROM saga.barrier WHERE confirm_sha256 IS NOT NULL
                 UNION ALL SELECT transaction_id, step, tenant, 'cancel' FROM saga.barrier WHERE state = 'cancelled')
SELECT (SELECT count(*) FROM (TABLE effects EXCEPT ALL TABLE records) AS x), (SELECT count(*) FROM (TABLE records EXCEPT ALL TABLE effects) AS x)`
	var effects, records int
	if err := k.pool.QueryRow(t.Context(), differ).Scan(&effects, &records); err != nil {
		t.Fatal(err)
	}
	if effects != 0 || records != 0 {
		t.Errorf("%d effects without a record, %d records without an effect (M2)", effects, records)
	}
}
