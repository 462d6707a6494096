package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// blueprint is a definition with what is needed to draw inputs for it, in three tempers. They differ in their
// policies only.
type blueprint struct {
	mixture string
	steps   []blueprintStep

	patient   *saga.Definition // goes on whatever happens
	impatient *saga.Definition // few attempts, then it is cancelled
	fragile   *saga.Definition // few attempts, then there is a dead letter
}

type blueprintStep struct {
	saga.StepDefinition
	gives bool
	outer bool   // its effect is outside of the local transaction (U4)
	from  string // the step whose result says how many cents; "": the input does
}

// actions are those of each kind: what takes money, and what gives some.
var actions = map[saga.Kind][2]string{
	saga.KindSaga:      {bank.ActionWithdraw, bank.ActionDeposit},
	saga.KindTCC:       {bank.ActionDebit, bank.ActionCredit},
	saga.KindPivot:     {bank.ActionCharge, bank.ActionGrant},
	saga.KindRetriable: {bank.ActionCollect, bank.ActionPayout},
}

// mixtures are the sets of kinds that a transaction can have. A pivot alone moves money out of nowhere, so it is no
// mixture.
func mixtures() (list [][]saga.Kind) {
	kinds := []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}
	for set := 1; set < 1<<len(kinds); set++ {
		var mixture []saga.Kind
		for i, kind := range kinds {
			if set&(1<<i) != 0 {
				mixture = append(mixture, kind)
			}
		}
		if !slices.Equal(mixture, []saga.Kind{saga.KindPivot}) {
			list = append(list, mixture)
		}
	}
	return list
}

// drawBlueprints draws so many of each mixture: in sequence, in parallel and with any order in between.
func drawBlueprints(rnd *rand.Rand, each int) (list []*blueprint) {
	for _, kinds := range mixtures() {
		for n := range each {
			list = append(list, drawBlueprint(rnd, kinds, n))
		}
	}
	return list
}

func drawBlueprint(rnd *rand.Rand, kinds []saga.Kind, n int) *blueprint {
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = string(kind)
	}
	b := &blueprint{mixture: strings.Join(words, "+")}
	b.drawSteps(rnd, kinds)
	if n > 0 { // the first of each is sequential
		b.drawOrder(rnd)
	}
	b.drawDirections(rnd)
	b.drawResults(rnd)
	name := fmt.Sprintf("%s-%d", strings.Join(words, "-"), n+1)
	b.patient = b.define(name, func(s *saga.StepDefinition) {
		s.Retry.MaxAttempts, s.Retry.PhaseTwoAttempts = saga.AttemptsMax, saga.AttemptsMax
	})
	b.impatient = b.define(name+"-impatient", func(s *saga.StepDefinition) {
		s.Retry.MaxAttempts, s.Retry.PhaseTwoAttempts = fewAttempts, saga.AttemptsMax
	})
	b.fragile = b.define(name+"-fragile", func(s *saga.StepDefinition) {
		s.Retry.MaxAttempts, s.Retry.PhaseTwoAttempts = fewAttempts, fewAttempts
		s.OnExhausted = saga.OnExhaustedDeadLetter
		if s.Kind == saga.KindPivot { // an exhausted one is fenced (S2.6)
			s.Retry.MaxAttempts, s.OnExhausted = saga.AttemptsMax, ""
		}
	})
	return b
}

// fewAttempts are soon exhausted.
const fewAttempts = 3

// drawSteps draws how many steps of each kind there are, in an order that is allowed (S2.2).
func (b *blueprint) drawSteps(rnd *rand.Rand, kinds []saga.Kind) {
	most := map[saga.Kind]int{saga.KindSaga: 3, saga.KindTCC: 3, saga.KindPivot: 1, saga.KindRetriable: 2}
	var first, last []saga.Kind
	for _, kind := range kinds {
		count := 1 + rnd.IntN(most[kind])
		if len(kinds) == 1 {
			count = max(count, 2) // one that takes and one that gives
		}
		if kind == saga.KindPivot || kind == saga.KindRetriable {
			last = append(last, slices.Repeat([]saga.Kind{kind}, count)...)
		} else {
			first = append(first, slices.Repeat([]saga.Kind{kind}, count)...)
		}
	}
	rnd.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	for i, kind := range append(first, last...) {
		b.steps = append(b.steps, blueprintStep{outer: rnd.IntN(4) == 0, StepDefinition: saga.StepDefinition{
			Name: fmt.Sprintf("%s-%d", kind, i+1), Kind: kind, Participant: bankNames[rnd.IntN(len(bankNames))],
			AttemptTimeout: saga.Duration(attemptTimeout),
			Retry: saga.Retry{Backoff: saga.Backoff{
				Strategy: saga.StrategyExponential, Base: saga.Duration(50 * time.Millisecond), Cap: saga.Duration(500 * time.Millisecond),
			}},
		}})
	}
}

// attemptTimeout is short, so that faults can last longer.
const attemptTimeout = time.Second

// drawOrder lets each step be after some of those before it, or after none.
func (b *blueprint) drawOrder(rnd *rand.Rand) {
	for i := range b.steps {
		b.steps[i].After = []string{}
		for j := range i {
			if rnd.IntN(i+1) < 2 && len(b.steps[i].After) < saga.AfterMax {
				b.steps[i].After = append(b.steps[i].After, b.steps[j].Name)
			}
		}
	}
}

