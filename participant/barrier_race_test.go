package participant

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// raceOps are the operations of every pair.
var raceOps = []string{"try", "confirm", "cancel", "inquire"}

func raceCommand(id saga.ID, op string) saga.Command {
	if op == "inquire" {
		cmd := barrierCommand(id, saga.PhaseTry)
		cmd.Verb = saga.VerbInquire
		return cmd
	}
	return barrierCommand(id, saga.Phase(op))
}

// raceModel is the step as package saga sees it.
type raceModel struct{ row saga.BarrierRow }

func (m *raceModel) apply(cmd saga.Command) saga.Reply {
	v, next := saga.Admit(m.row, cmd, time.Now())
	if v.Do == saga.DoRun {
		v, next = saga.Conclude(m.row, cmd, barrierDone(cmd.Phase))
	}
	if v.Store {
		m.row = next
	}
	return v.Reply
}

// raceFirst is the first operation of a pair: a session that has done everything but end its transaction.
type raceFirst struct {
	conn  *pgxpool.Conn
	tx    pgx.Tx
	reply saga.Reply
}

// beginFirst uses the SQL functions as another language would, so that the lock is held for answers too.
func beginFirst(ctx context.Context, pool *pgxpool.Pool, cmd saga.Command) (f raceFirst, err error) {
	if f.conn, err = pool.Acquire(ctx); err != nil {
		return f, err
	}
	if f.tx, err = f.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		return f, err
	}
	var row verdictRow
	if cmd.Verb == saga.VerbInquire {
		err = row.scan(f.tx.QueryRow(ctx, sqlInquire, cmd.Tenant, [16]byte(cmd.Transaction), cmd.Step, string(cmd.Phase), cmd.ContentSHA256[:], cmd.Revision))
	} else {
		err = row.scan(f.tx.QueryRow(ctx, sqlEnter, enterArgs(cmd, 5*time.Second)...))
	}
	if err != nil {
		return f, err
	}
	v := row.verdict(cmd)
	f.reply = v.Reply
	if v.Do != saga.DoRun {
		return f, nil
	}
	if err := barrierEffect(ctx, f.tx, cmd); err != nil {
		return f, err
	}
	concluded, _ := saga.Conclude(saga.BarrierRow{}, cmd, barrierDone(cmd.Phase))
	f.reply = concluded.Reply
	_, err = f.tx.Exec(ctx, sqlLeave, leaveArgs(f.reply)...)
	return f, err
}

func (f raceFirst) end(ctx context.Context, commits bool) error {
	defer f.conn.Release()
	if commits {
		return f.tx.Commit(ctx)
	}
	return f.tx.Rollback(ctx)
}

func (f raceFirst) pid() uint32 { return f.conn.Conn().PgConn().PID() }

type raceAnswer struct {
	reply saga.Reply
	err   error
}

// waitBlocked returns true as soon as some session waits for a lock that pid holds, false when the operation
// has ended without. It asks the server until one is the case.
func waitBlocked(ctx context.Context, t *testing.T, pool *pgxpool.Pool, pid uint32, ended <-chan raceAnswer) (bool, raceAnswer) {
	t.Helper()
	for {
		var blocked bool
		err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks l WHERE NOT l.granted AND $1 = ANY (pg_blocking_pids(l.pid)))", int32(pid)).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
		if blocked {
			return true, raceAnswer{}
		}
		select {
		case a := <-ended:
			return false, a
		default:
			runtime.Gosched()
		}
	}
}

// raceBlocks says whether the second operation of a pair has to wait for the first one's end. Inquire takes no
// lock, and a confirm of nothing leaves none behind and does not wait for one.
func raceBlocks(state, first, second string) bool {
	return first != "inquire" && second != "inquire" && (state != "none" || first != "confirm" && second != "confirm")
}

// TestBarrierPairs: every ordered pair of operations × {the first commits, aborts} × {the second comes before,
// during, after it} × row to begin with. Replies, effects and the row that is left are those of saga.Admit
// applied in the order of the commits (B2, B8, M3, M4, I-3, I-4, I-6).
func TestBarrierPairs(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	states := barrierStates(saga.KindTCC)
	reserved := saga.BarrierRow{State: saga.BarrierAbsent, Kind: saga.KindTCC}
	reserved.Try.MinRevision, reserved.Cancel.MinRevision = 2, 2
	states["reserved"] = reserved
	delete(states, "trying, over")
	for state, row := range states {
		t.Run(state, func(t *testing.T) {
			for _, first := range raceOps {
				for _, second := range raceOps {
					for _, commits := range []bool{true, false} {
						for _, when := range []string{"before", "during", "after"} {
							c := raceCase{t: t, pool: pool, state: state, first: first, second: second, commits: commits, when: when}
							c.run(row)
						}
					}
				}
			}
		})
	}
}

type raceCase struct {
	t             *testing.T
	pool          *pgxpool.Pool
	state         string
	first, second string
	commits       bool
	when          string
}

func (c raceCase) String() string {
	return fmt.Sprintf("row %s: %s %s %s (commits: %t)", c.state, c.second, c.when, c.first, c.commits)
}

