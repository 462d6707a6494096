package participant

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// A command whose user code ends its process (it runs out of memory, calls os.Exit, overflows the stack) is never
// answered; it comes again, and ends the next process. Nothing that counts deliveries in NATS finds it: a
// command lives there as long as its attempt, which is shorter than AckWait, and the next attempt is counted from one. So
// the participant counts in its own database, and only where there is reason to: an operation's first delivery is
// not counted, and what ended with a reply is forgotten. See docs/adr/0013-poison.md.
//
//	first delivery           run
//	begun up to max − 2      counted, run
//	begun up to max          counted, run while nothing else runs in the process
//	begun max times          not run: fault poison
//
// Whoever ran beside a killer is counted too, but has two chances alone: it uses the first one.

// deliveriesAlone is how many of the deliveries of a suspect, the last ones, run alone.
const deliveriesAlone = 2

const (
	absolveTimeout = 2 * time.Second
	absolvedMax    = 1000
)

// suspect is a command that may be what has ended its process before.
type suspect struct {
	delivery uint64                      // of this attempt's message
	alone    func(context.Context) error // waits until nothing else runs in the process, and keeps it so

	begun  int  // how often its user code was begun and did not end, this time included
	poison bool // it must not be run
}

// is reports whether an earlier delivery may have ended its process. It is false on the path that has to be
// fast.
func (s *suspect) is(cmd saga.Command) bool { return cmd.Attempt > 1 || s.delivery > 1 }

// begin counts that the user code of a suspect is about to begin.
func (p *Participant) begin(ctx context.Context, cmd saga.Command, s *suspect) (err error) {
	sharedMax := max(0, p.cfg.DeliveriesMax-deliveriesAlone)
	s.begun, err = p.barrier.suspectBegin(ctx, cmd, s.delivery, &sharedMax)
	if err == nil && s.begun > sharedMax && s.begun <= p.cfg.DeliveriesMax {
		p.log.WarnContext(ctx, "command may be what ended its process, and is run alone",
			"operation", cmd.Key().String(), "action", cmd.Action, "attempt", cmd.Attempt, "begun", s.begun)
		if err := s.alone(ctx); err != nil {
			return err
		}
		s.begun, err = p.barrier.suspectBegin(ctx, cmd, s.delivery, nil)
	}
	s.poison = s.begun > p.cfg.DeliveriesMax
	if s.poison {
		p.log.ErrorContext(ctx, "command ends its process, and is not run",
			"operation", cmd.Key().String(), "action", cmd.Action, "attempt", cmd.Attempt, "begun", s.begun-1)
	}
	return err
}

// absolve holds what must not be suspected any more, and could not be told to the database yet.
type absolve struct {
	mu   sync.Mutex
	cmds []saga.Command
}

// end forgets a suspect: its user code has ended and its process lives, or it was answered.
func (p *Participant) end(ctx context.Context, cmd saga.Command) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), absolveTimeout)
	defer cancel()
	if err := p.barrier.suspectEnd(ctx, cmd); err == nil {
		return
	}
	p.absolve.mu.Lock()
	defer p.absolve.mu.Unlock()
	if len(p.absolve.cmds) < absolvedMax {
		p.absolve.cmds = append(p.absolve.cmds, cmd)
	}
}

// absolveAgain tells the database what it could not be told before. An outage of the database must not make
// poison of what ran at the time.
func (p *Participant) absolveAgain(ctx context.Context) {
	p.absolve.mu.Lock()
	cmds := slices.Clone(p.absolve.cmds)
	p.absolve.cmds = nil
	p.absolve.mu.Unlock()
	for i, cmd := range cmds {
		ctx, cancel := context.WithTimeout(ctx, absolveTimeout)
		err := p.barrier.suspectEnd(ctx, cmd)
		cancel()
		if err != nil {
			p.absolve.mu.Lock()
			p.absolve.cmds = append(p.absolve.cmds, cmds[i:]...)
			p.absolve.mu.Unlock()
			return
		}
	}
}

// seat is the right to run: one of the places, or all of them.
type seat struct {
	in     *intake
	places int
	alone  bool
}

// take waits for a place.
func (s *seat) take(ctx context.Context) error {
	select {
	case s.in.running <- struct{}{}:
		s.places++
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeAll gives the place back and waits for all of them. One command at a time does so: two that hold some
// each would wait for each other.
func (s *seat) takeAll(ctx context.Context) error {
	s.leave()
	select {
	case s.in.alone <- struct{}{}:
		s.alone = true
	case <-ctx.Done():
		return ctx.Err()
	}
	for s.places < cap(s.in.running) {
		if err := s.take(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leave gives back what was taken.
func (s *seat) leave() {
	for ; s.places > 0; s.places-- {
		<-s.in.running
	}
	if s.alone {
		<-s.in.alone
		s.alone = false
	}
}
