package saga

import (
	"slices"
	"time"
)

// The reasons to wait that a gate has (R1 to R4, E2).
const (
	WaitBudget  Wait = "budget"  // the participant's retry budget is used up
	WaitBreaker Wait = "breaker" // the participant is silent: its circuit breaker is open
	WaitLimit   Wait = "limit"   // the participant has as many attempts in flight as it may have
	WaitCeiling Wait = "ceiling" // the participant's backlog drains at a bounded rate
	WaitPause   Wait = "pause"   // an operator has paused it
)

// Gate says what may be sent to participants now.
type Gate interface {
	// Ask returns WaitNone if the attempt may be sent, else what it waits for and when to ask again, which is after
	// now.
	Ask(r SendRequest, now time.Time) (Wait, time.Time)
}

// SendRequest is an attempt that wants to be sent.
type SendRequest struct {
	Definition string
	Command    *Command // not to be changed
	Retry      bool     // the operation was sent before
	MustEnd    bool     // it must go forward or back: phase two, a fence, a retriable try
	Operator   bool     // an operator asked for this very attempt
}

// Park takes out of the effects of one event the commands that the gate does not let through. Their operations wait,
// with the reason; nothing fails. An operation that was never sent still counts as never sent (S2.4): it is not in the
// cancel set, and a pivot needs no fence.
func Park(def *Definition, tx Transaction, e Effects, gate Gate, now time.Time) (Transaction, Effects) {
	m := machine{def: def, tx: tx, now: now}
	var waits []parked // none, nearly always
	for n := range e.Commands {
		c := &e.Commands[n]
		_, op := m.operation(c.Step, c.Phase)
		if op.State != OperationSent {
			continue // the same event has decided without it (S2.12): it stays closed, and its cancel follows
		}
		wait, until := gate.Ask(SendRequest{
			Definition: def.Name, Command: c, Retry: c.Attempt > 1, Operator: op.Floor == c.Attempt,
			MustEnd: c.Phase != PhaseTry || c.Kind == KindRetriable,
		}, now)
		if wait != WaitNone {
			waits = append(waits, parked{command: n, wait: wait, until: later(until, now.Add(minDelay))})
		}
	}
	if len(waits) == 0 {
		return tx, e
	}
	m.tx.Steps = slices.Clone(tx.Steps)
	e.Commands = slices.Clone(e.Commands)
	for n, w := range waits {
		at := w.command - n // those before it are gone
		_, op := m.operation(e.Commands[at].Step, e.Commands[at].Phase)
		op.Attempt--
		op.SentAt = time.Time{}
		op.postpone(w.wait, w.until)
		e.Commands = slices.Delete(e.Commands, at, at+1)
	}
	e.Wake = m.wakeAt()
	return m.tx, e
}

// parked is a command that the gate did not let through.
type parked struct {
	command int
	wait    Wait
	until   time.Time
}
