package sagatest

import (
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// gate is a coordinator's one door to participants: what may be sent now, and what waits (R1 to R4). All of its decisions
// are package flow's.
type gate struct {
	c     *coordinator
	flow  *flow.Gate
	sends map[string][]sending // what was let through and stored, by participant; for the check of I-13
}

// sending is an attempt that was let through.
type sending struct {
	at    instant
	retry bool
}

// passage is what a round has asked the gate for, and what it has seen to tell it once it is stored.
type passage struct {
	gate     *gate
	admitted []permit
	parked   []permit
	seen     []observation
}

// permit is an attempt that the gate let through, or parked.
type permit struct {
	request flow.Attempt
	to      string
	wait    saga.Wait
	at      time.Time
}

type observation struct {
	def           *saga.Definition
	before, after saga.Transaction
	event         saga.Event
}

// drawPolicy draws how tightly participants are protected in this run.
func (w *world) drawFlow() flow.Policy {
	if w.rnd.IntN(2) == 0 {
		return flow.Policy{}
	}
	return flow.Policy{
		InFlightMax: 2 + w.rnd.IntN(10), RetryPercent: 10, RetryFloor: 1, BreakerTimeouts: 1 + w.rnd.IntN(4),
		BreakerPauseMax: w.between(time.Second, 20*time.Second), Probes: 1 + w.rnd.IntN(3), CeilingMin: 1 + w.rnd.IntN(20),
	}
}

func newGate(c *coordinator) *gate {
	return &gate{
		c: c, flow: flow.NewGate(func(string) flow.Policy { return c.w.flow }), sends: map[string][]sending{},
	}
}

// Ask asks for one attempt (saga.Gate).
func (p *passage) Ask(r saga.SendRequest, now time.Time) (saga.Wait, time.Time) {
	wait, until := p.gate.flow.Ask(r, now)
	asked := permit{request: flow.AttemptOf(r), to: r.Command.Participant, wait: wait, at: now}
	if wait == saga.WaitNone {
		p.admitted = append(p.admitted, asked)
		p.gate.c.w.checkBudget(p.gate, r)
	} else {
		p.parked = append(p.parked, asked)
		p.gate.c.w.waits[wait]++
	}
	return wait, until
}

// take adds what another passage asked for and saw.
func (p *passage) take(other *passage) {
	p.admitted = append(p.admitted, other.admitted...)
	p.parked = append(p.parked, other.parked...)
	p.seen = append(p.seen, other.seen...)
}

// abandon gives back what was let through and the slots of what was not: nothing of it is stored, and it will be asked for
// again.
func (p *passage) abandon() {
	for _, a := range p.admitted {
		p.gate.flow.Return(a.to, a.request, a.at)
		s := p.gate.sends[a.to]
		p.gate.sends[a.to] = s[:max(len(s)-1, 0)]
	}
	for _, a := range p.parked {
		p.gate.flow.Unpark(a.to, a.wait, a.at)
	}
	p.admitted, p.parked = nil, nil
}

// stored tells the gate what has happened, now that it is committed.
func (p *passage) stored(now time.Time) {
	for i := range p.seen {
		o := &p.seen[i]
		p.gate.flow.Observe(o.def, o.before, o.after, o.event, now)
	}
}

// share tells the gate of the other coordinators, as they tell each other in the database.
func (g *gate) share() {
	others := map[string]int{}
	n := 1
	now := g.c.clock()
	for _, c := range g.c.w.coordinators {
		if c != g.c && c.alive {
			n++
			c.gate.flow.Each(func(name string, f *flow.Flow) { others[name] += f.InFlight(now) })
		}
	}
	g.flow.Share(n, others)
	g.flow.Pause(g.c.w.pauses)
}

// budgetWindow is half of the window that the budget is counted in, so that neither its buckets nor a clock that is set
// make the check wrong.
const budgetWindow = 5 * time.Second

// checkBudget holds the retries that one coordinator has sent to a participant lately against the budget (I-13, R1): an
// operator's replays are not counted.
func (w *world) checkBudget(g *gate, r saga.SendRequest) {
	to := r.Command.Participant
	recent := slices.DeleteFunc(g.sends[to], func(s sending) bool { return s.at < w.now.add(-3*budgetWindow) })
	g.sends[to] = append(recent, sending{at: w.now, retry: r.Retry && !r.Operator})
	if !r.Retry || r.Operator {
		return
	}
	retries, firsts := 0, 0
	for _, s := range g.sends[to] {
		switch {
		case s.retry && s.at >= w.now.add(-budgetWindow):
			retries++
		case !s.retry:
			firsts++
		}
	}
	policy := w.flow.WithDefaults()
	allowed := policy.RetryPercent*firsts/100 + 2*policy.RetryFloor*int(budgetWindow/time.Second)
	if retries > max(allowed, 1) {
		w.violated("I-13", r.Command.Transaction, "%d retries were sent to %s in %s, beside %d first attempts", retries, to, budgetWindow, firsts)
	}
}
