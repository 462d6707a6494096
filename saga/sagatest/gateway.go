package sagatest

import (
	"errors"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// gateway is what lies outside of a participant's database: a payment service, say. It has its own truth, which the model
// counts apart from what the participant believes (U4).
type gateway struct {
	w    *world
	keys map[rowKey]*charge // by the try's idempotency key
}

// charge is what a gateway knows of one key.
type charge struct {
	executed  int // times that the effect happened
	confirmed bool
	undone    bool
	refused   bool // for good
	voided    bool // requests of this key are refused from now on
	result    saga.Payload
}

// What a gateway may answer.
var (
	errNotSent     = errors.New("the connection could not be made: nothing has left")
	errNoAnswer    = errors.New("no answer in time")
	errSaidNo      = errors.New("downstream said no")
	errHasHappened = errors.New("it has happened meanwhile")
)

// Times of external effects. A request arrives at a gateway within the margin after the process has sent it, which is
// what a lease's length has to account for.
const (
	handlerTimeout = 10 * time.Second
	leaseMargin    = 15 * time.Second
	leaseTime      = handlerTimeout + leaseMargin
)

func (g *gateway) charge(key rowKey) *charge {
	c := g.keys[key]
	if c == nil {
		c = &charge{}
		g.keys[key] = c
	}
	return c
}

// request carries something to the gateway and its answer back, unless one of them is lost.
func (g *gateway) request(p *process, until instant, at func() error, answer func(error)) {
	g.requestLate(p, until, leaseMargin-2*jumpMax, at, answer)
}

// requestLate is request; it may arrive as late as that.
func (g *gateway) requestLate(p *process, until instant, latest time.Duration, at func() error, answer func(error)) {
	w := g.w
	life := p.life
	switch {
	case w.now >= until, w.chance(gatewayNotSent):
		p.after(w.hop(), func() { answer(errNotSent) })
		return
	case w.chance(gatewayRequestLost):
		p.answer(life, time.Duration(until-w.now), func() { answer(errNoAnswer) })
		return
	}
	lost := w.chance(gatewayAnswerLost)
	travel := w.tail(time.Millisecond, leaseMargin-2*jumpMax)
	late := latest > leaseMargin && w.chance(gatewayLate)
	if late {
		travel = w.tail(leaseMargin, latest)
		p.answer(life, time.Duration(until-w.now), func() { answer(errNoAnswer) })
	}
	w.after(travel, func() {
		err := at()
		switch {
		case late: // nobody waits any more
		case lost || w.now >= until:
			p.answer(life, max(time.Duration(until-w.now), 0), func() { answer(errNoAnswer) })
		default:
			p.answer(life, w.hop(), func() { answer(err) })
		}
	})
}

// do makes the effect. It is never refused where there is no way back (S2.2).
func (g *gateway) do(p *process, key rowKey, kind saga.Kind, idempotent bool, until instant, answer func(saga.Payload, error)) {
	w := g.w
	var result saga.Payload
	at := func() error {
		c := g.charge(key)
		switch {
		case c.voided || c.refused:
			return errSaidNo
		case c.executed > 0 && idempotent:
			result = c.result
			return nil
		case c.executed == 0 && kind != saga.KindRetriable && w.chance(gatewayRefused):
			c.refused = true
			return errSaidNo
		}
		c.executed++
		w.run++
		c.result = saga.Payload{Data: fmt.Appendf(nil, `{"charge":%d}`, w.run)}
		result = c.result
		w.note(key.transaction, "gateway", "executes %s", key.step)
		w.touch(key.transaction)
		return nil
	}
	latest := leaseMargin - 2*jumpMax
	if idempotent { // a key that is executed once, or voided, protects from requests that come after the lease
		latest = delayMax
	}
	g.requestLate(p, until, latest, at, func(err error) { answer(result, err) })
}

// inquire finds out what became of the effect.
func (g *gateway) inquire(p *process, key rowKey, until instant, answer func(saga.Downstream, saga.Payload, error)) {
	var found saga.Downstream
	var result saga.Payload
	at := func() error {
		c := g.charge(key)
		switch {
		case g.w.chance(gatewayUnreachable):
			return errNoAnswer
		case g.w.chance(gatewayUndecided):
			found = saga.DownstreamUndecided
		case c.executed > 0:
			found, result = saga.DownstreamDone, c.result
		case c.refused:
			return errSaidNo
		default:
			found = saga.DownstreamAbsent
		}
		return nil
	}
	g.request(p, until, at, func(err error) { answer(found, result, err) })
}

// void makes the gateway refuse the key for ever.
func (g *gateway) void(p *process, key rowKey, until instant, answer func(error)) {
	at := func() error {
		c := g.charge(key)
		if c.executed > 0 {
			return errHasHappened
		}
		c.voided = true
		g.w.note(key.transaction, "gateway", "voids the key of %s", key.step)
		g.w.touch(key.transaction)
		return nil
	}
	g.request(p, until, at, answer)
}

// settle confirms or undoes the effect; it is safe to repeat.
func (g *gateway) settle(p *process, key rowKey, phase saga.Phase, until instant, answer func(error)) {
	at := func() error {
		c := g.charge(key)
		if phase == saga.PhaseConfirm {
			c.confirmed = true
		} else {
			c.undone = true
		}
		g.w.note(key.transaction, "gateway", "%ss %s", phase, key.step)
		g.w.touch(key.transaction)
		return nil
	}
	g.request(p, until, at, answer)
}
