package saga_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// step returns the JSON of a step with more members.
func stepJSON(name, more string) string {
	return `{"name":"` + name + `","participant":"p","action":"x"` + more + `}`
}

func definitionJSON(more string, steps ...string) string {
	return `{"name":"d"` + more + `,"steps":[` + strings.Join(steps, ",") + `]}`
}

// TestInvalidDefinitions: every refusal names the place and has a stable code (S1.7, S2.2).
func TestInvalidDefinitions(t *testing.T) {
	a := stepJSON("a", "")
	one := func(more string) string { return definitionJSON("", stepJSON("a", more)) }
	for _, test := range []struct{ json, code, field string }{
		{``, "invalid_json", "definition"},
		{`[]`, "invalid_json", "definition"},
		{`5`, "invalid_json", "definition"},
		{`null`, "invalid_name", "definition name"},
		{`{`, "invalid_json", "definition"},
		{"{\"name\":\"\xff\"}", "invalid_utf8", "definition"},
		{definitionJSON("", a) + ` {}`, "invalid_json", "definition"},
		{definitionJSON(`,"retries":5`, a), "invalid_json", "definition"},
		{one(`,"colour":"red"`), "invalid_json", "definition"},
		{definitionJSON(`,"name":"e"`, a), "duplicate_member", "definition.name"},
		{definitionJSON(`,"NAME":"e"`, a), "duplicate_member", "definition.NAME"},
		{definitionJSON(`,"ſteps":[]`, a), "duplicate_member", "definition.steps"}, // a long s is an s to encoding/json
		{one(`,"retry":{"base":"1s","base":"2s"}`), "duplicate_member", "definition.steps[0].retry.base"},
		{`{"steps":[` + a + `]}`, "invalid_name", "definition name"},
		{`{"name":"a b","steps":[` + a + `]}`, "invalid_name", "definition name"},
		{definitionJSON(`,"version":-1`, a), "invalid_version", "version"},
		{definitionJSON(`,"version":1073741825`, a), "invalid_version", "version"},
		{definitionJSON(`,"version":1.5`, a), "invalid_json", "definition.version"},
		{definitionJSON(`,"version":"1"`, a), "invalid_json", "definition.version"},
		{definitionJSON(`,"timeout":60`, a), "invalid_json", "definition.timeout"},
		{definitionJSON(`,"timeout":"soon"`, a), "invalid_duration", "definition"},
		{definitionJSON(`,"timeout":"-1s"`, a), "invalid_duration", "timeout"},
		{definitionJSON(`,"timeout":"9ms"`, a), "invalid_duration", "timeout"},
		{definitionJSON(`,"timeout":"721h"`, a), "invalid_duration", "timeout"},
		{definitionJSON(`,"on_exhausted":"retry"`, a), "invalid_value", "on_exhausted"},
		{definitionJSON(``), "invalid_steps", "steps"},
		{`{"name":"d"}`, "invalid_steps", "steps"},
		{definitionJSON(``, `null`), "invalid_name", "steps[0].name"},
		{definitionJSON(``, a, stepJSON("_b", "")), "invalid_name", "steps[1].name"},
		{definitionJSON(``, `{"name":"a","action":"x"}`), "invalid_name", "steps[0].participant"},
		{definitionJSON(``, `{"name":"a","participant":"p"}`), "invalid_name", "steps[0].action"},
		{definitionJSON(``, `{"name":"a","participant":"p.>","action":"x"}`), "invalid_name", "steps[0].participant"},
		{one(`,"kind":"compensate"`), "invalid_value", "steps[0].kind"},
		{one(`,"kind":"Saga"`), "invalid_value", "steps[0].kind"},
		{one(`,"on_exhausted":"\u001b[2J"`), "invalid_value", "steps[0].on_exhausted"},
		{one(`,"attempt_timeout":"9ms"`), "invalid_duration", "steps[0].attempt_timeout"},
		{one(`,"attempt_timeout":"3601s"`), "invalid_duration", "steps[0].attempt_timeout"},
		{one(`,"retry":{"strategy":"linear"}`), "invalid_value", "steps[0].retry.strategy"},
		{one(`,"retry":{"base":"-1s"}`), "invalid_duration", "steps[0].retry.base"},
		{one(`,"retry":{"base":"25h"}`), "invalid_duration", "steps[0].retry.base"},
		{one(`,"retry":{"cap":"1us"}`), "invalid_duration", "steps[0].retry.cap"},
		{one(`,"retry":{"cap":"25h"}`), "invalid_duration", "steps[0].retry.cap"},
		{one(`,"retry":{"max_attempts":-1}`), "invalid_attempts", "steps[0].retry.max_attempts"},
		{one(`,"retry":{"max_attempts":10001}`), "invalid_attempts", "steps[0].retry.max_attempts"},
		{one(`,"retry":{"phase_two_attempts":10001}`), "invalid_attempts", "steps[0].retry.phase_two_attempts"},
		{one(`,"retry":{"strategy":"dead_letter","max_attempts":2}`), "invalid_attempts", "steps[0].retry.max_attempts"},
		{one(`,"retry":{"strategy":"dead_letter","phase_two_attempts":30}`), "invalid_attempts", "steps[0].retry.phase_two_attempts"},
		{one(`,"retry":{"strategy":"dead_letter"},"on_exhausted":"cancel"`), "invalid_value", "steps[0].on_exhausted"},
		{one(`,"retry":3`), "invalid_json", "definition.steps.retry"},
		{one(`,"after":"b"`), "invalid_json", "definition.steps.after"},
		{definitionJSON(``, a, a), "duplicate_step", "steps[1].name"},
		{one(`,"after":["b"]`), "unknown_step", "steps[0].after"},
		{one(`,"after":[""]`), "unknown_step", "steps[0].after"},
		{definitionJSON(``, a, stepJSON("b", `,"after":["a","a"]`)), "duplicate_after", "steps[1].after"},
	} {
		_, err := saga.ParseDefinition([]byte(test.json))
		if err == nil {
			t.Errorf("accepted: %s", test.json)
			continue
		}
		wantInvalid(t, err, test.code, test.field)
	}
}