// drawDirections makes one step at least take money and one give some.
func (b *blueprint) drawDirections(rnd *rand.Rand) {
	for i := range b.steps {
		b.steps[i].gives = rnd.IntN(2) == 0
	}
	i := rnd.IntN(len(b.steps))
	b.steps[i].gives = true
	b.steps[(i+1)%len(b.steps)].gives = false
	for i := range b.steps {
		s := &b.steps[i]
		s.Action = actions[s.Kind][side(*s)]
		if s.outer {
			s.Action = bank.ExternalPrefix + s.Action
		}
	}
}

// drawResults lets some steps move as much as an earlier one has moved the other way (M8). What is left must be able
// to be balanced.
func (b *blueprint) drawResults(rnd *rand.Rand) {
	used := make(map[string]bool)
	var left [2]int
	for _, s := range b.steps {
		left[side(s)]++
	}
	for i := 1; i < len(b.steps); i++ {
		s := &b.steps[i]
		after := s.After
		if after == nil {
			after = []string{b.steps[i-1].Name}
		}
		for _, name := range after {
			j := slices.IndexFunc(b.steps, func(s blueprintStep) bool { return s.Name == name })
			balanced := (left[0] > 1) == (left[1] > 1)
			if b.steps[j].gives == s.gives || used[name] || used[s.Name] || !balanced || rnd.IntN(3) == 0 {
				continue
			}
			s.from = name
			used[name], used[s.Name] = true, true
			left[0]--
			left[1]--
		}
	}
}

func side(s blueprintStep) int {
	if s.gives {
		return 1
	}
	return 0
}

// define makes a definition of the blueprint's steps.
func (b *blueprint) define(name string, temper func(*saga.StepDefinition)) *saga.Definition {
	d := saga.Definition{Name: name, Version: 1, Timeout: saga.Duration(time.Hour)}
	for _, s := range b.steps {
		temper(&s.StepDefinition)
		d.Steps = append(d.Steps, s.StepDefinition)
	}
	def, err := saga.ParseDefinition(d.JSON())
	if err != nil {
		panic(fmt.Sprintf("%s: %v", d.JSON(), err))
	}
	return def
}

// drawMoves draws what each step moves: together nothing.
func (b *blueprint) drawMoves(rnd *rand.Rand) map[string]*bank.Move {
	moves := make(map[string]*bank.Move, len(b.steps))
	cents := make(map[string]int64)
	var sides [2][]string
	for _, s := range b.steps {
		moves[s.Name] = &bank.Move{Account: account(rnd.IntN(accounts)), From: s.from}
		if s.from == "" && !b.isSource(s.Name) {
			sides[side(s)] = append(sides[side(s)], s.Name)
		}
		cents[s.Name] = int64(1 + rnd.IntN(100))
	}
	var sums [2]int64
	for side, names := range sides {
		for _, name := range names {
			sums[side] += cents[name]
		}
	}
	for side, names := range sides { // the poorer side moves the difference too
		if missing := sums[1-side] - sums[side]; missing > 0 {
			cents[names[rnd.IntN(len(names))]] += missing
		}
	}
	for name, m := range moves {
		if m.From == "" {
			m.Cents = cents[name]
		}
	}
	return moves
}

// isSource reports whether the result of the step says how much a later one moves.
func (b *blueprint) isSource(name string) bool {
	return slices.ContainsFunc(b.steps, func(s blueprintStep) bool { return s.from == name })
}

// Blueprints are of every mixture, what they move is balanced, and the same seed draws the same orders.
func TestOrdersOfEveryMixture(t *testing.T) {
	draw := func(seed uint64) []*order {
		rnd := rand.New(rand.NewPCG(seed, 0))
		return drawOrders(rnd, drawBlueprints(rnd, 5), 3000)
	}
	orders := draw(1)
	mixtures, fates, froms := make(map[string]int), make(map[fate]int), 0
	for _, o := range orders {
		mixtures[o.mixture]++
		fates[o.fate]++
		var sum int64
		for _, s := range o.def.Steps {
			if m, _ := o.move(s.Name); m.From != "" {
				froms++
			}
			if o.fate != fateRefuse && o.fate != fateUndo { // which may ask for more than there is
				sum += o.signedCents(s)
			}
		}
		if sum != 0 {
			t.Errorf("%s of %s makes %d cents: %s %+v", o.requestID, o.mixture, sum, o.def.JSON(), o.inputs)
		}
	}
	if len(mixtures) != 14 || len(fates) != len(endings) || froms == 0 {
		t.Errorf("%d mixtures, want 14; fates %v; %d results are used", len(mixtures), fates, froms)
	}
	same := func(a, b *order) bool {
		return string(a.def.JSON()) == string(b.def.JSON()) && fmt.Sprint(a.inputs, a.fate, a.cancelAfter, a.startAfter, a.timeout) ==
			fmt.Sprint(b.inputs, b.fate, b.cancelAfter, b.startAfter, b.timeout)
	}
	if again := draw(1); !slices.EqualFunc(orders, again, same) {
		t.Error("the same seed draws other orders")
	}
	if other := draw(2); slices.EqualFunc(orders, other, same) {
		t.Error("another seed draws the same orders")
	}
}
