package saga

import (
	"bytes"
	"fmt"
	"time"
)

// Merging replies (S2.10): definitive ones of any attempt are recorded once; transient ones count only for
// an operation that is still being sent.

func (m *machine) reply(ev Replied) error {
	r := ev.Reply
	i, op := m.operation(r.Step, r.Phase)
	if op == nil {
		return &StateError{
			Code: CodeUnknownStep, Status: m.tx.Status, Event: ev.eventName(),
			Operation: r.Step + "/" + string(r.Phase), Problem: "the definition has no such operation",
		}
	}
	switch {
	case !op.Sent() || op.Phase != r.Phase:
		m.contradiction(r, "answers an operation that was never sent")
	case r.Revision != op.Revision:
		m.effects.Unexpected = UnexpectedRevision
	case otherContent(*op, r):
		m.contradiction(r, "is about other content than was sent")
	case !m.inDirection(i, r.Phase):
		m.effects.Unexpected = UnexpectedLate
	default:
		r = interpretInquiry(*op, r)
		switch {
		case m.definitive(i, r):
			m.mergeDefinitive(i, op, r)
		case !m.mergeReservation(i, op, r):
			m.mergeTransient(i, op, r)
		}
	}
	return nil
}

// otherContent reports whether the reply says that something else was carried out than was sent: no proof about the
// operation (U3). Faults and answers to inquire say so in words of their own.
func otherContent(op Operation, r Reply) bool {
	return r.Outcome != OutcomeState && r.Outcome != OutcomeFault &&
		r.ContentSHA256 != [32]byte{} && r.ContentSHA256 != op.ContentSHA256
}

// interpretInquiry turns an answer to inquire into the reply that it amounts to (S2.11). What settles
// nothing stays OutcomeState and only means: send again.
func interpretInquiry(op Operation, r Reply) Reply {
	if r.Outcome != OutcomeState {
		return r
	}
	if r.ContentSHA256 != [32]byte{} && r.ContentSHA256 != op.ContentSHA256 {
		r.Outcome, r.Code, r.Reason = OutcomeFault, FaultConflict, "the participant has recorded other content"
		return r
	}
	type row struct {
		phase Phase
		state BarrierState
	}
	switch (row{r.Phase, r.State}) {
	case row{PhaseTry, BarrierTried}, row{PhaseTry, BarrierConfirmed}, row{PhaseConfirm, BarrierConfirmed},
		row{PhaseCancel, BarrierCancelled}, row{PhaseCancel, BarrierNullCancelled}, row{PhaseCancel, BarrierRefused}:
		r.Outcome = OutcomeDone
	case row{PhaseTry, BarrierRefused}:
		r.Outcome = OutcomeRefused
	case row{PhaseTry, BarrierCancelled}, row{PhaseTry, BarrierNullCancelled}:
		r.Outcome = OutcomeHanging
	}
	if r.State == BarrierPastRetention {
		r.Outcome, r.Code = OutcomeFault, FaultPastRetention
	}
	if r.Phase != PhaseTry {
		r.Result = Payload{} // the stored result is the try's
	}
	return r
}

// definitive reports whether the reply settles the operation. Refused and hanging are answers to tries that
// may be refused; a fence's contradicts proves that the pivot has executed (S2.6).
func (m *machine) definitive(step int, r Reply) bool {
	switch r.Outcome {
	case OutcomeDone, OutcomeRefused, OutcomeHanging:
		return true
	case OutcomeFault:
		return m.isFence(step, r.Phase) && r.Code == FaultContradicts
	default:
		return false
	}
}

func (m *machine) isFence(step int, phase Phase) bool {
	return phase == PhaseCancel && m.def.Steps[step].Kind == KindPivot
}

func (m *machine) mergeDefinitive(step int, op *Operation, r Reply) {
	kind := m.def.Steps[step].Kind
	refusable := r.Phase == PhaseTry && kind != KindRetriable
	switch {
	case op.State == OperationGivenUp || op.State == OperationClosed:
		m.effects.Unexpected = UnexpectedLate
	case !op.State.Open():
		if sameReply(*op, r) {
			m.effects.Unexpected = UnexpectedDuplicate
		} else {
			m.contradiction(r, fmt.Sprintf("differs from the recorded reply %s", op.State))
		}
	case r.Outcome != OutcomeDone && r.Outcome != OutcomeFault && !refusable:
		m.contradiction(r, "is no possible answer to an operation that must go forward")
		if op.State.active() && r.Attempt >= op.Floor && r.Attempt <= op.Attempt { // sending it again would get the same
			m.attemptEnded(step, op, r)
			m.bury(step, op, FaultContradicts, r)
		}
	case r.Outcome == OutcomeHanging && kind != KindPivot:
		m.contradiction(r, "says that the step is cancelled, which nobody asked for")
	default:
		m.record(step, op, r)
		m.follow(step, r)
	}
}

