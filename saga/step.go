package saga

import (
	"slices"
	"time"
)

// Step is the transition function: it takes a transaction and an event and returns the transaction that
// follows and what the caller has to persist and do (see the package documentation for the order).
//
// A pair of state and event that is not allowed is a *StateError and changes nothing. An event that has been
// merged before changes nothing either and is no error. The definition must come from Build or
// ParseDefinition.
func Step(def *Definition, tx Transaction, ev Event, now time.Time, rnd Rand) (Transaction, Effects, error) {
	m := machine{def: def, tx: tx, now: now, rnd: rnd}
	m.tx.Steps = slices.Clone(tx.Steps)
	transition, ok := transitions[tx.Status][ev.eventName()]
	if !ok {
		return tx, Effects{}, m.illegal(ev, CodeIllegal, "no such transition exists")
	}
	if err := transition(&m, ev); err != nil {
		return tx, Effects{}, err
	}
	if m.effects.Changed {
		m.advance()
	}
	m.effects.Wake = m.wakeAt()
	return m.tx, m.effects, nil
}

// statusNone is the state of a transaction that is being submitted.
const statusNone Status = ""

type transition func(*machine, Event) error

// transitions is the table of S2: every allowed pair of state and event, and nothing else.
var transitions map[Status]map[string]transition

func init() { // a variable's initialiser would refer to itself through Step's helpers
	undecided := map[string]transition{
		"reply": on((*machine).reply), "wake": on((*machine).wake), "cancel": on((*machine).cancel),
		"replay": on((*machine).replay), "edit": on((*machine).edit), "discard": on((*machine).discard), "resolve": on((*machine).cannotResolve),
	}
	confirming := map[string]transition{
		"reply": on((*machine).reply), "wake": on((*machine).wake), "cancel": on((*machine).cannotCancel),
		"replay": on((*machine).replay), "edit": on((*machine).edit), "discard": on((*machine).discard), "resolve": on((*machine).resolve),
	}
	cancelling := map[string]transition{
		"reply": on((*machine).reply), "wake": on((*machine).wake), "cancel": on((*machine).alreadyCancelled),
		"replay": on((*machine).replay), "edit": on((*machine).edit), "discard": on((*machine).discard), "resolve": on((*machine).resolve),
	}
	ended := map[string]transition{
		"reply": on((*machine).reply), "wake": on((*machine).nothingDue), "cancel": on((*machine).cannotCancel),
		"replay": on((*machine).replay), "edit": on((*machine).edit), "discard": on((*machine).discard), "resolve": on((*machine).cannotResolve),
	}
	cancelled := map[string]transition{
		"reply": on((*machine).reply), "wake": on((*machine).nothingDue), "cancel": on((*machine).alreadyCancelled),
		"replay": on((*machine).replay), "edit": on((*machine).edit), "discard": on((*machine).discard), "resolve": on((*machine).cannotResolve),
	}
	transitions = map[Status]map[string]transition{
		statusNone:       {"submit": on((*machine).submit)},
		StatusAccepted:   undecided,
		StatusRunning:    undecided,
		StatusConfirming: confirming,
		StatusCancelling: cancelling,
		StatusCommitted:  ended,
		StatusCancelled:  cancelled,
		StatusResolved:   ended,
	}
}

func on[E Event](handle func(*machine, E) error) transition {
	return func(m *machine, ev Event) error { return handle(m, ev.(E)) }
}

// machine is one call of Step: a working copy of the transaction and the effects gathered so far.
type machine struct {
	def     *Definition
	tx      Transaction
	now     time.Time
	rnd     Rand
	effects Effects
}

func (m *machine) submit(Submitted) error {
	m.tx.Steps = make([]StepState, len(m.def.Steps))
	m.tx.CreatedAt = m.now
	m.tx.Status = StatusRunning
	if m.tx.StartAt.After(m.now) {
		m.tx.Status = StatusAccepted
	}
	m.effects.Changed = true
	return nil
}

func (m *machine) nothingDue(Woken) error { return nil }

// cancel is the client's (S2.9). While the pivot's outcome is open only a fence can find out; the
// transaction stays running.
func (m *machine) cancel(ev CancelRequested) error {
	cause := Cause{Why: WhyClient, Reason: ev.Reason}
	if m.pivotSent() {
		m.fence(cause)
	} else {
		m.decideCancel(cause)
	}
	return nil
}

func (m *machine) alreadyCancelled(CancelRequested) error { return nil }

func (m *machine) cannotCancel(ev CancelRequested) error {
	return m.illegal(ev, CodeNotCancellable, "the decision to commit has been made or an operator ended it; it never changes")
}

// operation returns the step's operation in the phase, or nil if the definition has none such.
func (m *machine) operation(step string, phase Phase) (int, *Operation) {
	i := m.def.StepIndex(step)
	if i < 0 {
		return -1, nil
	}
	kind := m.def.Steps[i].Kind
	switch {
	case phase == PhaseTry:
		return i, &m.tx.Steps[i].Try
	case phase == PhaseConfirm && kind == KindTCC, phase == PhaseCancel && kind != KindRetriable:
		return i, &m.tx.Steps[i].Settle
	}
	return -1, nil
}

// inDirection reports whether operations of that step and phase belong to the transaction's present direction
// (S2.10): only they are sent, merged and replayed.
func (m *machine) inDirection(step int, phase Phase) bool {
	kind := m.def.Steps[step].Kind
	switch m.tx.Status {
	case StatusRunning:
		return phase == PhaseTry && kind != KindRetriable || phase == PhaseCancel && kind == KindPivot
	case StatusConfirming:
		return phase == PhaseConfirm || phase == PhaseTry && kind == KindRetriable
	case StatusCancelling:
		return phase == PhaseCancel && kind.cancellable()
	default:
		return false
	}
}

// eachActive calls f for every operation of the present direction that the coordinator still sends. It stops
// when f has changed the direction.
func (m *machine) eachActive(f func(step int, op *Operation)) {
	status := m.tx.Status
	for i := range m.tx.Steps {
		for _, op := range []*Operation{&m.tx.Steps[i].Try, &m.tx.Steps[i].Settle} {
			if m.tx.Status == status && op.State.active() && m.inDirection(i, op.Phase) {
				f(i, op)
			}
		}
	}
}

// decided reports whether the decision has been made.
func (m *machine) decided() bool {
	return m.tx.Status != StatusAccepted && m.tx.Status != StatusRunning
}

func (m *machine) pivotSent() bool {
	return m.def.graph.pivot >= 0 && m.tx.Steps[m.def.graph.pivot].Try.Sent()
}

// wakeAt returns the earliest instant at which something is due.
func (m *machine) wakeAt() time.Time {
	var wake time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	switch m.tx.Status {
	case StatusAccepted:
		return m.tx.StartAt
	case StatusRunning:
		if !m.pivotSent() || !m.tx.Steps[m.def.graph.pivot].Settle.Begun() {
			earlier(m.tx.Deadline)
		}
	default:
	}
	m.eachActive(func(_ int, op *Operation) { earlier(op.NextAt) })
	return wake
}

func (m *machine) illegal(ev Event, code, problem string) error {
	return &StateError{Code: code, Status: m.tx.Status, Event: ev.eventName(), Problem: problem}
}
