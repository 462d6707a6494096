package model_test

import (
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/sagatest/model"
)

// explore explores a definition to its end, and fails if a rule is broken or if it never meets the ends that it has to
// meet: a model that goes nowhere proves nothing.
func explore(t *testing.T, def *saga.Definition, opt model.Options) *model.Model {
	t.Helper()
	m := model.New(def, opt)
	r := m.Explore()
	if r.Violation != nil {
		t.Fatal(r.Violation)
	}
	if !r.Complete {
		t.Fatalf("only %d states were explored", r.States)
	}
	t.Logf("%d states, %d transitions, depth %d, %d rows, %d calls of Step", r.States, r.Transitions, r.Depth, r.Rows, r.StepCalls)
	ends := []saga.Status{saga.StatusCommitted, saga.StatusCancelled}
	for _, s := range def.Steps {
		if s.Kind != saga.KindPivot && !opt.External.On { // a cancel, confirm or retriable try can be given up
			ends = append(ends, saga.StatusResolved)
		}
	}
	for _, status := range ends {
		if r.Statuses[status] == 0 {
			t.Errorf("no state is %s", status)
		}
	}
	return m
}

// definitions calls f in a parallel test for each definition of n steps.
func definitions(t *testing.T, n, attempts int, f func(*testing.T, *saga.Definition)) {
	t.Helper()
	seen := map[string]bool{}
	for _, policy := range []saga.ExhaustionPolicy{saga.OnExhaustedCancel, saga.OnExhaustedDeadLetter} {
		for _, def := range model.Definitions(n, policy, attempts) {
			if title := model.Title(def); !seen[title] {
				seen[title] = true
				t.Run(title, func(t *testing.T) {
					t.Parallel()
					f(t, def)
				})
			}
		}
	}
	if len(seen) == 0 {
		t.Fatal("no definitions")
	}
}

// TestTwoSteps explores every definition of two steps, of every kind in every order, with operations that fail up to
// twice (I-1 to I-8, I-11, I-13, I-15, S2.3, S2.6, S2.10).
func TestTwoSteps(t *testing.T) {
	definitions(t, 2, 2, func(t *testing.T, def *saga.Definition) { explore(t, def, model.Options{}) })
}

// TestSmaller adds what makes the model larger, to operations that fail once: answers to inquire (S2.11), more
// attempts, and local transactions between their begin and their commit (B2). The last must reach nothing that they
// do not reach in one step.
func TestSmaller(t *testing.T) {
	definitions(t, 2, 1, func(t *testing.T, def *saga.Definition) {
		explore(t, def, model.Options{Inquiries: true})
		explore(t, def, model.Options{Attempts: 3})
		if def.OnExhausted == saga.OnExhaustedCancel {
			want := explore(t, def, model.Options{}).Reached()
			for text := range explore(t, def, model.Options{LocalTransactions: true}).Reached() {
				if !want[text] && !strings.Contains(text, "not committed") {
					t.Errorf("with local transactions of two steps only: %s", text)
				}
			}
		}
	})
}

// TestExternal explores effects outside of the participants' databases, with each sort of downstream (table B, rows
// trying; B6).
func TestExternal(t *testing.T) {
	for name, external := range map[string]model.External{
		"asked":                {On: true, Inquire: true},
		"idempotent":           {On: true, Idempotent: true},
		"asked and idempotent": {On: true, Inquire: true, Idempotent: true},
		"neither":              {On: true},
	} {
		t.Run(name, func(t *testing.T) {
			definitions(t, 1, 1, func(t *testing.T, def *saga.Definition) { explore(t, def, model.Options{External: external}) })
		})
		t.Run(name+", two steps", func(t *testing.T) {
			definitions(t, 2, 1, func(t *testing.T, def *saga.Definition) {
				if len(def.Predecessors(1)) > 0 && def.OnExhausted == saga.OnExhaustedCancel { // in parallel there are millions of states
					explore(t, def, model.Options{External: external})
				}
			})
		})
	}
}

// TestNothingIsLost makes every reply an event of its own, where that is small enough, and reaches what the model
// reaches that makes them all at once: no more, and no less.
func TestNothingIsLost(t *testing.T) {
	same := func(t *testing.T, def *saga.Definition) {
		t.Helper()
		got, want := explore(t, def, model.Options{}).Reached(), explore(t, def, model.Options{EveryDelivery: true}).Reached()
		for text := range want {
			if !got[text] {
				t.Errorf("not reached: %s", text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d states were reached, %d with every delivery", len(got), len(want))
		}
	}
	definitions(t, 1, 1, same)
	definitions(t, 2, 1, func(t *testing.T, def *saga.Definition) {
		if def.Steps[1].Kind == saga.KindRetriable && len(def.Predecessors(1)) > 0 && def.Steps[0].Kind != saga.KindPivot {
			same(t, def)
		}
	})
}

// TestFaultsAreFound plants mistakes into the shell around Step and Admit: the model must find each, and tell the way.
func TestFaultsAreFound(t *testing.T) {
	two := func(first, second saga.Kind) *saga.Definition {
		for _, def := range model.Definitions(2, saga.OnExhaustedCancel, 1) {
			if def.Steps[0].Kind == first && def.Steps[1].Kind == second && len(def.Predecessors(1)) > 0 {
				return def
			}
		}
		t.Fatal("no such definition")
		return nil
	}
	for name, test := range map[string]struct {
		opt    model.Options
		rule   string
		events int // of the shortest way
	}{
		"no version check": {model.Options{Faults: model.Faults{NoVersionCheck: true}}, "I-7", 2},
		"publish first":    {model.Options{Faults: model.Faults{PublishFirst: true}}, "I-8", 1},
		"no row lock":      {model.Options{Faults: model.Faults{NoRowLock: true}}, "I-2", 6},
		"no lease token": {model.Options{
			Faults: model.Faults{NoLeaseToken: true}, External: model.External{On: true, Inquire: true},
		}, "I-6", 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := model.New(two(saga.KindSaga, saga.KindTCC), test.opt).Explore()
			if r.Violation == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Log(r.Violation)
			if !strings.HasPrefix(r.Violation.Rule, test.rule) || len(r.Violation.Trace) != test.events {
				t.Errorf("found %s by %d events, want %s by %d", r.Violation.Rule, len(r.Violation.Trace), test.rule, test.events)
			}
		})
	}
}

// TestDefinitions counts the definitions that S2.2 permits: 4 of one step, 19 of two, 135 of three.
func TestDefinitions(t *testing.T) {
	for n, want := range map[int]int{1: 4, 2: 19, 3: 135} {
		if got := len(model.Definitions(n, saga.OnExhaustedCancel, 1)); got != want {
			t.Errorf("%d definitions of %d steps, want %d", got, n, want)
		}
	}
}
