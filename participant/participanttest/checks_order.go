package participanttest

import (
	"fmt"
	"slices"

	"github.com/sagacity-tx/sagacity/saga"
)

// How much is sent at once.
const (
	copiesAtOnce    = 8
	racesAtOnce     = 8
	shuffledAtOnce  = 20
	shuffledEachMax = 2
)

// orderChecks send many commands at once. What is answered depends on which was first; it must fit together.
func orderChecks() []check {
	const rowFirst = "Insert the barrier row first, lock it, and read it in a statement of its own before the work; commit all of it together. " +
		"A command that waits for another of its step may be answered with retry, code busy."
	return []check{
		{
			name: "copies-at-once", rules: "I-3, B2",
			must: "Of many copies of a try at the same time one takes effect; the others get its reply, or retry.",
			fix:  rowFirst, run: copies,
		},
		{
			name: "try-and-cancel-at-once", rules: "B2, I-6, M3", kinds: []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot},
			must: "When a try and its cancel come at the same time, either the try never runs, or the cancel finds it: of a pivot by the fault contradicts.",
			fix:  rowFirst,
			run:  func(t *trial) { t.race(saga.PhaseTry, saga.PhaseCancel) },
		},
		{
			name: "confirm-and-cancel-at-once", rules: "I-1, B2", kinds: confirmed,
			must: "When a confirm and a cancel come at the same time, one of them is done and the other is the fault contradicts.",
			fix:  rowFirst,
			run:  func(t *trial) { t.race(saga.PhaseConfirm, saga.PhaseCancel) },
		},
		{
			name: "any-order", rules: "M3, M4, I-1, I-3", kinds: []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot},
			must: "Copies of all phases in any order take effect at most once each, and never a confirm and a cancel.",
			fix:  rowFirst, run: shuffled,
		},
	}
}

// exchange is a command with its answer.
type exchange struct {
	op op
	answer
}

func (e exchange) phase() saga.Phase { return e.op.cmd.Phase }

// atOnce sends commands without waiting, and returns the exchanges of each transaction.
func (t *trial) atOnce(ops []op) map[saga.ID][]exchange {
	if t.over() {
		return nil
	}
	cmds := make([]saga.Command, len(ops))
	for i, o := range ops {
		cmds[i] = o.cmd
	}
	boxes, err := t.k.post(t.ctx, cmds...)
	if t.stop(err) {
		return nil
	}
	all := map[saga.ID][]exchange{}
	for i, box := range boxes {
		a, err := t.k.read(t.ctx, box, t.k.cfg.Patience)
		if t.stop(err) {
			return nil
		}
		ops[i].notes = append(ops[i].notes, "at once")
		id := ops[i].cmd.Transaction
		all[id] = append(all[id], exchange{op: ops[i], answer: a})
		if a.silent {
			t.lines = nil
			t.note(ops[i], a)
			t.fail(a, "a reply", a.String())
			return nil
		}
	}
	return all
}

func copies(t *trial) {
	x := t.begin()
	ops := make([]op, copiesAtOnce)
	for i := range ops {
		ops[i] = x.try()
	}
	x.finish(t.atOnce(ops)[x.c.Transaction])
}

// race sends two phases of many transactions at the same time, in both orders. Before the second one is a confirm,
// the try is done.
func (t *trial) race(one, two saga.Phase) {
	var ops []op
	for i := range racesAtOnce {
		x := t.begin()
		if one != saga.PhaseTry {
			x.do(x.try(), done, t.action.tried())
		}
		pair := []op{x.op(one, nil), x.op(two, nil)}
		if i%2 == 1 {
			slices.Reverse(pair)
		}
		ops = append(ops, pair...)
	}
	t.finish(t.atOnce(ops))
}

// shuffled sends copies of all phases of many transactions in a random order.
func shuffled(t *trial) {
	phases := []saga.Phase{saga.PhaseTry, saga.PhaseCancel}
	if t.action.Kind == saga.KindTCC {
		phases = append(phases, saga.PhaseConfirm)
	}
	var ops []op
	for range shuffledAtOnce {
		x := t.begin()
		for range shuffledEachMax {
			for _, phase := range phases {
				ops = append(ops, x.op(phase, nil))
			}
		}
	}
	t.rnd.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	t.finish(t.atOnce(ops))
}

