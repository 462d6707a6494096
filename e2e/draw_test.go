package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// fatePercents are how many orders of TestCrashOfEverything are made for what.
var fatePercents = []struct {
	fate    fate
	percent int
}{
	{fateCommit, 43}, {fateRefuse, 18}, {fateCancel, 13}, {fateDeadline, 13}, {fateImpatient, 6}, {fateRepair, 5}, {fateUndo, 2},
}

// drawOrders draws orders of all blueprints in turn.
func drawOrders(rnd *rand.Rand, blueprints []*blueprint, n int) []*order {
	orders := make([]*order, n)
	for i := range orders {
		b := blueprints[i%len(blueprints)]
		o := &order{requestID: fmt.Sprintf("order-%05d", i), mixture: b.mixture, def: b.patient, twice: rnd.IntN(20) == 0}
		percent := rnd.IntN(100)
		for _, f := range fatePercents {
			if o.fate = f.fate; percent < f.percent {
				break
			}
			percent -= f.percent
		}
		moves := b.drawMoves(rnd)
		for _, s := range b.steps {
			moves[s.Name].Wish.SleepMs = rnd.IntN(10) // banks take their time, so that work piles up
		}
		o.drawFate(rnd, b, moves)
		o.registered = rnd.IntN(3) == 0
		if o.fate != fateDeadline && rnd.IntN(12) == 0 {
			o.startAfter = time.Duration(50+rnd.IntN(600)) * time.Millisecond
		}
		o.inputs = make(map[string]any, len(moves))
		for name, m := range moves {
			o.inputs[name] = *m
		}
		orders[i] = o
	}
	return orders
}

// drawFate makes the order end as it is meant to.
func (o *order) drawFate(rnd *rand.Rand, b *blueprint, moves map[string]*bank.Move) {
	switch o.fate {
	case fateRefuse:
		if !refuseOne(rnd, b, moves) {
			o.fate = fateCommit // nothing of it can refuse
		}
	case fateCancel:
		o.cancelAfter = time.Duration(rnd.IntN(80)) * time.Millisecond
		b.slowDown(rnd, moves)
	case fateDeadline:
		o.timeout = time.Duration(10+rnd.IntN(150)) * time.Millisecond
		b.slowDown(rnd, moves)
	case fateImpatient:
		o.def = b.impatient
		if s := b.pick(rnd, func(k saga.Kind) bool { return k != saga.KindRetriable }); s != nil {
			moves[s.Name].Wish.FailTimes = 1 + rnd.IntN(2*fewAttempts)
		}
	case fateRepair:
		o.def = b.fragile
		b.breakForward(rnd, moves)
	case fateUndo:
		o.def = b.fragile
		if !b.breakBack(rnd, moves) {
			o.fate = fateRepair
			b.breakForward(rnd, moves)
		}
	default:
		if rnd.IntN(5) == 0 {
			b.failOnce(rnd, moves)
		}
	}
}

// pick draws a step of one of the kinds, nil if there is none.
func (b *blueprint) pick(rnd *rand.Rand, ok func(saga.Kind) bool) *blueprintStep {
	var list []*blueprintStep
	for i := range b.steps {
		if ok(b.steps[i].Kind) {
			list = append(list, &b.steps[i])
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[rnd.IntN(len(list))]
}

func undoable(k saga.Kind) bool { return k == saga.KindSaga || k == saga.KindTCC }

// refuseOne makes one of the steps that can refuse do so, and reports whether there is one.
func refuseOne(rnd *rand.Rand, b *blueprint, moves map[string]*bank.Move) bool {
	s := b.pick(rnd, func(k saga.Kind) bool { return k != saga.KindRetriable })
	if s == nil {
		return false
	}
	m := moves[s.Name]
	switch rnd.IntN(3) {
	case 0:
		m.Wish.Refuse = "not_today"
	case 1:
		m.Account = "nobody"
	default:
		if s.gives || s.from != "" || b.isSource(s.Name) {
			m.Account = "nobody"
			return true
		}
		m.Cents = 1 << 50 // insufficient funds
	}
	return true
}

// slowDown makes the pivot slow, so that its outcome is open when the time is over (S2.6), or else any step.
func (b *blueprint) slowDown(rnd *rand.Rand, moves map[string]*bank.Move) {
	s := b.pick(rnd, func(k saga.Kind) bool { return k == saga.KindPivot })
	if s == nil || rnd.IntN(3) == 0 {
		s = &b.steps[rnd.IntN(len(b.steps))]
	}
	moves[s.Name].Wish.SleepMs = 20 + rnd.IntN(200)
}

// failOnce makes an operation of an order that commits fail for a passing reason, or panic.
func (b *blueprint) failOnce(rnd *rand.Rand, moves map[string]*bank.Move) {
	s := b.steps[rnd.IntN(len(b.steps))]
	w := bank.Wish{Phase: saga.PhaseTry, FailTimes: 1 + rnd.IntN(2)}
	if s.Kind == saga.KindTCC && rnd.IntN(2) == 0 {
		w.Phase = saga.PhaseConfirm
	}
	if rnd.IntN(3) == 0 {
		w.FailTimes, w.PanicTimes = 0, 1
	}
	moves[s.Name].Wish = w
}

// breakForward makes an operation exhaust its attempts on the way to the commit.
func (b *blueprint) breakForward(rnd *rand.Rand, moves map[string]*bank.Move) {
	s := b.pick(rnd, func(k saga.Kind) bool { return k != saga.KindPivot })
	w := broken(rnd, saga.PhaseTry)
	if s.Kind == saga.KindTCC && rnd.IntN(2) == 0 {
		w.Phase = saga.PhaseConfirm
	}
	moves[s.Name].Wish = w
}

// breakBack makes a step refuse and the cancel of another one exhaust its attempts, if there are such steps.
func (b *blueprint) breakBack(rnd *rand.Rand, moves map[string]*bank.Move) bool {
	last := -1
	for i, s := range b.steps {
		if s.Kind != saga.KindRetriable {
			last = i
		}
	}
	if last < 1 {
		return false
	}
	moves[b.steps[last].Name].Wish.Refuse = "not_today"
	candidates := slices.Clone(b.steps[:last])
	moves[candidates[rnd.IntN(len(candidates))].Name].Wish = broken(rnd, saga.PhaseCancel)
	return true
}

// broken is a wish to fail more often than a fragile definition has attempts. One reply more may get lost.
func broken(rnd *rand.Rand, phase saga.Phase) bank.Wish {
	if rnd.IntN(3) == 0 {
		return bank.Wish{Phase: phase, PanicTimes: fewAttempts + 1}
	}
	return bank.Wish{Phase: phase, FailTimes: fewAttempts + 1}
}

// move returns the input of a step.
func (o *order) move(step string) (bank.Move, bool) {
	m, ok := o.inputs[step].(bank.Move)
	return m, ok
}

// cents returns how much a step moves.
func (o *order) cents(step string) int64 {
	m, _ := o.move(step)
	if m.From != "" {
		return o.cents(m.From)
	}
	return m.Cents
}

// signedCents returns how much money a step makes, negative if it takes some.
func (o *order) signedCents(s saga.StepDefinition) int64 {
	if strings.TrimPrefix(s.Action, bank.ExternalPrefix) == actions[s.Kind][1] {
		return o.cents(s.Name)
	}
	return -o.cents(s.Name)
}
