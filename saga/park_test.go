package saga_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// shut is a gate that lets only the named operations through.
type shut map[slot]bool

func (g shut) Ask(r saga.SendRequest, now time.Time) (saga.Wait, time.Time) {
	if g[slot{r.Command.Step, r.Command.Phase}] {
		return saga.WaitNone, time.Time{}
	}
	return saga.WaitBreaker, now.Add(time.Second)
}

// parking runs events through Step and a gate.
type parking struct {
	t   *testing.T
	def *saga.Definition
	tx  saga.Transaction
	now time.Time
}

func (p *parking) step(gate saga.Gate, ev saga.Event) saga.Effects {
	p.t.Helper()
	tx, effects, err := saga.Step(p.def, p.tx, ev, p.now, slowest{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.tx, effects = saga.Park(p.def, tx, effects, gate, p.now)
	return effects
}

func (p *parking) expect(status saga.Status, what string, ok bool) {
	p.t.Helper()
	if p.tx.Status != status || !ok {
		p.t.Fatalf("%s, %s: got %+v", status, what, p.tx)
	}
}

func parkingOf(t *testing.T, def *saga.Definition) *parking {
	return &parking{t: t, def: def, tx: newTransaction(def), now: begin}
}

// What the gate holds waits with its reason and is sent later, as attempt 1: nothing has failed.
func TestParkedTryIsSentLater(t *testing.T) {
	p := parkingOf(t, saga.Define("two").Saga("a", "x", "act", saga.Root()).Saga("b", "y", "act", saga.Root()).MustBuild())
	e := p.step(shut{{"b", saga.PhaseTry}: true}, saga.Submitted{})
	a := p.tx.Steps[0].Try
	p.expect(saga.StatusRunning, "only b is sent", len(e.Commands) == 1 && e.Commands[0].Step == "b")
	p.expect(saga.StatusRunning, "a waits", a.Wait == saga.WaitBreaker && !a.Sent() && a.Begun() && e.Wake.Equal(p.now.Add(time.Second)))
	p.now = p.now.Add(time.Second)
	e = p.step(shut{{"a", saga.PhaseTry}: true}, saga.Woken{})
	p.expect(saga.StatusRunning, "a is sent", len(e.Commands) == 1 && e.Commands[0].Attempt == 1 && p.tx.Steps[0].Try.SentAt.Equal(p.now))
}

// A try that was never sent needs no cancel (S2.4), and a pivot that was never sent no fence (S2.6).
func TestParkedTryNeedsNoCancel(t *testing.T) {
	p := parkingOf(t, saga.Define("two").Saga("a", "x", "act", saga.Root()).Pivot("p", "y", "act").MustBuild())
	p.step(shut{}, saga.Submitted{})
	e := p.step(shut{}, saga.CancelRequested{})
	p.expect(saga.StatusCancelled, "nothing to undo", len(e.Commands) == 0 && e.Wake.IsZero())

	p = parkingOf(t, p.def)
	p.step(shut{{"a", saga.PhaseTry}: true}, saga.Submitted{})
	p.step(shut{}, saga.Replied{Reply: answer(p.def, p.tx, "a", saga.PhaseTry, saga.OutcomeDone)})
	p.expect(saga.StatusRunning, "the pivot waits", p.tx.Steps[1].Try.Wait == saga.WaitBreaker)
	e = p.step(shut{{"a", saga.PhaseCancel}: true}, saga.CancelRequested{})
	p.expect(saga.StatusCancelling, "only a is cancelled", len(e.Commands) == 1 && e.Commands[0].Step == "a" && !p.tx.Steps[1].Settle.Begun())
}

// An operator's replay that is held is still that replay when it is sent.
func TestParkedReplay(t *testing.T) {
	p := parkingOf(t, saga.Define("one").Saga("a", "x", "act").MustBuild())
	open := shut{{"a", saga.PhaseTry}: true}
	p.step(open, saga.Submitted{})
	fault := answer(p.def, p.tx, "a", saga.PhaseTry, saga.OutcomeFault)
	fault.Code = saga.FaultConflict
	p.step(open, saga.Replied{Reply: fault})
	e := p.step(shut{}, saga.ReplayRequested{Step: "a", Phase: saga.PhaseTry})
	op := p.tx.Steps[0].Try
	p.expect(saga.StatusRunning, "it waits", len(e.Commands) == 0 && op.Replaying && op.Attempt == 1 && op.Floor == 2)
	p.step(shut{}, saga.Replied{Reply: fault}) // of before the replay: it no longer counts
	p.now = p.now.Add(time.Second)
	e = p.step(open, saga.Woken{})
	p.expect(saga.StatusRunning, "it is sent", len(e.Commands) == 1 && e.Commands[0].Attempt == 2 && p.tx.Steps[0].Try.Replaying)
}

// A try that is sent again by the very event that decides to cancel stays closed, whatever the gate says: it is in the
// cancel set, because an earlier attempt of it may have been executed (S2.4, S2.12).
func TestParkLeavesAClosedTryAlone(t *testing.T) {
	p := parkingOf(t, saga.Define("two").
		Saga("a", "x", "act", saga.Root(), saga.AttemptTimeout(time.Minute), saga.RetryBackoff(saga.StrategyImmediate, time.Millisecond, time.Second)).
		Saga("b", "y", "act", saga.Root(), saga.AttemptTimeout(time.Second), saga.Attempts(1)).MustBuild())
	open := shut{{"a", saga.PhaseTry}: true, {"b", saga.PhaseTry}: true, {"a", saga.PhaseCancel}: true, {"b", saga.PhaseCancel}: true}
	p.step(open, saga.Submitted{})
	p.step(open, saga.Replied{Reply: answer(p.def, p.tx, "a", saga.PhaseTry, saga.OutcomeRetry)})
	p.now = p.now.Add(time.Second)
	p.step(shut{}, saga.Woken{Heard: map[string]saga.Heard{"y": saga.Heard{}.After(saga.OperationKey{}, p.now)}}) // a is due again, and b is exhausted
	p.expect(saga.StatusCancelling, "a is closed", p.tx.Steps[0].Try.State == saga.OperationClosed)
	p.now = p.now.Add(time.Minute)
	e := p.step(open, saga.Woken{})
	p.expect(saga.StatusCancelling, "both are cancelled", len(e.Commands) == 2)
}

// A wake may end one step's attempts and be the turn of another's: the decision comes first, and what it overtakes is
// neither sent again nor parked (I-2, S2.12).
func TestParkedRetryIsOvertaken(t *testing.T) {
	p := parkingOf(t, saga.Define("two").Saga("a", "x", "act", saga.Root()).Saga("b", "y", "act", saga.Root(), saga.Attempts(1)).MustBuild())
	all := shut{{"a", saga.PhaseTry}: true, {"b", saga.PhaseTry}: true, {"a", saga.PhaseCancel}: true, {"b", saga.PhaseCancel}: true}
	p.step(all, saga.Submitted{})
	p.now = p.tx.Steps[0].Try.NextAt
	p.tx.Steps[0].Try.State = saga.OperationWaiting // a's retry is due, b's only attempt ends
	e := p.step(shut{{"b", saga.PhaseCancel}: true, {"a", saga.PhaseCancel}: true}, saga.Woken{Heard: map[string]saga.Heard{"y": saga.Heard{}.After(saga.OperationKey{}, p.now)}})
	p.expect(saga.StatusCancelling, "both are cancelled", len(e.Commands) == 2 && p.tx.Steps[0].Try.State == saga.OperationClosed)
}

// A deadline that has passed comes before an operator's replay, noticed or not: what it overtakes is obsolete (D3).
func TestReplayAfterTheDeadline(t *testing.T) {
	p := parkingOf(t, saga.Define("two").Saga("a", "x", "act", saga.Root()).Saga("b", "y", "act", saga.Root()).MustBuild())
	all := shut{{"a", saga.PhaseTry}: true, {"b", saga.PhaseTry}: true}
	p.step(all, saga.Submitted{})
	p.step(all, saga.Replied{Reply: answer(p.def, p.tx, "a", saga.PhaseTry, saga.OutcomeUnknown)})
	p.now = p.tx.Deadline
	_, _, err := saga.Step(p.def, p.tx, saga.ReplayRequested{Step: "a", Phase: saga.PhaseTry}, p.now, slowest{})
	var state *saga.StateError
	if !errors.As(err, &state) || state.Code != saga.CodeObsolete {
		t.Fatalf("got %v", err)
	}
}