func (t *trial) finish(seen map[saga.ID][]exchange) {
	for _, x := range t.all {
		x.finish(seen[x.c.Transaction])
	}
}

// finish judges what was answered to commands that came in any order, brings the transaction to its end, and judges
// whether that fits.
func (x *transaction) finish(seen []exchange) {
	t := x.t
	if t.over() {
		return
	}
	t.lines = nil
	for _, e := range seen {
		t.note(e.op, e.answer)
		x.learn(e.op, e.answer)
	}
	x.fits(seen)
	x.stands(seen)
	tried, confirmed := first(seen, saga.PhaseTry), first(seen, saga.PhaseConfirm)
	final := Effect{Final: 1}
	switch {
	case only(seen, saga.PhaseTry) && tried != nil:
		x.do(x.try(), again(tried.answer), t.action.tried())
	case only(seen, saga.PhaseTry):
		x.do(x.try(), done, t.action.tried())
	case t.action.Kind == saga.KindPivot && tried != nil:
		x.do(x.cancel(), fault(saga.FaultContradicts).with(tried.reply.Result), final)
		x.do(x.try(), again(tried.answer), final)
	case confirmed != nil:
		x.do(x.cancel(), fault(saga.FaultContradicts), final)
		x.do(x.confirm(), again(confirmed.answer), final)
	default:
		x.do(x.cancel(), done, none)
		x.do(x.try(), hanging, none)
		if t.action.Kind == saga.KindTCC {
			x.do(x.confirm(), fault(saga.FaultContradicts), none)
		}
	}
}

// stands judges the effect by what was answered, before anything else is sent: after a cancel nothing is left,
// whatever came before it or after it.
func (x *transaction) stands(seen []exchange) {
	t := x.t
	if t.over() {
		return
	}
	want, because := none, "the cancel is done"
	switch {
	case first(seen, saga.PhaseCancel) != nil:
	case first(seen, saga.PhaseConfirm) != nil:
		want, because = Effect{Final: 1}, "the confirm is done"
	default:
		return // a try without an end, or one that is not done yet
	}
	if got := x.effect(); got != want {
		t.fail(answer{}, fmt.Sprintf("effect: %s, because %s", want, because), "effect: "+got.String())
	}
}

// first returns the first exchange of a phase that was answered with done; nil if there is none.
func first(seen []exchange, phase saga.Phase) *exchange {
	i := slices.IndexFunc(seen, func(e exchange) bool { return e.phase() == phase && e.done() })
	if i < 0 {
		return nil
	}
	return &seen[i]
}

func only(seen []exchange, phase saga.Phase) bool {
	return !slices.ContainsFunc(seen, func(e exchange) bool { return e.phase() != phase })
}

// fits judges each answer by the others.
func (x *transaction) fits(seen []exchange) {
	tried, confirmed, cancelled := first(seen, saga.PhaseTry), first(seen, saga.PhaseConfirm), first(seen, saga.PhaseCancel)
	executed := confirmed // what a cancel contradicts
	if x.t.action.Kind == saga.KindPivot {
		executed = tried
	}
	if executed != nil && cancelled != nil {
		x.t.fail(cancelled.answer, "either the cancel is done, or what it contradicts", "both are done")
		return
	}
	for _, e := range seen {
		ok := e.transient() || e.done() && e.same(first(seen, e.phase()).answer)
		expected := "done"
		switch e.phase() {
		case saga.PhaseTry:
			expected = "done, always with the same result; hanging if the cancel was done; or retry"
			ok = ok || e.is(saga.OutcomeHanging, "") && cancelled != nil
		case saga.PhaseConfirm:
			expected = "done; the fault not_tried, or contradicts if the cancel was done; or retry"
			ok = ok || e.is(saga.OutcomeFault, saga.FaultNotTried) || e.is(saga.OutcomeFault, saga.FaultContradicts) && cancelled != nil
		case saga.PhaseCancel:
			expected = "done; the fault contradicts if the step was confirmed or is an executed pivot; or retry"
			ok = ok || e.is(saga.OutcomeFault, saga.FaultContradicts) && executed != nil
		}
		if !ok {
			x.t.fail(e.answer, expected, e.op.String()+" -> "+e.String())
			return
		}
	}
}
