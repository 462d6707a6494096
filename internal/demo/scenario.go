package demo

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Result is one row of the table.
type Result struct {
	Scenario string `json:"scenario"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	Ms       int64  `json:"ms"`
}

// OK reports whether it came out as expected.
func (r Result) OK() bool { return r.Got == r.Expected }

// scenario is one story. run returns what was got, in the words of expected.
type scenario struct {
	name     string
	expected string
	run      func(ctx context.Context, w *World) (string, error)
	timeout  time.Duration // zero: scenarioTimeout
}

// scenarioTimeout bounds one scenario; then it is wrong, not stuck.
const scenarioTimeout = 60 * time.Second

// Run runs all scenarios one after the other and calls each with every result as it comes.
func Run(ctx context.Context, w *World, each func(Result)) []Result {
	var results []Result
	w.settle(ctx)
	before, err := w.total(ctx)
	if err != nil {
		before = -1 // the last row will tell
	}
	w.totalBefore = before
	for _, s := range w.scenarios() {
		if ctx.Err() != nil {
			break
		}
		r := s.do(ctx, w)
		each(r)
		results = append(results, r)
	}
	return results
}

func (s scenario) do(ctx context.Context, w *World) Result {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.timeout, scenarioTimeout))
	defer cancel()
	started := time.Now()
	got, err := s.run(ctx, w)
	if err != nil {
		got = "error: " + err.Error()
	}
	return Result{Scenario: s.name, Expected: s.expected, Got: got, Ms: time.Since(started).Milliseconds()}
}

// Count returns how many scenarios there are in this world.
func Count(w *World) int { return len(w.scenarios()) }

// poll waits until the condition holds; nothing else announces what other processes do.
func poll(ctx context.Context, what string, condition func() (bool, error)) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := condition()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s", what)
		case <-ticker.C:
		}
	}
}
