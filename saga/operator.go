package saga

// What operators ask for: replay, discard, resolve. Each is checked under the transaction's version, in the
// write that carries it out (S2.12, D2).

// replay sends a dead letter's operation again: same identity, next attempt. It closes only when a
// definitive reply comes; failing again opens the same dead letter again.
func (m *machine) replay(ev ReplayRequested) error {
	m.advance() // a deadline that has passed comes first: what it overtakes is not sent again
	step, op, err := m.openDeadLetter(ev, ev.Step, ev.Phase)
	if err != nil {
		return err
	}
	if op.editing() {
		if !op.Reserved {
			return m.refused(ev, CodeNotReserved, ev.Step, ev.Phase, "an edit was begun, and the participant has not recorded yet that it may be sent")
		}
		m.commitEdit(step, op)
	}
	op.Replaying = true
	op.Counted, op.CountedTo = 0, op.Attempt
	m.send(step, op)
	op.Floor = op.Attempt
	m.deadLetter(step, op, DeadLetterReplaying)
	return nil
}

// codeDiscarded is the code of a cause that is an operator's discard of a try.
const codeDiscarded = "discarded"

// discard gives a dead letter's operation up (S2.13): a saga or tcc try cancels the transaction, a pivot's
// try is fenced, and whatever waited for a confirm, cancel or retriable try goes on without it.
func (m *machine) discard(ev DiscardRequested) error {
	step, op, err := m.openDeadLetter(ev, ev.Step, ev.Phase)
	if err != nil {
		return err
	}
	s := &m.def.Steps[step]
	if m.isFence(step, ev.Phase) {
		return m.refused(ev, CodeFence, ev.Step, ev.Phase, "only its reply can tell whether the pivot has executed; replay it")
	}
	m.deadLetter(step, op, DeadLetterDiscarded)
	m.effects.Changed = true
	cause := Cause{Why: WhyExhausted, Step: s.Name, Code: codeDiscarded, Reason: op.LastReason}
	switch {
	case op.Phase == PhaseTry && s.Kind == KindPivot:
		m.hold(step)
		m.fence(cause)
	case op.Phase == PhaseTry && s.Kind.cancellable():
		op.State = OperationClosed // before the decision, which would call the dead letter obsolete
		m.decideCancel(cause)
	default:
		op.State = OperationGivenUp
	}
	return nil
}

// resolve discards all open dead letters in one write. It is refused while an operation without one is
// outstanding.
func (m *machine) resolve(ev ResolveRequested) error {
	outstanding := false
	m.eachActive(func(int, *Operation) { outstanding = true })
	if outstanding {
		return m.illegal(ev, CodeOutstanding, "operations without a dead letter are still under way; wait for them")
	}
	found := false
	for i := range m.tx.Steps {
		for _, op := range []*Operation{&m.tx.Steps[i].Try, &m.tx.Steps[i].Settle} {
			if op.State == OperationDead {
				m.deadLetter(i, op, DeadLetterDiscarded)
				op.State = OperationGivenUp
				found = true
			}
		}
	}
	if !found {
		return m.illegal(ev, CodeNotDeadLetter, "it has no open dead letter")
	}
	m.effects.Changed = true
	return nil
}

func (m *machine) cannotResolve(ev ResolveRequested) error {
	if m.tx.Status.Terminal() {
		return m.illegal(ev, CodeObsolete, "it has ended")
	}
	return m.illegal(ev, CodeOutstanding, "it is undecided; cancel it, or replay or discard its dead letters")
}

// openDeadLetter finds the operation of an open dead letter in the present direction.
func (m *machine) openDeadLetter(ev Event, step string, phase Phase) (int, *Operation, error) {
	i, op := m.operation(step, phase)
	switch {
	case op == nil:
		return 0, nil, m.refused(ev, CodeUnknownStep, step, phase, "the definition has no such operation")
	case m.tx.Status.Terminal():
		return 0, nil, m.refused(ev, CodeObsolete, step, phase, "the transaction has ended")
	case m.decided() && (!m.inDirection(i, phase) || op.State == OperationClosed):
		return 0, nil, m.refused(ev, CodeObsolete, step, phase, "the transaction has been decided without it")
	case op.State != OperationDead || op.Phase != phase:
		return 0, nil, m.refused(ev, CodeNotDeadLetter, step, phase, "the operation is not an open dead letter")
	}
	return i, op, nil
}

func (m *machine) refused(ev Event, code, step string, phase Phase, problem string) error {
	return &StateError{
		Code: code, Status: m.tx.Status, Event: ev.eventName(),
		Operation: step + "/" + string(phase), Problem: problem,
	}
}