// sameReply reports whether the reply says what is recorded. Only done is ever recorded in a direction that
// goes on: refused and hanging end it.
func sameReply(op Operation, r Reply) bool {
	return op.State == OperationDone && r.Outcome == OutcomeDone && (op.Phase != PhaseTry ||
		op.Result.Type == r.Result.Type && bytes.Equal(op.Result.Data, r.Result.Data))
}

// record settles the operation and closes its dead letter.
func (m *machine) record(step int, op *Operation, r Reply) {
	if op.suspends() {
		m.deadLetter(step, op, DeadLetterClosed)
	}
	op.Replaying = false
	op.rest()
	op.LastOutcome, op.LastCode, op.LastReason = r.Outcome, r.Code, r.Reason
	switch r.Outcome {
	case OutcomeDone:
		op.State = OperationDone
		if op.Phase == PhaseTry {
			op.Result = r.Result
		}
	case OutcomeRefused:
		op.State = OperationRefused
	case OutcomeHanging:
		op.State = OperationHanging
	case OutcomeFault:
		op.State = OperationClosed // a fence that found the pivot executed
	default: // not definitive
	}
	m.effects.Changed = true
}

// follow draws the decision that a definitive reply proves.
func (m *machine) follow(step int, r Reply) {
	fence := m.isFence(step, r.Phase)
	switch {
	case fence && r.Outcome == OutcomeFault:
		try := &m.tx.Steps[step].Try
		done := r
		done.Phase, done.Outcome, done.Code, done.Reason = PhaseTry, OutcomeDone, "", ""
		m.record(step, try, done)
	case fence:
		m.decideCancel(m.tx.Cause)
	case r.Outcome == OutcomeRefused:
		m.decideCancel(Cause{Why: whyRefused(r), Step: r.Step, Code: r.Code, Reason: r.Reason})
	case r.Outcome == OutcomeHanging && m.tx.Steps[step].Settle.Begun():
		m.decideCancel(m.tx.Cause) // of the fence that the pivot met
	case r.Outcome == OutcomeHanging: // a cancel that this coordinator does not know of; the proof holds
		m.decideCancel(Cause{Why: WhyRefused, Step: r.Step, Code: string(OutcomeHanging), Reason: r.Reason})
	}
}

// whyRefused tells a business no from a try that came after its deadline.
func whyRefused(r Reply) Why {
	if r.Code == CodeDeadline {
		return WhyDeadline
	}
	return WhyRefused
}

// mergeTransient takes news that settles nothing.
func (m *machine) mergeTransient(step int, op *Operation, r Reply) {
	switch {
	case !op.State.active():
		m.effects.Unexpected = UnexpectedNotOpen
	case r.Attempt < op.Floor:
		m.effects.Unexpected = UnexpectedOldAttempt
	case r.Attempt > op.Attempt:
		m.contradiction(r, fmt.Sprintf("answers attempt %d of an operation that was sent %d times", r.Attempt, op.Attempt))
	case r.Outcome == OutcomeRetry:
		m.mergeRetry(step, op, r)
	case r.Outcome == OutcomeUnknown:
		m.attemptEnded(step, op, r)
		m.bury(step, op, DeadLetterUnknown, r)
	case r.Outcome == OutcomeFault:
		m.attemptEnded(step, op, r)
		m.bury(step, op, r.Code, r)
	case r.Attempt != op.Attempt || op.State != OperationSent:
		m.effects.Unexpected = UnexpectedOldAttempt
	case r.Outcome == OutcomeInProgress:
		m.attemptEnded(step, op, r)
		op.postpone(WaitLease, m.now.Add(m.leaseWait(step, op, r.RetryAfter)))
	case r.Outcome == OutcomeState:
		m.attemptEnded(step, op, r)
		op.postpone(WaitNone, m.now)
	default:
		m.effects.Unexpected = UnexpectedNotOpen
	}
}

