package saga

import "time"

// advance makes whatever follows from the present state: it starts what is ready, decides and completes.
// It runs at the end of every write (S2.1).
func (m *machine) advance() {
	if m.tx.Status == StatusRunning {
		m.advanceRunning()
	}
	if m.tx.Status == StatusConfirming {
		m.advanceConfirming()
	}
	if m.tx.Status == StatusCancelling {
		m.advanceCancelling()
	}
}

// advanceRunning decides to commit when every try is done (S2.3), looks at the deadline, and starts the
// tries whose predecessors are done. The pivot waits for all saga and tcc tries.
func (m *machine) advanceRunning() {
	compensable, pivot := m.triesDone()
	if compensable && pivot {
		m.decide(StatusConfirming)
		m.tx.Cause = Cause{}
		return
	}
	if !m.tx.Deadline.IsZero() && !m.now.Before(m.tx.Deadline) {
		cause := Cause{Why: WhyDeadline}
		if !m.pivotSent() {
			m.decideCancel(cause)
			return
		}
		m.fence(cause)
	}
	for _, i := range m.def.graph.order {
		kind := m.def.Steps[i].Kind
		ready := kind.cancellable() && m.predecessorsDone(i) || kind == KindPivot && compensable
		if ready && !m.tx.Steps[i].Try.Begun() {
			m.start(i, PhaseTry)
		}
	}
}

// triesDone reports whether all saga and tcc tries are done, and whether the pivot's is (or there is none).
func (m *machine) triesDone() (compensable, pivot bool) {
	compensable, pivot = true, true
	for i, s := range m.def.Steps {
		done := m.tx.Steps[i].Try.State == OperationDone
		switch {
		case s.Kind.cancellable():
			compensable = compensable && done
		case s.Kind == KindPivot:
			pivot = done
		}
	}
	return compensable, pivot
}

func (m *machine) predecessorsDone(step int) bool {
	for _, j := range m.def.graph.after[step] {
		if m.tx.Steps[j].Try.State != OperationDone {
			return false
		}
	}
	return true
}

// advanceConfirming starts confirms and retriable tries in the order of after. A step that has nothing to do
// in this direction is complete as soon as its predecessors are.
func (m *machine) advanceConfirming() {
	complete := make([]bool, len(m.def.Steps))
	all := true
	for _, i := range m.def.graph.order {
		ready := true
		for _, j := range m.def.graph.after[i] {
			ready = ready && complete[j]
		}
		complete[i] = ready
		if phase, op := m.phaseTwo(i); op != nil {
			if ready && !op.Begun() {
				m.start(i, phase)
			}
			complete[i] = ready && op.State.settled()
		}
		all = all && complete[i]
	}
	if all {
		m.finish(StatusCommitted)
	}
}

// phaseTwo returns the operation that a step has after the decision to commit, or nil.
func (m *machine) phaseTwo(step int) (Phase, *Operation) {
	switch m.def.Steps[step].Kind {
	case KindTCC:
		return PhaseConfirm, &m.tx.Steps[step].Settle
	case KindRetriable:
		return PhaseTry, &m.tx.Steps[step].Try
	default:
		return "", nil
	}
}

// advanceCancelling starts the cancels of the cancel set in the reverse order of after, siblings in parallel
// (S2.4). A cancel waits for the cancels of its dependents, dead letters included.
func (m *machine) advanceCancelling() {
	complete := make([]bool, len(m.def.Steps))
	all := true
	for n := len(m.def.graph.order) - 1; n >= 0; n-- {
		i := m.def.graph.order[n]
		ready := true
		for _, j := range m.def.graph.dependents[i] {
			ready = ready && complete[j]
		}
		complete[i] = ready
		if m.inCancelSet(i) {
			op := &m.tx.Steps[i].Settle
			if ready && !op.Begun() {
				m.start(i, PhaseCancel)
			}
			complete[i] = ready && op.State.settled()
		}
		all = all && complete[i]
	}
	if all {
		m.finish(StatusCancelled)
	}
}

// inCancelSet reports whether the step has to be cancelled: its try was sent and is not recorded as refused
// or cancelled. Unknown ones are included: the decision closed them.
func (m *machine) inCancelSet(step int) bool {
	try := m.tx.Steps[step].Try
	return m.def.Steps[step].Kind.cancellable() && try.Sent() && (try.State == OperationDone || try.State == OperationClosed)
}

func (m *machine) decideCancel(cause Cause) {
	m.tx.Cause = cause
	m.decide(StatusCancelling)
}

