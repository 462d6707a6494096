package saga

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What makes a definition invalid (S2.2, S1.7). Every message names the place, the fault and the remedy.

func (d *Definition) checkFields() error {
	if err := CheckName("definition name", d.Name); err != nil {
		return err
	}
	if d.Version < 1 || d.Version > definitionVersionMax {
		return invalid("invalid_version", "version", fmt.Sprintf("is %d", d.Version), "use a whole number from 1")
	}
	if err := checkDuration("timeout", time.Duration(d.Timeout), TimeoutMin, TimeoutMax); err != nil {
		return err
	}
	if err := checkOneOf("on_exhausted", d.OnExhausted, OnExhaustedCancel, OnExhaustedDeadLetter); err != nil {
		return err
	}
	if len(d.Steps) == 0 || len(d.Steps) > StepsMax {
		return invalid("invalid_steps", "steps", fmt.Sprintf("has %d entries", len(d.Steps)),
			fmt.Sprintf("give 1 to %d steps", StepsMax))
	}
	for i := range d.Steps {
		if err := d.Steps[i].checkFields(fmt.Sprintf("steps[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *StepDefinition) checkFields(at string) error {
	for _, name := range []struct{ field, value string }{
		{"name", s.Name}, {"participant", s.Participant}, {"action", s.Action},
	} {
		if err := CheckName(at+"."+name.field, name.value); err != nil {
			return err
		}
	}
	if err := checkOneOf(at+".kind", s.Kind, KindSaga, KindTCC, KindPivot, KindRetriable); err != nil {
		return err
	}
	if len(s.After) > AfterMax {
		return invalid("too_many_after", at+".after", fmt.Sprintf("names %d steps", len(s.After)),
			fmt.Sprintf("name at most %d; put a step between to gather more", AfterMax))
	}
	if err := checkOneOf(at+".on_exhausted", s.OnExhausted, OnExhaustedCancel, OnExhaustedDeadLetter); err != nil {
		return err
	}
	if err := checkDuration(at+".attempt_timeout", s.attemptTimeout(), AttemptTimeoutMin, AttemptTimeoutMax); err != nil {
		return err
	}
	if err := s.Retry.check(at + ".retry"); err != nil {
		return err
	}
	if s.Retry.Strategy == StrategyDeadLetter && s.OnExhausted != OnExhaustedDeadLetter {
		return invalid("invalid_value", at+".on_exhausted", fmt.Sprintf("is %q, and its retry.strategy is %q", s.OnExhausted, s.Retry.Strategy),
			"leave on_exhausted out, or choose another strategy")
	}
	return nil
}

func (r Retry) check(at string) error {
	if err := checkOneOf(at+".strategy", r.Strategy, StrategyExponential, StrategyFixed, StrategyImmediate, StrategyDeadLetter); err != nil {
		return err
	}
	if err := checkDuration(at+".base", time.Duration(r.Base), minDelay, BackoffMax); err != nil {
		return err
	}
	if err := checkDuration(at+".cap", time.Duration(r.Cap), minDelay, BackoffMax); err != nil {
		return err
	}
	if r.Base > r.Cap {
		return invalid("invalid_duration", at+".base", fmt.Sprintf("is %s, more than the cap of %s", r.Base, r.Cap),
			"raise retry.cap or lower retry.base")
	}
	for _, n := range []struct {
		field string
		value int
	}{{"max_attempts", r.MaxAttempts}, {"phase_two_attempts", r.PhaseTwoAttempts}} {
		if n.value < 1 || n.value > AttemptsMax {
			return invalid("invalid_attempts", at+"."+n.field, fmt.Sprintf("is %d", n.value),
				fmt.Sprintf("use a whole number from 1 to %d", AttemptsMax))
		}
		if r.Strategy == StrategyDeadLetter && n.value != 1 {
			return invalid("invalid_attempts", at+"."+n.field, fmt.Sprintf("is %d, and the strategy %q has one attempt", n.value, r.Strategy),
				"leave it out, or choose another strategy")
		}
	}
	return nil
}

// buildGraph resolves the names in after and refuses unknown ones, duplicates and cycles.
func (d *Definition) buildGraph() (graph, error) {
	n := len(d.Steps)
	g := graph{compiled: true, byName: make(map[string]int, n), after: make([][]int, n), dependents: make([][]int, n), pivot: -1}
	for i, s := range d.Steps {
		if j, taken := g.byName[s.Name]; taken {
			return g, invalid("duplicate_step", fmt.Sprintf("steps[%d].name", i),
				fmt.Sprintf("is %q, the name of steps[%d] too", s.Name, j), "give each step a name of its own")
		}
		g.byName[s.Name] = i
	}
	for i, s := range d.Steps {
		for _, name := range s.After {
			j, known := g.byName[name]
			at := fmt.Sprintf("steps[%d].after", i)
			switch {
			case !known:
				return g, invalid("unknown_step", at, fmt.Sprintf("names %s, which is no step", quoteShort(name)),
					"name a step of this definition")
			case slices.Contains(g.after[i], j):
				return g, invalid("duplicate_after", at, fmt.Sprintf("names %q twice", name), "name it once")
			}
			g.after[i] = append(g.after[i], j)
			g.dependents[j] = append(g.dependents[j], i)
		}
	}
	var err error
	g.order, err = d.topologicalOrder(g)
	return g, err
}

// topologicalOrder lists the steps so that each comes after its predecessors; the order of the definition
// decides between equals.
func (d *Definition) topologicalOrder(g graph) ([]int, error) {
	order := make([]int, 0, len(d.Steps))
	placed := make([]bool, len(d.Steps))
	for len(order) < len(d.Steps) {
		progress := false
		for i := range d.Steps {
			ready := !placed[i] && !slices.ContainsFunc(g.after[i], func(j int) bool { return !placed[j] })
			if ready {
				order, placed[i], progress = append(order, i), true, true
			}
		}
		if !progress {
			return nil, invalid("cycle", "steps", "wait for each other in a circle: "+d.cycle(g, placed),
				"remove one of these from an after list")
		}
	}
	return order, nil
}

// cycle names the steps of one circle among those that could not be placed.
func (d *Definition) cycle(g graph, placed []bool) string {
	at := slices.Index(placed, false)
	var path []int
	for !slices.Contains(path, at) {
		path = append(path, at)
		next := slices.IndexFunc(g.after[at], func(j int) bool { return !placed[j] })
		at = g.after[at][next]
	}
	var names []string
	for _, i := range append(path[slices.Index(path, at):], at) {
		names = append(names, d.Steps[i].Name)
	}
	return strings.Join(names, " after ")
}

// checkKinds refuses orders in which going back or forward would be impossible (S2.2), and notes the pivot.
func (d *Definition) checkKinds() error {
	for i, s := range d.Steps {
		if s.Kind != KindPivot {
			continue
		}
		if d.graph.pivot >= 0 {
			return invalid("two_pivots", fmt.Sprintf("steps[%d].kind", i),
				fmt.Sprintf("is pivot, and so is step %q", d.Steps[d.graph.pivot].Name),
				"keep one: a transaction has a single go/no-go step")
		}
		d.graph.pivot = i
	}
	for _, i := range d.graph.order { // what comes before a step has passed already: its neighbours are enough
		for _, j := range d.graph.after[i] {
			if err := checkNeighbours(i, d.Steps[i], d.Steps[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNeighbours refuses a step that starts after one that it must precede.
func checkNeighbours(i int, s, before StepDefinition) error {
	at := fmt.Sprintf("steps[%d].after", i)
	switch {
	case s.Kind == KindPivot && before.Kind == KindRetriable:
		return invalid("pivot_after_retriable", at,
			fmt.Sprintf("puts the pivot %q after %q, which runs only once the decision is made", s.Name, before.Name),
			"start the retriable step after the pivot")
	case s.Kind.cancellable() && !before.Kind.cancellable():
		return invalid("compensable_after_decision", at,
			fmt.Sprintf("puts the %s step %q after %q, when it can no longer be cancelled", s.Kind, s.Name, before.Name),
			"move it before the pivot, or make it retriable")
	}
	return nil
}

func invalid(code, field, problem, fix string) error {
	return &InvalidError{Code: code, Field: field, Problem: problem, Fix: fix}
}

func checkDuration(field string, d, low, high time.Duration) error {
	if d < low || d > high {
		return invalid("invalid_duration", field, "is "+d.String(), fmt.Sprintf("use %s to %s", low, high))
	}
	return nil
}

func checkOneOf[T ~string](field string, got T, allowed ...T) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return invalid("invalid_value", field, "is "+quoteShort(string(got)), "use one of "+strings.Join(names, ", "))
}
