package saga

import (
	"errors"
	"fmt"
	"time"
)

// What an event may be answered instead of being merged.
var (
	// ErrNotFound: there is no such transaction, or it belongs to somebody else (S1.2).
	ErrNotFound = errors.New("no such transaction")
	// ErrStale: the dead letter or transaction has changed since the operator looked at it.
	ErrStale = errors.New("it has changed since it was read")
)

// Case is an event and what a coordinator knows of its transaction when it comes.
type Case struct {
	Def *Definition
	Tx  Transaction // the zero value if there is none; with Submitted: what begins
	// Cached: the transaction is from memory. Another coordinator may have written it since.
	Cached bool
	// Changed: an earlier event of the same write has changed the transaction. Its version rises with the write,
	// so no version that anybody has seen is this one.
	Changed bool
	// Expected is the version of the transaction that an operator's event is about; zero: any.
	Expected int64
	Event    Event
}

// Judgement is what became of an event. Persist Tx if Effects.Changed, and the timer if MoveTimer, both only at the
// version that was loaded (C9); and Effects.Incidents in any case.
type Judgement struct {
	Tx      Transaction // as the event leaves it; as it was passed in if the event was not merged
	Effects Effects
	// Reload: the cached transaction did not expect the event. Nothing else of the judgement counts: judge again, on
	// the stored row, before anything is acknowledged (S2.10).
	Reload bool
	// MoveTimer: a timer fired, and what is due next is due at Effects.Wake: the stored instant is replaced, also by
	// a later one. See MoveTimer, the function.
	MoveTimer bool
	// Late: a definitive reply came to an operation that was given up. It goes to the audit only (S2.13).
	Late bool
	// EffectUnknown names the operations ("step/phase") that an operator has given up with this event: whether they
	// take effect is not known, and the audit says so (S2.13).
	EffectUnknown []string
}

// Judge decides about one event: who may be meant, whether what is known is recent enough to say so (S2.10, C9), and
// what Step makes of it. Together with an error the judgement holds the incidents of a reply that belongs to nothing.
//
// Errors: ErrNotFound, if there is no such transaction or the reply is of somebody whom it does not concern (I-14);
// ErrStale, if the expected version is past; a *StateError of Step.
func Judge(c Case, now time.Time, rnd Rand) (Judgement, error) {
	_, submitted := c.Event.(Submitted)
	if c.Tx.Status == statusNone && !submitted {
		return c.notMerged("names a transaction that does not exist"), ErrNotFound
	}
	if problem := c.foreign(); problem != "" {
		return c.notMerged(problem), ErrNotFound
	}
	if c.Expected != 0 && (c.Expected != c.Tx.Version || c.Changed) {
		if c.mayBeStale() {
			return Judgement{Tx: c.Tx, Reload: true}, nil
		}
		return Judgement{Tx: c.Tx}, fmt.Errorf("%w: version %d is past", ErrStale, c.Expected)
	}
	_, woken := c.Event.(Woken)
	tx, effects, err := Step(c.Def, c.Tx, c.Event, now, rnd)
	// A wake that changes nothing moves the timer, and that names the version too.
	unexpected := err != nil || effects.Unexpected != UnexpectedNot || !effects.Changed && !woken
	switch {
	case unexpected && c.mayBeStale():
		return Judgement{Tx: c.Tx, Reload: true}, nil
	case err != nil:
		return c.notMerged(err.Error()), err
	}
	j := Judgement{Tx: tx, Effects: effects, MoveTimer: woken && !tx.Status.Terminal()}
	j.Late = effects.Unexpected == UnexpectedLate && c.answersGivenUp()
	j.EffectUnknown = effectUnknown(c.Def, tx, effects)
	return j, nil
}

// mayBeStale reports whether the stored row may be another one. Terminal states are absorbing (I-7), so what memory
// says of an ended transaction stays true; unless it has ended only now, in a write that is not stored yet.
func (c Case) mayBeStale() bool { return c.Cached && (c.Changed || !c.Tx.Status.Terminal()) }

// notMerged leaves the transaction alone. If the event is a reply, it belongs to nothing: an incident.
func (c Case) notMerged(problem string) Judgement {
	j := Judgement{Tx: c.Tx}
	if ev, ok := c.Event.(Replied); ok {
		j.Effects.Incidents = []Incident{{Step: ev.Reply.Step, Phase: ev.Reply.Phase, Problem: problem, Reply: ev.Reply}}
	}
	return j
}

// foreign says why the event is a reply that cannot be one to this transaction. Permissions protect the subject
// that a participant replies under, and so its name: nobody may answer for another (I-14).
func (c Case) foreign() string {
	ev, ok := c.Event.(Replied)
	if !ok {
		return ""
	}
	if ev.Reply.Tenant != c.Tx.Tenant {
		return "names a transaction of another tenant"
	}
	if i := c.Def.StepIndex(ev.Reply.Step); i >= 0 && c.Def.Steps[i].Participant != ev.Reply.Participant {
		return "of " + ev.Reply.Participant + " is about a step of " + c.Def.Steps[i].Participant
	}
	return ""
}

// answersGivenUp reports whether the event is a definitive reply to an operation that was given up.
func (c Case) answersGivenUp() bool {
	ev, ok := c.Event.(Replied)
	if !ok {
		return false
	}
	switch ev.Reply.Outcome {
	case OutcomeDone, OutcomeRefused, OutcomeHanging:
		return givenUp(c.Def, c.Tx, ev.Reply.Step, ev.Reply.Phase)
	default:
		return false
	}
}

// effectUnknown lists the operations that the effects give up: no other dead letter of a given-up operation changes.
func effectUnknown(def *Definition, tx Transaction, effects Effects) []string {
	var unknown []string
	for i := range effects.DeadLetters {
		letter := &effects.DeadLetters[i]
		if givenUp(def, tx, letter.Step, letter.Phase) {
			unknown = append(unknown, letter.Step+"/"+string(letter.Phase))
		}
	}
	return unknown
}

func givenUp(def *Definition, tx Transaction, step string, phase Phase) bool {
	i := def.StepIndex(step)
	if i < 0 {
		return false
	}
	for _, op := range []*Operation{&tx.Steps[i].Try, &tx.Steps[i].Settle} {
		if op.Phase == phase && op.State == OperationGivenUp {
			return true
		}
	}
	return false
}