func (c raceCase) run(row saga.BarrierRow) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	id := barrierID()
	if row.State != "" {
		insert, args := barrierInsert(id, row)
		if _, err := c.pool.Exec(ctx, insert, args...); err != nil {
			c.t.Fatal(err)
		}
	}
	b := NewBarrier(c.pool, 5*time.Second)
	second := func() (a raceAnswer) {
		a.reply, a.err = barrierExecute(ctx, b, raceCommand(id, c.second), barrierDone(saga.Phase(c.second)))
		return a
	}
	model := raceModel{row: row}
	var got, want raceAnswer
	if c.when == "before" {
		got = second()
		want.reply = model.apply(raceCommand(id, c.second))
	}
	first, err := beginFirst(ctx, c.pool, raceCommand(id, c.first))
	if err != nil {
		c.t.Fatalf("%s: first: %v", c, err)
	}
	before := model
	wantFirst := model.apply(raceCommand(id, c.first))
	switch c.when {
	case "during":
		ended := make(chan raceAnswer, 1)
		go func() { ended <- second() }()
		var blocked bool
		if c.state == "none" && c.second == "confirm" { // it waits for a moment only, then answers
			got = <-ended
		} else {
			blocked, got = waitBlocked(ctx, c.t, c.pool, first.pid(), ended)
		}
		if !blocked && raceBlocks(c.state, c.first, c.second) {
			c.t.Errorf("%s: did not wait", c)
		}
		if c.second == "inquire" && blocked {
			c.t.Errorf("%s: inquire waits", c)
		}
		c.endFirst(ctx, first, &model, before)
		if blocked {
			got = <-ended
		}
		want.reply = c.wantDuring(id, &model, before)
	default:
		c.endFirst(ctx, first, &model, before)
		if c.when == "after" {
			got = second()
			want.reply = model.apply(raceCommand(id, c.second))
		}
	}
	if barrierText(first.reply) != barrierText(wantFirst) {
		c.t.Errorf("%s: the first answers\n %s, want\n %s", c, barrierText(first.reply), barrierText(wantFirst))
	}
	if got.err != nil || barrierText(got.reply) != barrierText(want.reply) {
		c.t.Errorf("%s: the second answers (%v)\n %s, want\n %s", c, got.err, barrierText(got.reply), barrierText(want.reply))
	}
	if left := barrierRowOf(c.t, c.pool, id); barrierText(left) != barrierText(model.row) {
		c.t.Errorf("%s: leaves\n %s, want\n %s", c, barrierText(left), barrierText(model.row))
	}
	c.effects(id, row, model.row)
}

func (c raceCase) endFirst(ctx context.Context, first raceFirst, model *raceModel, before raceModel) {
	if err := first.end(ctx, c.commits); err != nil {
		c.t.Fatalf("%s: end: %v", c, err)
	}
	if !c.commits {
		*model = before
	}
}

// wantDuring is what the second has to answer when it came before the first one's end.
func (c raceCase) wantDuring(id saga.ID, model *raceModel, before raceModel) saga.Reply {
	cmd := raceCommand(id, c.second)
	switch {
	case c.second == "inquire": // committed state
		return before.apply(cmd)
	case c.state == "none" && c.second == "confirm" && slices.Contains([]string{"try", "cancel"}, c.first):
		// B2: not known yet, so nothing definitive and nothing recorded.
		reply := saga.AnswerTo(cmd)
		reply.Outcome, reply.Code, reply.Reason = saga.OutcomeRetry, saga.CodeBusy, "another operation of this step is under way"
		return reply
	}
	return model.apply(cmd)
}

// effects compares what handlers did with the row: each executed phase once, beyond what the row began with.
func (c raceCase) effects(id saga.ID, began, ended saga.BarrierRow) {
	executed := func(row saga.BarrierRow) map[saga.Phase]int {
		n := map[saga.Phase]int{}
		switch row.State {
		case saga.BarrierTried:
			n[saga.PhaseTry] = 1
		case saga.BarrierConfirmed:
			n[saga.PhaseTry], n[saga.PhaseConfirm] = 1, 1
		case saga.BarrierCancelled:
			n[saga.PhaseTry], n[saga.PhaseCancel] = 1, 1
		default:
		}
		return n
	}
	was, is := executed(began), executed(ended)
	for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
		if got, want := barrierEffectsOf(c.t, c.pool, id, phase), is[phase]-was[phase]; got != want {
			c.t.Errorf("%s: %d effects of %s, want %d", c, got, phase, want)
		}
	}
}

// TestBarrierFenceRaces: the pivot's try against its fence (S2.6), the pair that tcc steps do not show.
func TestBarrierFenceRaces(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	b := NewBarrier(pool, 5*time.Second)
	for _, commits := range []bool{true, false} {
		id := barrierID()
		try, fence := raceCommand(id, "try"), raceCommand(id, "cancel")
		try.Kind, fence.Kind = saga.KindPivot, saga.KindPivot
		first, err := beginFirst(t.Context(), pool, try)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan raceAnswer, 1)
		go func() {
			var a raceAnswer
			a.reply, a.err = barrierExecute(t.Context(), b, fence, barrierDone(saga.PhaseCancel))
			ended <- a
		}()
		if blocked, _ := waitBlocked(t.Context(), t, pool, first.pid(), ended); !blocked {
			t.Fatal("the fence did not wait for the pivot's try")
		}
		if err := first.end(t.Context(), commits); err != nil {
			t.Fatal(err)
		}
		a := <-ended
		again := mustExecute(t, b, try, barrierDone(saga.PhaseTry))
		switch {
		case a.err != nil:
			t.Error(a.err)
		case commits && (a.reply.Code != saga.FaultContradicts || string(a.reply.Result.Data) != "try-result" || again.Outcome != saga.OutcomeDone):
			t.Errorf("the pivot has executed: fence %+v, try again %+v", a.reply, again)
		case !commits && (a.reply.Outcome != saga.OutcomeDone || again.Outcome != saga.OutcomeHanging):
			t.Errorf("the pivot was rolled back: fence %+v, try again %+v", a.reply, again)
		}
		if n, want := barrierEffectsOf(t, pool, id, saga.PhaseTry), map[bool]int{true: 1}[commits]; n != want {
			t.Errorf("%d effects, want %d", n, want)
		}
	}
}
