package participant

import (
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

// gather makes groups of the commands that wait. A command does not wait for others to come: a group takes what is there,
// and while it commits the next ones gather.
type gather struct {
	in     *intake
	limits groupLimits

	mu      sync.Mutex
	size    int // of the next group: half of the last one after a failure, twice as many after a success
	waiting []*member
	running int                  // goroutines that carry groups out
	apart   map[string]time.Time // actions that must not be in a group until then
}

func newGather(in *intake) *gather {
	limits := in.p.groups
	limits.atOnce = min(limits.atOnce, in.p.cfg.Concurrency)
	return &gather{in: in, limits: limits, size: max(1, in.p.cfg.GroupMax), apart: map[string]time.Time{}}
}

// answer carries a command out in a group and returns the reply to publish. Without ok it has to run by itself.
func (g *gather) answer(j *job) (reply bus.Message, ok bool) {
	p := g.in.p
	if !p.groupable(j) {
		return bus.Message{}, false
	}
	m := &member{job: j, batch: p.batchable(j)}
	if p.cfg.GroupMax <= 1 {
		return g.answerBatch(m)
	}
	m.ended = make(chan struct{})
	if !g.add(m) {
		return bus.Message{}, false
	}
	<-m.ended
	return m.message, m.answered
}

// answerBatch carries out one command whose handler queues.
func (g *gather) answerBatch(m *member) (reply bus.Message, ok bool) {
	if !m.batch {
		return bus.Message{}, false
	}
	s := &seat{in: g.in}
	if s.take(g.in.handling) != nil {
		return bus.Message{}, false
	}
	defer s.leave()
	g.tryBatch([]*member{m})
	return m.message, m.answered
}

// tryBatch carries out commands whose handlers queue, unless that has failed too often lately, and reports whether it
// succeeded.
func (g *gather) tryBatch(members []*member) bool {
	p, ctx := g.in.p, g.in.handling
	if !p.batches.worth() {
		return false
	}
	err := p.executeBatch(ctx, members)
	if err != nil && ctx.Err() == nil {
		p.log.DebugContext(ctx, "a batch was rolled back or may be, and its commands run one after the other", "commands", len(members), "error", err)
	}
	p.batches.learn(err == nil)
	return err == nil
}

func (g *gather) add(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	action := m.job.cmd.Action
	if until, apart := g.apart[action]; apart {
		if time.Now().Before(until) {
			return false
		}
		delete(g.apart, action)
	}
	g.waiting = append(g.waiting, m)
	if gathered := g.in.p.hooks.gather; gathered != nil {
		gathered(len(g.waiting))
	}
	if g.running < g.limits.atOnce {
		g.running++
		g.in.work.Go(g.run)
	}
	return true
}

// run carries out one group after the other while commands wait.
func (g *gather) run() {
	for members := g.next(); members != nil; members = g.next() {
		g.execute(members)
	}
}

// next returns the commands of the next group, which all queue their statements or all do not; nil if none waits.
func (g *gather) next() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.running--
		return nil
	}
	var members, rest []*member
	for i, m := range g.waiting {
		if len(members) == g.size {
			rest = append(rest, g.waiting[i:]...)
			break
		}
		if m.batch == g.waiting[0].batch {
			members = append(members, m)
		} else {
			rest = append(rest, m)
		}
	}
	g.waiting = rest
	return members
}

// execute carries out a group, and says to its commands what has become of them.
func (g *gather) execute(members []*member) {
	p, ctx := g.in.p, g.in.handling
	s := &seat{in: g.in}
	err := s.take(ctx)
	var left []*member
	if err == nil {
		if !members[0].batch || !g.tryBatch(members) {
			left, err = p.executeGroup(ctx, members)
		}
		s.leave()
	}
	members = members[:len(members)-len(left)] // executeGroup has sorted them, and those left are the last
	if err != nil {
		p.logGroup(ctx, len(members), err)
	}
	g.learn(members, left, err)
	for _, m := range members {
		close(m.ended)
	}
}

// learn puts commands back that did not get their turn, and makes of a group what is to be learned for the next ones.
func (g *gather) learn(members, left []*member, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(left, g.waiting...)
	failed := err != nil
	for _, m := range members {
		failed = failed || m.busy
		if m.apart {
			g.apart[m.job.cmd.Action] = time.Now().Add(g.limits.apart)
		}
	}
	if failed {
		g.size = max(1, g.size/2)
	} else {
		g.size = min(2*g.size, g.in.p.cfg.GroupMax)
	}
}

// trial decides whether something that fails now and then is worth trying: after a failure it is left alone, the more often
// the more failures there are.
type trial struct {
	mu         sync.Mutex
	skip, wait int
}

// trialSkipMax is how many times it is left alone at most.
const trialSkipMax = 64

// worth is asked before each time.
func (t *trial) worth() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.skip > 0 {
		t.skip--
		return false
	}
	return true
}

// learn is told how it ended.
func (t *trial) learn(ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ok {
		t.wait /= 2
		return
	}
	t.wait = min(max(1, 2*t.wait), trialSkipMax)
	t.skip = t.wait
}
