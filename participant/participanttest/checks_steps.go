package participanttest

import "github.com/sagacity-tx/sagacity/saga"

// stepChecks are about transactions with two steps at the participant. A pivot is the only one of its transaction
// (S2.2), so they leave it out.
func stepChecks() []check {
	return []check{{
		name: "two-steps", rules: "S1.1, M2", kinds: []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindRetriable},
		must: "Two steps of one transaction at one participant are two operations: each takes effect, and a cancel of the one leaves the other as it is.",
		fix: "Key the barrier rows, and the business rows that a confirm or cancel looks for, by tenant, transaction and step (Saga-Step), " +
			"never by the transaction alone.",
		run: func(t *trial) {
			if t.action.Kind == saga.KindRetriable {
				bothForward(t)
				return
			}
			oneCancelled(t)
			oneNeverTried(t)
		},
	}}
}

// two are the steps of one transaction.
type two struct {
	one, other *transaction
	whole      bool // the probe counts the transaction's effects, not the step's
}

func (t *trial) beginTwo() *two {
	one := t.begin()
	return &two{one: one, other: t.step(one.c.Transaction, SecondStep, t.action.Input)}
}

// tryBoth tries both steps. Before the second try is sent the probe shows what it counts by.
func (p *two) tryBoth() (one, other answer) {
	t, tried := p.one.t, p.one.t.action.tried()
	one = p.one.do(p.one.try(), done, tried)
	if t.over() {
		return one, other
	}
	p.whole = p.other.effect() == tried
	return one, p.other.do(p.other.try(), done, p.counts(tried, tried))
}

// counts returns what the probe has to say about a step, by what stands of it and of the other one.
func (p *two) counts(own, others Effect) Effect {
	if p.whole {
		return Effect{Held: own.Held + others.Held, Final: own.Final + others.Final}
	}
	return own
}

func bothForward(t *trial) {
	p, tried := t.beginTwo(), t.action.tried()
	one, other := p.tryBoth()
	p.one.do(p.one.try(), again(one), p.counts(tried, tried))
	p.other.do(p.other.try(), again(other), p.counts(tried, tried))
}

// oneCancelled cancels one of two steps. The other stands; if it can be confirmed it is.
func oneCancelled(t *trial) {
	p, tried, final := t.beginTwo(), t.action.tried(), Effect{Final: 1}
	_, other := p.tryBoth()
	cancelled := p.one.do(p.one.cancel(), done, p.counts(none, tried))
	p.other.do(p.other.try(), again(other), p.counts(tried, none))
	if t.action.Kind == saga.KindTCC {
		p.other.do(p.other.confirm(), done, p.counts(final, none))
	}
	p.one.do(p.one.cancel(), again(cancelled), p.counts(none, final))
}

// oneNeverTried cancels a step whose try never ran. That is no reason to refuse the other's try (M3). What the cancel
// itself is answered is not judged here but by null-cancel.
func oneNeverTried(t *trial) {
	if t.over() {
		return
	}
	p := t.beginTwo()
	p.one.ask(p.one.cancel(), done)
	p.other.do(p.other.try(), done, t.action.tried())
}