// TestWrongTypesAreNamedInJSONWords: the remedy is in the reader's words, not in those of Go.
func TestWrongTypesAreNamedInJSONWords(t *testing.T) {
	for json, want := range map[string]string{
		`{"timeout":60}`:            `definition.timeout is a number; send a string such as "250ms", "30s" or "2h"`,
		`{"version":"1"}`:           `definition.version is a string; send a whole number`,
		`{"steps":{}}`:              `definition.steps is an object; send an array`,
		`{"steps":[5]}`:             `definition.steps is a number; send an object`,
		`{"name":5}`:                `definition.name is a number; send a string`,
		`[]`:                        `definition is an array; send an object`,
		`{"steps":[{"after":[5]}]}`: `definition.steps.after is a number; send a string`,
	} {
		if _, err := saga.ParseDefinition([]byte(json)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", json, err, want)
		}
	}
}

// TestRefusedKinds holds the orders that S2.2 refuses, with the reason, and their neighbours that it allows.
func TestRefusedKinds(t *testing.T) {
	sequence := func(kinds ...string) string {
		var steps []string
		for i, k := range kinds {
			steps = append(steps, stepJSON(fmt.Sprintf("s%d", i), `,"kind":"`+k+`"`))
		}
		return definitionJSON("", steps...)
	}
	for _, test := range []struct{ json, code, message string }{
		{sequence("saga", "pivot", "pivot"), "two_pivots", `"s1"`},
		{sequence("pivot", "saga"), "compensable_after_decision", `the saga step "s1" after "s0"`},
		{sequence("pivot", "tcc"), "compensable_after_decision", `the tcc step "s1" after "s0"`},
		{sequence("retriable", "saga"), "compensable_after_decision", `the saga step "s1" after "s0"`},
		{sequence("pivot", "retriable", "tcc"), "compensable_after_decision", `the tcc step "s2" after "s1"`},
		{sequence("retriable", "pivot"), "pivot_after_retriable", `the pivot "s1" after "s0"`},
		{sequence("saga", "retriable", "retriable", "pivot"), "pivot_after_retriable", `the pivot "s3" after "s2"`},
		// The order counts, not the place in the list.
		{definitionJSON("", stepJSON("a", `,"after":["b"]`), stepJSON("b", `,"kind":"pivot"`)), "compensable_after_decision", `"a" after "b"`},
		{sequence("saga", "tcc", "pivot", "retriable", "retriable"), "", ""},
		{sequence("retriable"), "", ""},
		{sequence("pivot"), "", ""},
		{definitionJSON("", stepJSON("r", `,"kind":"retriable","after":[]`), stepJSON("a", ""), stepJSON("p", `,"kind":"pivot","after":["a"]`)), "", ""},
		{definitionJSON("", stepJSON("a", `,"kind":"retriable"`), stepJSON("b", `,"kind":"pivot","after":[]`)), "", ""},
	} {
		_, err := saga.ParseDefinition([]byte(test.json))
		if test.code == "" {
			if err != nil {
				t.Errorf("%s: %v", test.json, err)
			}
			continue
		}
		field := "steps["
		wantInvalid(t, err, test.code, field)
		if err != nil && !strings.Contains(err.Error(), test.message) {
			t.Errorf("%v does not say %s", err, test.message)
		}
	}
}

