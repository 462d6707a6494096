package coordinatortest

import (
	"context"

	"github.com/sagacity-tx/sagacity/saga"
)

// Executor executes commands with real handlers; a *participant.Participant is one.
type Executor interface {
	Name() string
	// Execute does what a command asks for. An error says that there is no reply.
	Execute(ctx context.Context, cmd saga.Command) (saga.Reply, error)
}

// Connect gives the commands of the participant's name to its real handlers, in process. They take real time: the
// test's clock stands still while they run. Their database compares deadlines and leases with its own clock; handlers
// of external effects want RealTime. It panics if the name is taken.
func (c *Coordinator) Connect(p Executor) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if _, taken := c.e.participants[p.Name()]; taken {
		panic("coordinatortest: there is a participant " + p.Name() + " already")
	}
	c.e.participants[p.Name()] = connected{p}
}

type connected struct{ real Executor }

func (x connected) start(e *engine, cmd saga.Command, end func(*saga.Reply)) {
	e.spawn(func() func() {
		reply, err := x.real.Execute(e.ctx, cmd)
		return func() {
			if err != nil {
				e.note("%s gave no answer: %v", operationText(cmd), err)
				end(nil)
				return
			}
			end(&reply)
		}
	}, func() { end(nil) })
}
