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
// not counted, and what ended with a reply is forgotten. What the count means is decided by saga.Suspect. See
// docs/adr/0013-poison.md.

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
	besideMax := saga.BesideMax(p.cfg.DeliveriesMax)
	s.begun, err = p.barrier.suspectBegin(ctx, cmd, s.delivery, &besideMax)
	if err == nil && saga.Suspect(s.begun, p.cfg.DeliveriesMax) == saga.RunAlone {
		p.log.WarnContext(ctx, "command may be what ended its process, and is run alone",
			"operation", cmd.Key().String(), "action", cmd.Action, "attempt", cmd.Attempt, "begun", s.begun)
		if err := s.alone(ctx); err != nil {
			return err
		}
		s.begun, err = p.barrier.suspectBegin(ctx, cmd, s.delivery, nil)
	}
	s.poison = saga.Suspect(s.begun, p.cfg.DeliveriesMax) == saga.RunNever
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

// seat is the right to run: beside others, or alone.
type seat struct {
	in    *intake
	taken bool
	rests bool // until it is alone
	alone bool
}

// take waits for a place.
func (s *seat) take(ctx context.Context) error {
	select {
	case s.in.running <- struct{}{}:
		s.taken = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeAlone gives the place back, and waits until nothing else is in hand but what waits for the same. It is not enough
// that nothing runs: whoever ends its process takes with it all that was taken and not answered, and that comes
// again only after AckWait or with its next attempt. One command at a time is alone.
func (s *seat) takeAlone(ctx context.Context) error {
	s.leave()
	s.in.rest()
	s.rests = true
	select {
	case s.in.alone <- struct{}{}:
		s.alone = true
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-s.in.quiet():
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.take(ctx)
}

// leave gives back what was taken.
func (s *seat) leave() {
	if s.taken {
		<-s.in.running
		s.taken = false
	}
	if s.rests { // before another one can be alone: this one has still to publish its reply
		s.in.resume()
		s.rests = false
	}
	if s.alone {
		<-s.in.alone
		s.alone = false
	}
}
