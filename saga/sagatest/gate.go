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

// passage is a round's, with the attempts that were let through for the check of I-13.
type passage struct {
	flow.Passage
	gate     *gate
	admitted []string // the participant of each
}

func (g *gate) passage() passage { return passage{Passage: g.flow.Passage(), gate: g} }

// drawFlow draws how tightly participants are protected in this run.
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
	wait, until := p.Passage.Ask(r, now)
	if wait == saga.WaitNone {
		p.admitted = append(p.admitted, r.Command.Participant)
		p.gate.c.w.checkBudget(p.gate, r)
	} else {
		p.gate.c.w.waits[wait]++
	}
	return wait, until
}

// take adds what another passage asked for and saw.
func (p *passage) take(other *passage) {
	p.Take(&other.Passage)
	p.admitted = append(p.admitted, other.admitted...)
}

// abandon gives back what was asked for.
func (p *passage) abandon() {
	p.Abandon()
	for _, to := range p.admitted {
		s := p.gate.sends[to]
		p.gate.sends[to] = s[:max(len(s)-1, 0)]
	}
	p.admitted = nil
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
