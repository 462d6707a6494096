package saga

// Time passing: delayed starts, deadlines, attempt timeouts and retries that are due.

func (m *machine) wake(ev Woken) error {
	if m.tx.Status == StatusAccepted {
		if m.now.Before(m.tx.StartAt) {
			return nil
		}
		m.tx.Status = StatusRunning
		m.effects.Changed = true
	}
	m.advance() // the deadline first: what it overtakes is not sent again
	m.eachActive(func(step int, op *Operation) {
		if op.State == OperationSent && !m.now.Before(op.NextAt) {
			m.timeOut(step, op, ev.Heard)
		}
	})
	m.eachActive(func(step int, op *Operation) { // of what no decision has overtaken by now
		if op.State == OperationWaiting && !m.now.Before(op.NextAt) {
			m.send(step, op)
		}
	})
	return nil
}

// What is recorded of an attempt that ended without a reply.
const (
	codeTimeout   = "timeout"
	reasonTimeout = "no reply within "
)

// timeOut ends an attempt without a reply: its outcome is unknown, never failed (U1). It counts towards
// exhaustion only if the participant answered others meanwhile; the silence of a whole participant is an
// outage, whose victims wait, unless their step asks for a person at once. What must go forward never exhausts by
// silence (S2.8).
func (m *machine) timeOut(step int, op *Operation, heard map[string]Heard) {
	s := &m.def.Steps[step]
	silence := Reply{
		Outcome: OutcomeUnknown, Code: codeTimeout, Attempt: op.Attempt,
		Reason: reasonTimeout + s.attemptTimeout().String(),
	}
	m.attemptEnded(step, op, silence)
	op.postpone(WaitBackoff, m.now.Add(m.delay(step, op)))
	mayExhaust := op.Phase == PhaseTry && s.Kind.cancellable()
	own := OperationKey{Tenant: m.tx.Tenant, Transaction: m.tx.ID, Step: s.Name, Phase: op.Phase}
	outage := !heard[s.Participant].Others(own).After(op.SentAt)
	if !mayExhaust || op.Attempt <= op.CountedTo || outage && s.Retry.Strategy != StrategyDeadLetter {
		return
	}
	op.Counted++
	op.CountedTo = op.Attempt
	if op.Counted >= s.attemptsMax(op.Phase) {
		m.exhaust(step, op, silence)
	}
}
