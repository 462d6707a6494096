package saga_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
)

// fastest draws the shortest delay.
type fastest struct{}

func (fastest) Int64N(int64) int64 { return 0 }

// TestDelayBounds: 0 < delay ≤ cap after any number of attempts, with every strategy and draw (T3).
func TestDelayBounds(t *testing.T) {
	const day = 24 * time.Hour
	policies := []saga.Backoff{{}}
	for _, strategy := range []saga.Strategy{"", saga.StrategyExponential, saga.StrategyFixed, saga.StrategyImmediate, saga.StrategyDeadLetter} {
		for _, base := range []time.Duration{time.Millisecond, time.Second, 7 * time.Second, day} {
			for _, limit := range []time.Duration{time.Millisecond, 10 * time.Second, day} {
				policies = append(policies, saga.Backoff{Strategy: strategy, Base: saga.Duration(base), Cap: saga.Duration(limit)})
			}
		}
	}
	seeded := rand.New(rand.NewPCG(1, 2))
	for _, p := range policies {
		limit := time.Duration(p.Cap)
		if limit == 0 {
			limit = saga.DefaultBackoffCap
		}
		for n := 1; n <= 10_000; n++ {
			for _, r := range []saga.Rand{fastest{}, slowest{}, seeded} {
				if d := saga.Delay(p, n, r); d <= 0 || d > limit {
					t.Fatalf("%+v after %d attempts: %s", p, n, d)
				}
			}
		}
	}
}

// TestDelayOfAnyPolicy: 0 < delay ≤ cap for every policy that a definition may have, any number of attempts and any draw
// (T3).
func TestDelayOfAnyPolicy(t *testing.T) {
	checks(t, 10_000, func(t *rapid.T) {
		limit := rapid.Int64Range(int64(time.Millisecond), int64(saga.BackoffMax)).Draw(t, "cap")
		p := saga.Backoff{
			Strategy: rapid.SampledFrom([]saga.Strategy{saga.StrategyExponential, saga.StrategyFixed, saga.StrategyImmediate, saga.StrategyDeadLetter}).Draw(t, "strategy"),
			Base:     saga.Duration(rapid.Int64Range(int64(time.Millisecond), limit).Draw(t, "base")), Cap: saga.Duration(limit),
		}
		def, err := saga.Define("d").Saga("a", "p", "x", func(s *saga.StepDefinition) { s.Retry.Backoff = p }).Build()
		if err != nil || def.Steps[0].Retry.Backoff != p {
			t.Fatalf("%+v: %v", p, err)
		}
		n := rapid.IntRange(1, saga.AttemptsMax).Draw(t, "attempts")
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		d, most := saga.Delay(p, n, rnd), saga.Delay(p, n, slowest{})
		if d <= 0 || d > time.Duration(limit) || d > most {
			t.Fatalf("%+v after %d attempts: %s, at most %s", p, n, d, most)
		}
		if longer := saga.Delay(p, n+1, slowest{}); longer < most {
			t.Fatalf("%+v: at most %s after %d attempts, and %s after one more", p, most, n, longer)
		}
	})
}

// TestDelayGrows: the ceiling doubles from the base to the cap; fixed stays, immediate is at once.
func TestDelayGrows(t *testing.T) {
	p := saga.Backoff{Base: saga.Duration(100 * time.Millisecond), Cap: saga.Duration(time.Second)}
	for n, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond,
		4: 800 * time.Millisecond, 5: time.Second, 6: time.Second, 64: time.Second, 65: time.Second, 1 << 40: time.Second,
	} {
		if got := saga.Delay(p, n, slowest{}); got != want {
			t.Errorf("after %d attempts at most %s, want %s", n, got, want)
		}
	}
	p.Strategy = saga.StrategyFixed
	if got := saga.Delay(p, 9, slowest{}); got != 100*time.Millisecond {
		t.Errorf("fixed: %s", got)
	}
	p.Strategy = saga.StrategyImmediate
	if got := saga.Delay(p, 9, slowest{}); got != time.Millisecond {
		t.Errorf("immediate: %s", got)
	}
	if got := saga.Delay(saga.Backoff{}, 1, slowest{}); got != saga.DefaultBackoffBase {
		t.Errorf("the default base is %s", got)
	}
}

// TestDelayIsFullJitter: delays spread evenly over the whole interval (chi-squared over 20 parts, seeded).
func TestDelayIsFullJitter(t *testing.T) {
	const draws, parts = 200_000, 20
	p := saga.Backoff{Base: saga.Duration(time.Second), Cap: saga.Duration(time.Minute)}
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 3, 100} {
		ceiling := saga.Delay(p, n, slowest{})
		var counts [parts]int
		for range draws {
			d := saga.Delay(p, n, random)
			counts[min(int(int64(d)*parts/int64(ceiling)), parts-1)]++
		}
		chi, want := 0.0, float64(draws)/parts
		for _, c := range counts {
			chi += (float64(c) - want) * (float64(c) - want) / want
		}
		if chi > 43.8 { // p = 0.001 with 19 degrees of freedom
			t.Errorf("after %d attempts: chi-squared %.1f, parts %v", n, chi, counts)
		}
	}
}

// TestDurationText: durations read and write as text.
func TestDurationText(t *testing.T) {
	var d saga.Duration
	if err := d.UnmarshalText([]byte("1m30s")); err != nil || time.Duration(d) != 90*time.Second || d.String() != "1m30s" {
		t.Errorf("%v, %s", err, d)
	}
	for _, text := range []string{"", "5", "1d", "soon", "1s\x1b", "99999999999h"} {
		wantInvalid(t, d.UnmarshalText([]byte(text)), "invalid_duration", "duration")
	}
}
