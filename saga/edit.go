package saga

import "encoding/json"

// Editing what a dead letter's operation carries (S1.5). An operation may have another body only if it has never run: its
// participant is asked to reserve the next revision, which keeps the present one from ever running. Once that is
// recorded, the replay sends the next revision. A reservation cannot be abandoned, so until then no replay sends the
// present one.

// EditChange is the input of a revision of an operation, if it is not the one that was submitted: the one of its present
// Revision, or of the next, which an operator has proposed.
type EditChange struct {
	Step          string
	Phase         Phase
	Revision      int
	Input         Payload
	ContentSHA256 [32]byte
	Reserved      bool // the participant has recorded that only this revision may run
	Withdrawn     bool // it will never be: the participant has carried the operation out, or holds its try's lease
}

// edit proposes another input for a dead letter's operation, and asks the participant to reserve the next revision unless
// it has. Asked again, it asks again: the command or its answer may have been lost.
func (m *machine) edit(ev EditRequested) error {
	m.advance() // a deadline that has passed comes first
	step, op, err := m.openDeadLetter(ev, ev.Step, ev.Phase)
	if err != nil {
		return err
	}
	op.Proposed = ev.Input
	if !op.Reserved {
		op.Attempt++
		c := m.command(step, op)
		c.Verb = VerbReserve
		m.effects.Commands = append(m.effects.Commands, c)
	}
	m.edited(step, op)
	return nil
}

// edited tells of the proposal.
func (m *machine) edited(step int, op *Operation) {
	m.effects.Changed = true
	m.effects.Edits = append(m.effects.Edits, EditChange{
		Step: m.def.Steps[step].Name, Phase: op.Phase, Revision: op.Revision + 1, Input: op.Proposed,
		ContentSHA256: m.proposedContent(step, op), Reserved: op.Reserved,
	})
}

// proposedContent is the content hash of the next revision: only the input is another one (S1.4).
func (m *machine) proposedContent(step int, op *Operation) [32]byte {
	next := *op
	next.Input = op.Proposed
	return ContentSHA256(m.def.Steps[step].Action, m.body(step, &next))
}

// editing reports whether the operation can only be sent with another input.
func (o *Operation) editing() bool { return o.State == OperationDead && !o.Proposed.IsZero() }

// mergeReservation takes an answer to reserve that does not settle the operation. It reports false if it is none.
func (m *machine) mergeReservation(step int, op *Operation, r Reply) bool {
	switch {
	case r.Verb != VerbReserve && r.Outcome != OutcomeReserved:
		return false
	case !op.editing():
		m.effects.Unexpected = UnexpectedNotOpen
	case op.Reserved:
		m.effects.Unexpected = UnexpectedDuplicate
	case r.Outcome == OutcomeReserved:
		op.Reserved = true
		m.edited(step, op)
	case r.Attempt < op.Attempt: // it was asked again since, and a copy of this would withdraw that, too
		m.effects.Unexpected = UnexpectedOldAttempt
	case r.Outcome == OutcomeState && r.State != BarrierAbsent,
		r.Outcome == OutcomeFault && (r.Code == FaultConflict || r.Code == FaultPastRetention):
		m.withdraw(step, op, r)
	default: // transient: an operator asks again
		m.effects.Unexpected = UnexpectedNotOpen
	}
	return true
}

// withdraw ends an edit that the participant cannot reserve: the phase is recorded there, or its try's lease is held. A lease
// may end with nothing recorded, and then a late copy of the reservation succeeds all the same: what is sent before it is
// answered superseded, and can be edited again.
func (m *machine) withdraw(step int, op *Operation, r Reply) {
	m.effects.Edits = append(m.effects.Edits, EditChange{
		Step: m.def.Steps[step].Name, Phase: op.Phase, Revision: op.Revision + 1, Withdrawn: true,
	})
	op.Proposed = Payload{}
	m.attemptEnded(step, op, r)
}

// commitEdit makes the proposal the operation's next revision, which its replay sends.
func (m *machine) commitEdit(step int, op *Operation) {
	op.ContentSHA256 = m.proposedContent(step, op)
	op.Revision++
	op.Input, op.Proposed, op.Reserved = op.Proposed, Payload{}, false
}

// inheritEdit gives what settles a step the input that its try was edited to have: it settles what has run.
func (m *machine) inheritEdit(step int, op *Operation) {
	try := &m.tx.Steps[step].Try
	if op.Phase == PhaseTry || try.Input.IsZero() {
		return
	}
	op.Input = try.Input
	m.effects.Edits = append(m.effects.Edits, EditChange{
		Step: m.def.Steps[step].Name, Phase: op.Phase, Revision: op.Revision, Input: op.Input,
		ContentSHA256: ContentSHA256(m.def.Steps[step].Action, m.body(step, op)),
	})
}

// CheckInput returns an *InvalidError unless an operator's edit can be the input of a step: one JSON value in UTF-8, whose
// bytes are delivered as they are (S1.6).
func CheckInput(input []byte) error {
	if err := checkInput("input", len(input)); err != nil {
		return err
	}
	var value json.RawMessage
	return UnmarshalStrict(input, "input", 0, &value)
}
