package saga_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
)

// A model of the world outside of the coordinator: participants that obey table B, and random definitions.

// mood is what user code does when it is called.
type mood string

const (
	moodDone       mood = "done"
	moodRefuse     mood = "refuse"
	moodRetry      mood = "retry"
	moodPanic      mood = "panic"
	moodUnknown    mood = "unknown"
	moodFault      mood = "fault"
	moodInProgress mood = "in_progress"
)

// drawMoods returns the moods of one transaction's participants: most calls succeed, or hardly any.
func drawMoods(t *rapid.T) *rapid.Generator[mood] {
	all := []mood{moodDone, moodRefuse, moodRetry, moodPanic, moodUnknown, moodFault, moodInProgress}
	for range rapid.IntRange(0, 8).Draw(t, "health") {
		all = append(all, moodDone)
	}
	return rapid.SampledFrom(all)
}

// modelRow is a participant's barrier row of one step, reduced to what the invariants speak of.
type modelRow struct {
	state    saga.BarrierState
	executed int          // times that the try's effect happened
	result   saga.Payload // of the try
	code     string       // of the refusal
}

// handle executes a command as table B says, and returns the reply. broken names the invariant that the
// command itself violates.
func (r *modelRow) handle(c saga.Command, m mood, now time.Time) (reply saga.Reply, broken string) {
	reply = saga.Reply{
		Verb: c.Verb, Tenant: c.Tenant, Transaction: c.Transaction, Step: c.Step, Phase: c.Phase,
		Participant: c.Participant, Attempt: c.Attempt, Revision: c.Revision, ContentSHA256: c.ContentSHA256,
	}
	switch c.Phase {
	case saga.PhaseTry:
		r.try(c, m, now, &reply)
	case saga.PhaseConfirm:
		broken = r.confirm(m, &reply)
	case saga.PhaseCancel:
		broken = r.cancel(c, m, &reply)
	}
	return reply, broken
}

func (r *modelRow) try(c saga.Command, m mood, now time.Time, reply *saga.Reply) {
	switch r.state {
	case saga.BarrierAbsent:
		late := !c.Deadline.IsZero() && now.After(c.Deadline)
		switch {
		case late:
			r.state, r.code = saga.BarrierRefused, saga.CodeDeadline
		case m == moodRefuse && c.Kind != saga.KindRetriable:
			r.state, r.code = saga.BarrierRefused, "no"
		case m == moodDone:
			r.state, r.executed = saga.BarrierTried, r.executed+1
			r.result = saga.Payload{Data: fmt.Appendf(nil, `{"attempt":%d}`, c.Attempt)}
		default:
			r.notDone(m, saga.FaultHandler, reply)
			return
		}
		r.try(c, m, now, reply)
	case saga.BarrierRefused:
		reply.Outcome, reply.Code = saga.OutcomeRefused, r.code
	case saga.BarrierCancelled, saga.BarrierNullCancelled:
		reply.Outcome = saga.OutcomeHanging
	default: // tried, confirmed
		reply.Outcome, reply.Result = saga.OutcomeDone, r.result
	}
}

func (r *modelRow) confirm(m mood, reply *saga.Reply) (broken string) {
	switch {
	case r.state != saga.BarrierTried && r.state != saga.BarrierConfirmed:
		return "I-4: a confirm meets a row that is " + string(r.state)
	case r.state == saga.BarrierTried && m != moodDone:
		r.notDone(m, saga.FaultRefusedPhaseTwo, reply)
		return ""
	}
	r.state, reply.Outcome = saga.BarrierConfirmed, saga.OutcomeDone
	return ""
}

func (r *modelRow) cancel(c saga.Command, m mood, reply *saga.Reply) (broken string) {
	reply.Outcome = saga.OutcomeDone
	switch r.state {
	case saga.BarrierAbsent:
		r.state = saga.BarrierNullCancelled
	case saga.BarrierConfirmed:
		return "I-1: a cancel meets a row that is confirmed"
	case saga.BarrierTried:
		switch {
		case c.Kind == saga.KindPivot:
			reply.Outcome, reply.Code, reply.Result = saga.OutcomeFault, saga.FaultContradicts, r.result
		case m != moodDone:
			r.notDone(m, saga.FaultRefusedPhaseTwo, reply)
		default:
			r.state = saga.BarrierCancelled
		}
	default: // refused or cancelled: nothing to undo
	}
	return ""
}

// notDone answers for user code that did not succeed; nothing is recorded.
func (r *modelRow) notDone(m mood, refusal string, reply *saga.Reply) {
	switch m {
	case moodUnknown:
		reply.Outcome = saga.OutcomeUnknown
	case moodFault, moodRefuse:
		reply.Outcome, reply.Code = saga.OutcomeFault, refusal
	case moodInProgress:
		reply.Outcome, reply.RetryAfter = saga.OutcomeInProgress, time.Second
	case moodPanic:
		reply.Outcome, reply.Code = saga.OutcomeRetry, saga.CodePanic
	default:
		reply.Outcome, reply.Code = saga.OutcomeRetry, saga.CodeError
	}
}

// drawDefinition returns a random valid definition: up to four saga and tcc steps, a pivot or none, up to two
// retriable steps; in sequence or any graph.
func drawDefinition(t *rapid.T) *saga.Definition {
	policies := rapid.SampledFrom([]saga.ExhaustionPolicy{saga.OnExhaustedCancel, saga.OnExhaustedDeadLetter})
	b := saga.Define("random").OnExhausted(policies.Draw(t, "on_exhausted"))
	compensable := rapid.IntRange(0, 4).Draw(t, "compensable")
	pivot := rapid.Bool().Draw(t, "pivot")
	retriable := rapid.IntRange(0, 2).Draw(t, "retriable")
	if compensable+retriable == 0 {
		pivot = true
	}
	sequence := rapid.Bool().Draw(t, "sequence")
	var names, before []string // all steps so far; those that a pivot or compensable step may come after
	add := func(kind func(string, string, string, ...saga.StepOption) *saga.Builder, allowed []string) string {
		name := fmt.Sprintf("s%d", len(names))
		options := []saga.StepOption{
			saga.Attempts(rapid.IntRange(1, 3).Draw(t, "attempts")),
			saga.PhaseTwoAttempts(rapid.IntRange(1, 3).Draw(t, "phase two attempts")),
			saga.AttemptTimeout(time.Duration(rapid.IntRange(1, 8).Draw(t, "attempt timeout")) * time.Second),
		}
		if rapid.IntRange(0, 9).Draw(t, "straight to the dead letters") == 0 {
			options = append(options, saga.StraightToDeadLetters())
		}
		if !sequence {
			var after []string
			for _, other := range allowed {
				if rapid.Bool().Draw(t, "after "+other) {
					after = append(after, other)
				}
			}
			options = append(options, saga.After(after...))
		}
		participant := rapid.SampledFrom([]string{"p0", "p1"}).Draw(t, "participant")
		kind(name, participant, "act", options...)
		names = append(names, name)
		return name
	}
	for range compensable {
		kind := b.Saga
		if rapid.Bool().Draw(t, "tcc") {
			kind = b.TCC
		}
		before = append(before, add(kind, before))
	}
	if pivot {
		add(b.Pivot, before)
	}
	for range retriable {
		add(b.Retriable, names)
	}
	def, err := b.Build()
	if err != nil {
		t.Fatalf("a valid definition was refused: %v", err)
	}
	return def
}
