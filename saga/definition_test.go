package saga_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// TestDefinitionFormsAreEqual: JSON and builder make the same definition, and the canonical form is stable.
func TestDefinitionFormsAreEqual(t *testing.T) {
	built := saga.Define("order").Version(3).Timeout(10*time.Minute).OnExhausted(saga.OnExhaustedDeadLetter).
		TCC("stock", "stock", "reserve", saga.Root()).
		Saga("coupon", "shop", "redeem", saga.Root(), saga.Attempts(3), saga.WhenExhausted(saga.OnExhaustedCancel)).
		Pivot("pay", "bank", "charge", saga.After("stock", "coupon"), saga.AttemptTimeout(30*time.Second)).
		Retriable("mail", "post", "send", saga.After("pay"), saga.PhaseTwoAttempts(100),
			saga.RetryBackoff(saga.StrategyFixed, time.Second, time.Hour)).
		MustBuild()
	parsed, err := saga.ParseDefinition([]byte(`{"name": "order", "version": 3, "timeout": "10m", "on_exhausted": "dead_letter",
		"steps": [
			{"name": "stock", "kind": "tcc", "participant": "stock", "action": "reserve"},
			{"name": "coupon", "participant": "shop", "action": "redeem", "after": [], "retry": {"max_attempts": 3}, "on_exhausted": "cancel"},
			{"name": "pay", "kind": "pivot", "participant": "bank", "action": "charge", "after": ["stock", "coupon"], "attempt_timeout": "30s"},
			{"name": "mail", "kind": "retriable", "participant": "post", "action": "send", "after": ["pay"],
			 "retry": {"phase_two_attempts": 100, "strategy": "fixed", "base": "1s", "cap": "1h"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(built, parsed) {
		t.Errorf("differ:\n%s\n%s", built.JSON(), parsed.JSON())
	}
	again, err := saga.ParseDefinition(built.JSON())
	if err != nil || !reflect.DeepEqual(built, again) {
		t.Errorf("the canonical form makes another definition: %v\n%s", err, built.JSON())
	}
	var pretty []byte
	if pretty, err = json.MarshalIndent(built, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/definition.golden", string(pretty)+"\n")
	if got := built.Participants(); !slices.Equal(got, []string{"bank", "post", "shop", "stock"}) {
		t.Errorf("participants: %v", got)
	}
	if i := built.StepIndex("pay"); i != 2 || built.StepIndex("nobody") != -1 || !slices.Equal(built.Predecessors(i), []int{0, 1}) {
		t.Errorf("pay is step %d after %v", i, built.Predecessors(i))
	}
}

// TestDefinitionOrder: without any after the steps are a sequence; with one, those without are roots (S2.2).
func TestDefinitionOrder(t *testing.T) {
	for _, test := range []struct {
		second, third string
		want          string
	}{
		{``, ``, "[[] [0] [1]]"},
		{`,"after":[]`, ``, "[[] [] []]"},
		{``, `,"after":["a"]`, "[[] [] [0]]"},
		{`,"after":["c"]`, `,"after":["a"]`, "[[] [2] [0]]"},
		{``, `,"after":["b","a"]`, "[[] [] [1 0]]"},
	} {
		d, err := saga.ParseDefinition([]byte(`{"name":"d","steps":[{"name":"a","participant":"p","action":"x"},` +
			`{"name":"b","participant":"p","action":"x"` + test.second + `},{"name":"c","participant":"p","action":"x"` + test.third + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var after [][]int
		for i := range d.Steps {
			after = append(after, d.Predecessors(i))
		}
		if got := fmt.Sprint(after); got != test.want {
			t.Errorf("b%s c%s: predecessors %s, want %s", test.second, test.third, got, test.want)
		}
	}
}

// TestBuilderIsReusable: a built definition does not change when its builder goes on.
func TestBuilderIsReusable(t *testing.T) {
	b := saga.Define("d").Saga("a", "p", "x")
	first := b.MustBuild()
	text := string(first.JSON())
	second := b.Saga("b", "p", "x").OnExhausted(saga.OnExhaustedDeadLetter).MustBuild()
	if string(first.JSON()) != text {
		t.Error("the first definition changed")
	}
	if !slices.Equal(second.Predecessors(1), []int{0}) || second.Steps[0].OnExhausted != saga.OnExhaustedDeadLetter {
		t.Errorf("the first build left defaults in the builder: %s", second.JSON())
	}
	defer func() {
		if recover() == nil {
			t.Error("MustBuild accepts an invalid definition")
		}
	}()
	b.Saga("a", "p", "x").MustBuild()
}

// TestDefaultsAreWrittenOut: a stored definition keeps its meaning when defaults change.
func TestDefaultsAreWrittenOut(t *testing.T) {
	d := saga.Define("d").Saga("a", "p", "x").MustBuild()
	want := `{"name":"d","version":1,"timeout":"24h0m0s","on_exhausted":"cancel","steps":[{"name":"a","kind":"saga",` +
		`"participant":"p","action":"x","after":[],"attempt_timeout":"10s","retry":{"strategy":"exponential","base":"200ms",` +
		`"cap":"1m0s","max_attempts":10,"phase_two_attempts":30},"on_exhausted":"cancel"}]}`
	if got := string(d.JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestStraightToDeadLetters: JSON and builder agree on what the strategy dead_letter means, whatever the definition says of
// exhaustion, and its canonical form reads again.
func TestStraightToDeadLetters(t *testing.T) {
	built := saga.Define("d").OnExhausted(saga.OnExhaustedCancel).Saga("a", "p", "x", saga.StraightToDeadLetters()).MustBuild()
	parsed, err := saga.ParseDefinition([]byte(definitionJSON(`,"on_exhausted":"cancel"`, stepJSON("a", `,"retry":{"strategy":"dead_letter"}`))))
	if err != nil || !reflect.DeepEqual(built, parsed) {
		t.Fatalf("%v\n%s\n%s", err, built.JSON(), parsed.JSON())
	}
	again, err := saga.ParseDefinition(built.JSON())
	if err != nil || !reflect.DeepEqual(built, again) {
		t.Errorf("the canonical form makes another definition: %v\n%s", err, built.JSON())
	}
	if s := built.Steps[0]; s.Retry.MaxAttempts != 1 || s.Retry.PhaseTwoAttempts != 1 || s.OnExhausted != saga.OnExhaustedDeadLetter {
		t.Errorf("it means %+v, %s", s.Retry, s.OnExhausted)
	}
}

// wantInvalid checks that err is an InvalidError with the code and a field that contains the text, and that
// it says what was wrong and what to do.
func wantInvalid(t *testing.T, err error, code, field string) {
	t.Helper()
	var e *saga.InvalidError
	if !errors.As(err, &e) {
		t.Errorf("got %v, want an InvalidError %s of %s", err, code, field)
		return
	}
	if e.Code != code || !strings.Contains(e.Field, field) {
		t.Errorf("got %s of %q (%v), want %s of %q", e.Code, e.Field, err, code, field)
	}
	if e.Problem == "" || e.Fix == "" || !strings.Contains(e.Error(), e.Field) || strings.ContainsAny(e.Error(), "\n\x00\x1b") {
		t.Errorf("no clear message: %q", e.Error())
	}
}
