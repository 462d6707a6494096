package saga_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// The exploration walks every state that a small transaction of all kinds can reach, breadth first, so that the
// table of pairs shows states that exist and says which do not.

// exploredDefinition has one step of each kind, each with few attempts, and no more order than the kinds make.
func exploredDefinition() *saga.Definition {
	return saga.Define("all-kinds").Timeout(time.Minute).
		Saga("a", "a", "act", saga.Root(), saga.Attempts(2), saga.PhaseTwoAttempts(2)).
		TCC("b", "b", "act", saga.Root(), saga.Attempts(2), saga.PhaseTwoAttempts(2),
			saga.WhenExhausted(saga.OnExhaustedDeadLetter)).
		Pivot("p", "p", "act", saga.Root(), saga.Attempts(2), saga.PhaseTwoAttempts(2)).
		Retriable("r", "r", "act", saga.Root(), saga.PhaseTwoAttempts(2)).
		MustBuild()
}

// slot is an operation by name.
type slot struct {
	step  string
	phase saga.Phase
}

func (s slot) String() string { return s.step + "/" + string(s.phase) }

func exploredSlots() []slot {
	return []slot{
		{"a", saga.PhaseTry},
		{"a", saga.PhaseCancel},
		{"b", saga.PhaseTry},
		{"b", saga.PhaseConfirm},
		{"b", saga.PhaseCancel},
		{"p", saga.PhaseTry},
		{"p", saga.PhaseCancel},
		{"r", saga.PhaseTry},
	}
}

// point is a reachable state and the shortest way to it.
type point struct {
	tx   saga.Transaction
	wake time.Time
	now  time.Time
	via  []string
}

// namedEvent is an event with the name that the table shows, and the instant at which it happens.
type namedEvent struct {
	name string
	ev   saga.Event
	at   time.Time
}

// explore returns every reachable point, in the order of discovery. States are the same if all operations are,
// leaving aside the numbers of attempts and the instants.
func explore(t *testing.T, def *saga.Definition) []point {
	t.Helper()
	start := newTransaction(def)
	start.StartAt = begin.Add(time.Second)
	queue := []point{{tx: start, now: begin}}
	seen := map[string]bool{pointKey(queue[0]): true}
	for i := 0; i < len(queue); i++ {
		for _, e := range pointEvents(def, queue[i], exploredSlots()) {
			next, ok := follow(t, def, queue[i], e)
			if !ok || seen[pointKey(next)] {
				continue
			}
			seen[pointKey(next)] = true
			queue = append(queue, next)
		}
	}
	return queue
}

// follow puts one event to a point; false if it is refused or changes nothing.
func follow(t *testing.T, def *saga.Definition, p point, e namedEvent) (point, bool) {
	t.Helper()
	tx, effects, err := saga.Step(def, p.tx, e.ev, e.at, slowest{})
	if err != nil || !effects.Changed {
		return point{}, false
	}
	via := append(append([]string{}, p.via...), e.name)
	next := point{tx: tx, wake: effects.Wake, now: e.at, via: via}
	checkPoint(t, p, next)
	return next, true
}

// checkPoint holds what every reachable state must fulfil.
func checkPoint(t *testing.T, before, p point) {
	t.Helper()
	fail := func(rule string) { t.Helper(); t.Fatalf("%s: violated by %s", rule, strings.Join(p.via, ", ")) }
	ended := p.tx.Status.Terminal()
	switch {
	case before.tx.Status.Terminal():
		fail("I-7: terminal states are absorbing")
	case ended && (p.tx.Suspended() || !p.wake.IsZero()):
		fail("I-15: no open dead letter and nothing due after the end")
	case ended == p.tx.FinishedAt.IsZero():
		fail("S2.1: FinishedAt tells the end")
	case !ended && p.wake.IsZero() && !p.tx.Suspended():
		fail("I-11: nothing is due and no operator is asked")
	case p.tx.Status == saga.StatusCancelled && p.tx.Cause.Why == "":
		fail("S2: a cancelled transaction says why")
	case p.tx.Status == saga.StatusCommitted && p.tx.Cause != (saga.Cause{}):
		fail("S2: a committed transaction has no cause of a cancel")
	}
}

