package flow

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Passage is what one write asks a gate for before it is stored, and what it has to tell the gate once it is. It is a
// saga.Gate. Whoever uses a gate from several goroutines holds its lock around Ask, Abandon and Stored.
type Passage struct {
	gate  *Gate
	asked []asked
	seen  []*observation // large, and passed on from passage to passage
}

// asked is an attempt that a flow let through, or parked.
type asked struct {
	flow    *Flow
	attempt Attempt
	wait    saga.Wait // none: it was let through
	at      time.Time
}

// observation is an event and the transaction before and after it.
type observation struct {
	def           *saga.Definition
	before, after saga.Transaction
	event         saga.Event
}

// Passage begins a passage.
func (g *Gate) Passage() Passage { return Passage{gate: g} }

// Ask decides about one attempt (saga.Gate).
func (p *Passage) Ask(r saga.SendRequest, now time.Time) (saga.Wait, time.Time) {
	a := Attempt{Timeout: r.Command.Timeout, Retry: r.Retry, MustEnd: r.MustEnd, Operator: r.Operator, Held: ofBacklog(r.Command.Waited)}
	f, wait, until := p.gate.ask(r, a, now)
	p.asked = append(p.asked, asked{flow: f, attempt: a, wait: wait, at: now})
	return wait, until
}

// See notes what an event has changed.
func (p *Passage) See(def *saga.Definition, before, after saga.Transaction, ev saga.Event) {
	p.seen = append(p.seen, &observation{def: def, before: before, after: after, event: ev})
}

// Take adds what another passage of the same gate asked for and saw.
func (p *Passage) Take(other *Passage) {
	p.asked = append(p.asked, other.asked...)
	p.seen = append(p.seen, other.seen...)
}

// Abandon gives back what was let through and the slots of what was not: nothing of it is stored, and it will be asked for
// again.
func (p *Passage) Abandon() {
	for _, a := range p.asked {
		if a.wait == saga.WaitNone {
			a.flow.Return(a.attempt, a.at)
		} else {
			a.flow.Unpark(a.wait, a.at)
		}
	}
	p.asked = nil
}

// Stored tells the gate what has happened, now that it is committed.
func (p *Passage) Stored(now time.Time) {
	for _, o := range p.seen {
		p.gate.Observe(o.def, o.before, o.after, o.event, now)
	}
}

// ofBacklog reports whether what waited so gathered while nothing, or not everything, might be sent. It is stored with the
// operation: so a backlog drains at the ceiling also when the coordinator that saw it gather is gone.
func ofBacklog(waited saga.Wait) bool {
	return waited == saga.WaitBreaker || waited == saga.WaitCeiling || waited == saga.WaitPause
}