// mergeRetry counts the attempt, once, and waits for the next or ends the attempts (S2.8).
func (m *machine) mergeRetry(step int, op *Operation, r Reply) {
	if r.Attempt <= op.CountedTo {
		m.effects.Unexpected = UnexpectedDuplicate
		return
	}
	op.Counted++
	op.CountedTo = r.Attempt
	m.attemptEnded(step, op, r)
	if r.Attempt == op.Attempt {
		op.postpone(WaitBackoff, m.now.Add(max(m.delay(step, op), min(r.RetryAfter, BackoffMax))))
	}
	if op.Counted >= m.def.Steps[step].attemptsMax(op.Phase) {
		m.exhaust(step, op, r)
	}
}

// leaseWait returns how long to leave the holder of a lease alone: as long as the participant says, else as
// after an attempt that failed.
func (m *machine) leaseWait(step int, op *Operation, retryAfter time.Duration) time.Duration {
	if retryAfter <= 0 {
		return m.delay(step, op)
	}
	return min(max(retryAfter, minDelay), BackoffMax)
}

// postpone makes the operation wait before its next attempt.
func (o *Operation) postpone(wait Wait, until time.Time) {
	o.State, o.Wait, o.NextAt = OperationWaiting, wait, until
}

// attemptEnded records that the attempt that r answers ended without settling the operation.
func (m *machine) attemptEnded(step int, op *Operation, r Reply) {
	op.LastOutcome, op.LastCode, op.LastReason = r.Outcome, r.Code, r.Reason
	end := AttemptEnd{
		Step: m.def.Steps[step].Name, Phase: op.Phase, Attempt: r.Attempt, EndedAt: m.now,
		Outcome: r.Outcome, Code: r.Code, Reason: r.Reason,
	}
	if r.Attempt == op.Attempt {
		end.SentAt = op.SentAt
	}
	m.effects.Attempts = append(m.effects.Attempts, end)
	m.effects.Changed = true
}

// delay draws the wait before the next attempt; an operator's sending begins anew.
func (m *machine) delay(step int, op *Operation) time.Duration {
	return Delay(m.def.Steps[step].Retry.Backoff, op.Attempt-max(op.Floor, 1)+1, m.rnd)
}

// exhaust ends the attempts of an operation: a saga or tcc try cancels the transaction or is set aside, as
// its policy says; a pivot's is fenced; everything else must go forward and is set aside. A panic is always
// set aside, but for the pivot, whose outcome must be found out (S2.6, S3).
func (m *machine) exhaust(step int, op *Operation, last Reply) {
	s := &m.def.Steps[step]
	panicked := last.Code == CodePanic
	switch {
	case op.Phase == PhaseTry && s.Kind == KindPivot:
		m.fence(Cause{Why: WhyExhausted, Step: s.Name, Code: last.Code, Reason: last.Reason})
		if op.State.active() { // an operator replayed it beside its fence
			m.hold(step)
		}
	case panicked:
		m.bury(step, op, DeadLetterPanic, last)
	case op.Phase == PhaseTry && s.Kind.cancellable() && s.OnExhausted == OnExhaustedCancel:
		m.decideCancel(Cause{Why: WhyExhausted, Step: s.Name, Code: last.Code, Reason: last.Reason})
	default:
		m.bury(step, op, DeadLetterExhausted, last)
	}
}

// bury sets the operation aside as a dead letter: it is not sent again but by an operator.
func (m *machine) bury(step int, op *Operation, cause string, last Reply) {
	op.State, op.Replaying = OperationDead, false
	op.rest()
	m.effects.Changed = true
	m.effects.DeadLetters = append(m.effects.DeadLetters, DeadLetterChange{
		Step: m.def.Steps[step].Name, Phase: op.Phase, To: DeadLetterOpen, Cause: cause, Reason: last.Reason,
		Outcome: last.Outcome, Attempt: op.Attempt, Command: m.command(step, op),
	})
}

func (m *machine) deadLetter(step int, op *Operation, to DeadLetterStatus) {
	m.effects.DeadLetters = append(m.effects.DeadLetters, DeadLetterChange{
		Step: m.def.Steps[step].Name, Phase: op.Phase, To: to, Attempt: op.Attempt,
	})
}

// contradiction files an incident: a reply that cannot be. It alters nothing else.
func (m *machine) contradiction(r Reply, problem string) {
	m.effects.Unexpected = UnexpectedContradiction
	m.effects.Incidents = append(m.effects.Incidents, Incident{
		Step: r.Step, Phase: r.Phase, Reply: r,
		Problem: fmt.Sprintf("reply %s of %s to %s/%s %s", r.Outcome, r.Participant, r.Step, r.Phase, problem),
	})
}