// TestCyclesAreNamed: a cycle is shown as a walk that returns to its start, wherever it is (S2.2).
func TestCyclesAreNamed(t *testing.T) {
	for after, want := range map[string]string{
		"a:a":                   "a after a",
		"a:b b:a":               "a after b after a",
		"a: b:d,a c:b d:c":      "b after d after c after b",
		"z:y y:x x:y a:":        "y after x after y",
		"a: b:a c:b,e d:c e:d,": "c after e after d after c",
	} {
		var steps []string
		for _, s := range strings.Fields(after) {
			name, others, _ := strings.Cut(s, ":")
			list := strings.ReplaceAll(strings.Trim(others, ","), ",", `","`)
			if list != "" {
				list = `"` + list + `"`
			}
			steps = append(steps, stepJSON(name, `,"after":[`+list+`]`))
		}
		_, err := saga.ParseDefinition([]byte(definitionJSON("", steps...)))
		wantInvalid(t, err, "cycle", "steps")
		var e *saga.InvalidError
		if errors.As(err, &e) && !strings.HasSuffix(e.Problem, ": "+want) {
			t.Errorf("%s: %q does not name %q", after, e.Problem, want)
		}
	}
}

// TestLimits: at the limit a definition is accepted, one past it is refused (S1.4, S1.7).
func TestLimits(t *testing.T) {
	build := func(steps, after int, options ...saga.StepOption) error {
		b := saga.Define("d")
		var names []string
		for i := range steps {
			name := fmt.Sprintf("s%d", i)
			names = append(names, name)
			b.Saga(name, "p", "x", saga.After())
		}
		if after > 0 {
			b.Saga("last", "p", "x", saga.After(names[:after]...))
		}
		_, err := b.Saga("policies", "p", "x", options...).Build()
		return err
	}
	name := func(n int) error {
		_, err := saga.Define(strings.Repeat("n", n)).Saga(strings.Repeat("s", n), strings.Repeat("p", n), strings.Repeat("a", n)).Build()
		return err
	}
	timeout := func(d time.Duration) error {
		_, err := saga.Define("d").Timeout(d).Saga("a", "p", "x").Build()
		return err
	}
	day := 24 * time.Hour
	for what, test := range map[string]struct{ at, past error }{
		"steps":               {build(127, 0), build(128, 0)},
		"after":               {build(10, 8), build(10, 9)},
		"names":               {name(64), name(65)},
		"attempts":            {build(1, 0, saga.Attempts(10_000)), build(1, 0, saga.Attempts(10_001))},
		"phase two attempts":  {build(1, 0, saga.PhaseTwoAttempts(10_000)), build(1, 0, saga.PhaseTwoAttempts(10_001))},
		"no attempts":         {build(1, 0, saga.Attempts(1)), build(1, 0, saga.Attempts(-1))},
		"attempt timeout":     {build(1, 0, saga.AttemptTimeout(time.Hour)), build(1, 0, saga.AttemptTimeout(time.Hour+1))},
		"attempt timeout low": {build(1, 0, saga.AttemptTimeout(10*time.Millisecond)), build(1, 0, saga.AttemptTimeout(10*time.Millisecond-1))},
		"timeout":             {timeout(30 * day), timeout(30*day + 1)},
		"timeout low":         {timeout(10 * time.Millisecond), timeout(10*time.Millisecond - 1)},
		"base":                {build(1, 0, saga.RetryBackoff("", day, day)), build(1, 0, saga.RetryBackoff("", day+1, day))},
		"cap":                 {build(1, 0, saga.RetryBackoff("", time.Second, day)), build(1, 0, saga.RetryBackoff("", time.Second, day+1))},
	} {
		if test.at != nil {
			t.Errorf("%s at the limit: %v", what, test.at)
		}
		var e *saga.InvalidError
		if !errors.As(test.past, &e) {
			t.Errorf("%s past the limit: %v", what, test.past)
		}
	}
}
