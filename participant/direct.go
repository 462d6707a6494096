package participant

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/saga"
)

// The door of tests: commands without NATS. Package coordinator/coordinatortest goes through it.

// NewDirect returns a participant that has a database and no NATS: its commands come through Execute only, and Run
// returns an error. Config.NATS is ignored. It is for tests; services use New.
func NewDirect(c Config) (*Participant, error) {
	c.NATS = new(nats.Conn) // New requires one; nothing uses it
	p, err := New(c)
	if err != nil {
		return nil, err
	}
	p.cfg.NATS = nil
	return p, nil
}

// Execute does what a command asks for, as Run does with a command of NATS: one local transaction with the barrier's
// decision, the handler's statements and the stored reply. It returns when that is committed or rolled back. Commands
// of one step may come at the same time; they wait for each other in the database (B2).
//
// An error says that nobody knows whether the operation was executed (the database cannot be reached, the answer of
// a commit was lost): there is no reply, and the same command finds out. After the first call no action can be
// added. It may be called while Run runs.
func (p *Participant) Execute(ctx context.Context, cmd saga.Command) (saga.Reply, error) {
	p.seal()
	// A process that lives on needs no counting of deliveries: nothing has to run alone.
	s := &suspect{delivery: 1, alone: func(context.Context) error { return nil }}
	ctx, end := p.span(ctx, cmd)
	reply, err := p.reply(ctx, cmd, s)
	end(reply, err)
	return reply, err
}

// seal allows no more actions: the map of handlers is read without a lock from now on.
func (p *Participant) seal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = true
}
