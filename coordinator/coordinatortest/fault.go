package coordinatortest

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// What may happen to messages between a coordinator and its participants (C1).

type faultKind int

const (
	faultLose faultKind = iota
	faultDuplicate
	faultLate
	faultLoseReply
)

// fault disturbs the next commands or replies of an operation, of whatever transaction.
type fault struct {
	kind  faultKind
	step  string
	phase saga.Phase
	left  int
	late  time.Duration
}

func disturbsReply(k faultKind) bool   { return k == faultLoseReply }
func disturbsCommand(k faultKind) bool { return k != faultLoseReply }

// Lose loses the next commands of a step's phase: the participant never gets them. They are sent again when the attempt
// has timed out.
func (c *Coordinator) Lose(step string, phase saga.Phase, times int) {
	c.e.plan(fault{kind: faultLose, step: step, phase: phase, left: times})
}

// LoseReply loses the next replies: the participant has done what was asked, and nobody knows.
func (c *Coordinator) LoseReply(step string, phase saga.Phase, times int) {
	c.e.plan(fault{kind: faultLoseReply, step: step, phase: phase, left: times})
}

// Duplicate delivers each of the next commands twice.
func (c *Coordinator) Duplicate(step string, phase saga.Phase, times int) {
	c.e.plan(fault{kind: faultDuplicate, step: step, phase: phase, left: times})
}

// Late delivers the next commands d later than they were sent: a try may come after its cancel.
func (c *Coordinator) Late(step string, phase saga.Phase, d time.Duration, times int) {
	c.e.plan(fault{kind: faultLate, step: step, phase: phase, left: times, late: d})
}

func (e *engine) plan(f fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, &f)
}

// fault uses up one of the faults that are planned for a command or its reply, in the order they were planned.
func (e *engine) fault(cmd saga.Command, disturbs func(faultKind) bool) *fault {
	for _, f := range e.faults {
		if f.left > 0 && f.step == cmd.Step && f.phase == cmd.Phase && disturbs(f.kind) {
			f.left--
			return f
		}
	}
	return nil
}
