package sagatest

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Operators look at the open dead letters now and then. While faults last they do any of what they may, twice or on a page
// of yesterday; once faults have stopped they replay, until everything has ended (I-11).

// open is a dead letter as an operator saw it.
type open struct {
	id      saga.ID
	version int64 // of its transaction
	letter
}

// letters lists the open dead letters, in order.
func (w *world) letters() []open {
	var list []open
	for _, id := range w.database.ids {
		for _, l := range w.database.rows[id].letters {
			if l.Status == saga.DeadLetterOpen {
				list = append(list, open{id, w.database.rows[id].tx.Version, l})
			}
		}
	}
	return list
}

// scheduleOperators lets operators work while faults last.
func (w *world) scheduleOperators() {
	var page []open
	var again func()
	again = func() {
		if w.faults.stopped {
			return
		}
		if !w.chance(operatorStale) {
			page = w.letters()
		}
		for _, o := range page {
			w.operate(o)
		}
		w.inquire()
		w.after(w.operatorsLook(), again)
	}
	w.after(w.operatorsLook(), again)
}

// operate does something about a dead letter, or nothing.
func (w *world) operate(o open) {
	switch {
	case w.chance(operatorEdited):
		w.edit(o)
	case w.chance(operatorReplayed):
		w.replay(o)
		if w.chance(operatorClickedTwice) {
			w.replay(o)
		}
	case w.chance(operatorDiscarded):
		w.act(o, wish{action: saga.LetterDiscard})
	case w.chance(operatorResolved):
		w.ask(func(c *coordinator, done func(outcome)) {
			c.then(pointOperatorBefore, func() {
				it := &item{id: o.id, event: saga.ResolveRequested{}, done: func(out outcome) { c.then(pointOperatorAfter, func() { done(out) }) }}
				if w.rnd.IntN(2) == 0 { // or whatever it is now
					it.version = o.version
				}
				c.offer(it)
			})
		}, func(outcome) {})
	}
}

// act asks a coordinator to replay, discard or edit a dead letter at the version that the operator saw.
func (w *world) act(o open, wish wish) {
	w.ask(func(c *coordinator, done func(outcome)) {
		c.then(pointOperatorBefore, func() {
			var now letter
			found := false
			w.database.read(c.process, func() { now, found = w.database.letter(o) }, func(ok bool) {
				if !ok || !found {
					return
				}
				r := saga.LetterRequest{Action: wish.action, Actor: wish.actor, Seen: o.Version, BreakGlass: wish.breakGlass}
				if w.rnd.IntN(3) == 0 { // whatever it is now
					r.Seen = 0
				}
				it := &item{id: o.id, letter: &now} // as it was judged: nothing may come in between
				switch {
				case wish.consent != nil:
					approval := wish.consent.Approval
					r.Approval, it.use = &approval, &use{wish.consent, wish.actor}
				case wish.breakGlass:
					it.use = &use{nil, wish.actor}
				}
				if err := saga.JudgeLetter(now.Letter, r, w.database.now()); err != nil {
					done(outcome{err: err})
					return
				}
				it.event = w.event(o.id, &now, wish.action)
				it.done = func(out outcome) { c.then(pointOperatorAfter, func() { done(out) }) }
				c.after(w.tail(100*time.Microsecond, 5*time.Second), func() { c.offer(it) })
			})
		})
	}, func(outcome) {})
}

// letter finds a dead letter as it is now.
func (d *database) letter(o open) (letter, bool) {
	r := d.rows[o.id]
	if r == nil {
		return letter{}, false
	}
	for _, l := range r.letters {
		if l.Step == o.Step && l.Phase == o.Phase {
			return l, true
		}
	}
	return letter{}, false
}

// inquire asks participants what became of operations that are under way: what an operator does who restores a backup, or
// wants to know (S2.11).
func (w *world) inquire() {
	for _, id := range w.database.ids {
		r := w.database.rows[id]
		if r.tx.Status.Terminal() && w.rnd.IntN(10) > 0 || !w.chance(operatorInquired) {
			continue
		}
		w.inquireAll(r)
	}
}

func (w *world) inquireAll(r *record) {
	for i, s := range r.tx.Steps {
		for _, op := range []saga.Operation{s.Try, s.Settle} {
			if op.Sent() {
				w.sendInquiry(r, i, op)
			}
		}
	}
}

func (w *world) sendInquiry(r *record, step int, op saga.Operation) {
	s := &r.def.Steps[step]
	cmd := saga.Command{
		Verb: saga.VerbInquire, Tenant: r.tx.Tenant, Transaction: r.tx.ID, Step: s.Name, Phase: op.Phase, Kind: s.Kind,
		Participant: s.Participant, Action: s.Action, Attempt: op.Attempt, Revision: op.Revision, Timeout: time.Minute,
		ReplyTo: wire.ReplySubject(prefix, s.Participant, 0),
	}
	m, err := wire.EncodeCommand(prefix, cmd)
	if err != nil {
		w.violated("S2.11", r.tx.ID, "an inquiry cannot be encoded: %v", err)
		return
	}
	w.note(r.tx.ID, "operator", "sends %s", commandText{cmd})
	w.bag.store(m, r.tx.ID)
}

// replaysMax is how often operators replay a dead letter that comes back although nothing is wrong any more, before they
// believe its reason: an external effect that nobody can find out about (U4).
const replaysMax = 3

// settleLetters is what operators do when faults have stopped.
func (w *world) settleLetters() {
	for _, o := range w.letters() {
		key := suspectKey{rowKey{o.id, o.Step}, o.Phase}
		w.replays[key]++
		switch {
		case w.replays[key] > replaysMax && w.inDoubt(o):
			w.act(o, wish{action: saga.LetterDiscard})
		case o.Proposal != nil && !o.Proposal.Reserved, o.Proposal == nil && o.Cause == saga.FaultSuperseded:
			w.edit(o) // what was begun is finished: nothing before it may run any more (S1.5)
		default:
			w.replay(o)
		}
	}
}

// inDoubt reports whether the dead letter is about an external effect that its participant cannot find out about or cannot
// void.
func (w *world) inDoubt(o open) bool {
	r := w.database.rows[o.id]
	s := r.def.Steps[r.def.StepIndex(o.Step)]
	spec := actions[s.Action]
	return o.Cause == saga.DeadLetterUnknown && spec.external && !(spec.inquire && spec.void)
}