func pointKey(p point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %t", p.tx.Status, p.now.Before(p.tx.Deadline))
	for _, s := range p.tx.Steps {
		for _, op := range []saga.Operation{s.Try, s.Settle} {
			counted := 0
			if op.State == saga.OperationSent || op.State == saga.OperationWaiting {
				counted = op.Counted
			}
			fmt.Fprintf(&b, "|%s %s %t %d", op.Phase, op.State, op.Replaying, counted)
		}
	}
	return b.String()
}

// pointEvents returns all events of the table for the given operations.
func pointEvents(def *saga.Definition, p point, slots []slot) []namedEvent {
	events := []namedEvent{{"submit", saga.Submitted{}, p.now}}
	if p.tx.Status == "" {
		return events
	}
	if !p.wake.IsZero() {
		at := later(p.wake, p.now)
		heard := map[string]saga.Heard{}
		for _, s := range def.Steps {
			heard[s.Participant] = saga.Heard{}.After(saga.OperationKey{}, at)
		}
		events = append(events, namedEvent{"wake when due (heard)", saga.Woken{Heard: heard}, at},
			namedEvent{"wake when due", saga.Woken{}, at})
	}
	events = append(events, namedEvent{"wake at deadline", saga.Woken{}, later(p.tx.Deadline, p.now)},
		namedEvent{"wake too early", saga.Woken{}, p.now},
		namedEvent{"cancel", saga.CancelRequested{}, p.now}, namedEvent{"resolve", saga.ResolveRequested{}, p.now})
	for _, s := range slots {
		events = append(events, namedEvent{"replay", saga.ReplayRequested{Step: s.step, Phase: s.phase}, p.now},
			namedEvent{"edit", saga.EditRequested{Step: s.step, Phase: s.phase, Input: saga.Payload{Data: []byte(`{"edited":1}`)}}, p.now},
			namedEvent{"discard", saga.DiscardRequested{Step: s.step, Phase: s.phase}, p.now})
		for _, r := range slotReplies(def, p, s) {
			name := r.name
			if len(slots) > 1 {
				name = s.String() + " " + name
			}
			events = append(events, namedEvent{name, r.ev, p.now})
		}
	}
	return events
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// slotReplies returns all replies of the table to one operation.
func slotReplies(def *saga.Definition, p point, s slot) []namedEvent {
	var events []namedEvent
	reply := func(name string, outcome saga.Outcome, change func(*saga.Reply)) {
		r := answer(def, p.tx, s.step, s.phase, outcome)
		change(&r)
		events = append(events, namedEvent{name: name, ev: saga.Replied{Reply: r}})
	}
	asIs := func(*saga.Reply) {}
	code := func(c string) func(*saga.Reply) { return func(r *saga.Reply) { r.Code = c } }
	for _, o := range []saga.Outcome{
		saga.OutcomeDone, saga.OutcomeRefused, saga.OutcomeHanging, saga.OutcomeRetry,
		saga.OutcomeInProgress, saga.OutcomeUnknown, saga.OutcomeReserved,
	} {
		reply(string(o), o, asIs)
	}
	reply("panic", saga.OutcomeRetry, code(saga.CodePanic))
	reply("conflict", saga.OutcomeFault, code(saga.FaultConflict))
	reply("contradicts", saga.OutcomeFault, code(saga.FaultContradicts))
	reply("other done", saga.OutcomeDone, func(r *saga.Reply) { r.Result.Data = []byte(`{"other":1}`) })
	reply("done of other revision", saga.OutcomeDone, func(r *saga.Reply) { r.Revision++ })
	reply("retry of older attempt", saga.OutcomeRetry, func(r *saga.Reply) { r.Attempt-- })
	reply("retry of attempt not sent", saga.OutcomeRetry, func(r *saga.Reply) { r.Attempt++ })
	for _, state := range []saga.BarrierState{
		saga.BarrierAbsent, saga.BarrierTrying, saga.BarrierTried, saga.BarrierRefused,
		saga.BarrierConfirmed, saga.BarrierCancelled, saga.BarrierNullCancelled, saga.BarrierPastRetention,
	} {
		reply("state "+string(state), saga.OutcomeState, func(r *saga.Reply) { r.State = state })
	}
	return events
}