// decide makes the one decision and closes every open try and the fence: they are not sent again, and their
// dead letters become obsolete (S2.12).
func (m *machine) decide(status Status) {
	m.tx.Status = status
	m.tx.DecidedAt = m.now
	m.effects.Changed = true
	for i := range m.tx.Steps {
		for _, op := range []*Operation{&m.tx.Steps[i].Try, &m.tx.Steps[i].Settle} {
			if !op.State.Open() {
				continue
			}
			if op.suspends() {
				m.deadLetter(i, op, DeadLetterObsolete)
			}
			op.State, op.Replaying = OperationClosed, false
			op.rest()
		}
	}
}

// finish ends the transaction; with operations given up it is resolved, never committed or cancelled.
func (m *machine) finish(status Status) {
	for _, s := range m.tx.Steps {
		if s.Try.State == OperationGivenUp || s.Settle.State == OperationGivenUp {
			status = StatusResolved
		}
	}
	m.tx.Status = status
	m.tx.FinishedAt = m.now
	m.effects.Changed = true
}

// fence asks the pivot's participant for proof that the pivot never executed and never will (S2.6). The
// transaction stays running; the pivot's try is not sent again, but its reply still counts.
func (m *machine) fence(cause Cause) {
	p := m.def.graph.pivot
	state := &m.tx.Steps[p]
	if state.Settle.Begun() {
		return
	}
	m.tx.Cause = cause
	m.effects.Changed = true
	if state.Try.State.active() {
		m.hold(p)
	}
	m.start(p, PhaseCancel)
}

// hold stops sending the pivot's try. If it was an operator's replay, the fence now settles its dead letter.
func (m *machine) hold(pivot int) {
	try := &m.tx.Steps[pivot].Try
	try.State = OperationHeld
	try.rest()
}

// start sends an operation for the first time.
func (m *machine) start(step int, phase Phase) {
	op := m.settleOrTry(step, phase)
	*op = Operation{Phase: phase, Revision: 1}
	m.inheritEdit(step, op)
	op.ContentSHA256 = ContentSHA256(m.def.Steps[step].Action, m.body(step, op))
	m.send(step, op)
}

func (m *machine) settleOrTry(step int, phase Phase) *Operation {
	if phase == PhaseTry {
		return &m.tx.Steps[step].Try
	}
	return &m.tx.Steps[step].Settle
}

// send sends the operation's next attempt.
func (m *machine) send(step int, op *Operation) {
	op.Attempt++
	waited := op.Wait
	op.State, op.Wait = OperationSent, WaitNone
	op.SentAt, op.NextAt = m.now, m.now.Add(m.def.Steps[step].attemptTimeout())
	c := m.command(step, op)
	c.Waited = waited
	m.effects.Commands = append(m.effects.Commands, c)
	m.effects.Changed = true
}

// command builds the command of the operation's last attempt.
func (m *machine) command(step int, op *Operation) Command {
	s := &m.def.Steps[step]
	c := Command{
		Verb: VerbExecute, Tenant: m.tx.Tenant, Transaction: m.tx.ID, Step: s.Name, Phase: op.Phase, Kind: s.Kind,
		Participant: s.Participant, Action: s.Action, Attempt: op.Attempt, Revision: op.Revision,
		Timeout: s.attemptTimeout(), Body: m.body(step, op), ContentSHA256: op.ContentSHA256,
		Traceparent: m.tx.Traceparent, Tracestate: m.tx.Tracestate,
	}
	if op.Phase == PhaseTry && s.Kind != KindRetriable {
		c.Deadline = m.tx.Deadline // going forward only (T1, S2.7)
	}
	return c
}

// body returns the operation's body. It depends only on what no longer changes once the operation has been
// sent, so that every attempt has the same bytes: a try result that arrives after the decision is not merged.
func (m *machine) body(step int, op *Operation) []byte {
	input := m.tx.Inputs[step]
	if !op.Input.IsZero() {
		input = op.Input
	}
	if op.Phase != PhaseTry {
		return SettleBody(input, m.tx.Steps[step].Try.Result)
	}
	results := make([]NamedPayload, 0, len(m.def.graph.after[step]))
	for _, j := range m.def.graph.after[step] {
		results = append(results, NamedPayload{Step: m.def.Steps[j].Name, Payload: m.tx.Steps[j].Try.Result})
	}
	return TryBody(input, results)
}

// rest clears what only an operation that is still being sent has.
func (o *Operation) rest() { o.Wait, o.NextAt = WaitNone, time.Time{} }
