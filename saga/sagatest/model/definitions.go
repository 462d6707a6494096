package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// stepsMax is how many steps a model can have.
const stepsMax = 3

// shape is a definition before it is built: the kind of each step, and the steps that it is after.
type shape struct {
	kinds []saga.Kind
	after [][]int
}

// Definitions returns every definition of n steps that S2.2 permits, up to the names of the steps: each kind in each
// place of each acyclic graph, with the given policy. An operation is exhausted when that many attempts counted.
func Definitions(n int, policy saga.ExhaustionPolicy, attempts int) []*saga.Definition {
	var defs []*saga.Definition
	seen := map[string]bool{}
	for kinds := range power(4, n) {
		for edges := range power(2, n*(n-1)/2) {
			s := newShape(kinds, edges)
			def, err := s.build(policy, attempts)
			if err != nil || seen[s.canonical()] {
				continue
			}
			seen[s.canonical()] = true
			defs = append(defs, def)
		}
	}
	return defs
}

// power yields every list of n numbers below base.
func power(base, n int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		digits := make([]int, n)
		for {
			if !yield(digits) {
				return
			}
			i := 0
			for i < n && digits[i] == base-1 {
				digits[i] = 0
				i++
			}
			if i == n {
				return
			}
			digits[i]++
		}
	}
}

// newShape reads which of the pairs (i, j), i < j, are edges: step j is after step i. Every acyclic graph is one of
// these under some names.
func newShape(kinds, edges []int) shape {
	s := shape{after: make([][]int, len(kinds))}
	e := 0
	for j, k := range kinds {
		s.kinds = append(s.kinds, []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}[k])
		for i := range j {
			if edges[e] == 1 {
				s.after[j] = append(s.after[j], i)
			}
			e++
		}
	}
	return s
}

// canonical is the same for shapes that differ in the names of the steps only.
func (s shape) canonical() string {
	var forms []string
	for p := range power(len(s.kinds), len(s.kinds)) {
		if isPermutation(p) {
			forms = append(forms, s.renamed(p))
		}
	}
	return slices.Min(forms)
}

func (s shape) renamed(p []int) string {
	lines := make([]string, len(s.kinds))
	for i, k := range s.kinds {
		var after []int
		for _, j := range s.after[i] {
			after = append(after, p[j])
		}
		slices.Sort(after)
		lines[p[i]] = fmt.Sprint(k, after)
	}
	return strings.Join(lines, " ")
}

func isPermutation(p []int) bool {
	seen := make([]bool, len(p))
	for _, i := range p {
		if seen[i] {
			return false
		}
		seen[i] = true
	}
	return true
}

// stepName is "a" for the first step.
func stepName(i int) string { return string(rune('a' + i)) }

// build names the definition after what it is: "a saga, b tcc after a; cancel".
func (s shape) build(policy saga.ExhaustionPolicy, attempts int) (*saga.Definition, error) {
	b := saga.Define("model").Timeout(timeout).OnExhausted(policy)
	for i, k := range s.kinds {
		add := map[saga.Kind]func(string, string, string, ...saga.StepOption) *saga.Builder{
			saga.KindSaga: b.Saga, saga.KindTCC: b.TCC, saga.KindPivot: b.Pivot, saga.KindRetriable: b.Retriable,
		}[k]
		var after []string
		for _, j := range s.after[i] {
			after = append(after, stepName(j))
		}
		add(stepName(i), "service-"+stepName(i), "act", saga.After(after...), saga.Attempts(attempts), saga.PhaseTwoAttempts(attempts),
			saga.AttemptTimeout(time.Minute))
	}
	return b.Build()
}

// Title says in one line what a definition is.
func Title(def *saga.Definition) string {
	var parts []string
	for _, s := range def.Steps {
		part := s.Name + " " + string(s.Kind)
		if len(s.After) > 0 {
			part += " after " + strings.Join(s.After, "+")
		}
		parts = append(parts, part)
	}
	title := strings.Join(parts, ", ")
	if slices.ContainsFunc(def.Steps, func(s saga.StepDefinition) bool { return compensable(s.Kind) }) {
		title += "; " + string(def.OnExhausted)
	}
	return title
}

func compensable(k saga.Kind) bool { return k == saga.KindSaga || k == saga.KindTCC }
