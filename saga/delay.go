package saga

import "time"

// Rand is a source of randomness; *rand.Rand of math/rand/v2 is one.
type Rand interface {
	// Int64N returns a number in [0, n). n is positive.
	Int64N(n int64) int64
}

// Strategy says when an operation is sent again (T3).
type Strategy string

// The strategies of retries.
const (
	StrategyExponential Strategy = "exponential" // full jitter below base × 2ⁿ, at most the cap
	StrategyFixed       Strategy = "fixed"       // always the base
	StrategyImmediate   Strategy = "immediate"   // at once
	// StrategyDeadLetter sets the operation aside for a person after its first attempt that counts, and the try of a saga
	// or tcc step also if nobody answered it. What must not end so waits as with StrategyExponential: S2.6 and S2.8.
	StrategyDeadLetter Strategy = "dead_letter"
)

// Backoff is the policy of delays between the attempts of an operation. Zero fields mean the defaults.
type Backoff struct {
	Strategy Strategy `json:"strategy,omitempty"`
	Base     Duration `json:"base,omitzero"`
	Cap      Duration `json:"cap,omitzero"`
}

// minDelay keeps a delay above zero, so that a retry is always a new event.
const minDelay = time.Millisecond

// Delay returns how long to wait after the given number of unsuccessful attempts (from 1) before the next:
// 0 < delay ≤ cap. Full jitter spreads the retries of many operations evenly over the whole interval, so
// that a recovering participant is not met by all of them at once.
func Delay(p Backoff, attempts int, rnd Rand) time.Duration {
	p = p.withDefaults()
	switch p.Strategy {
	case StrategyImmediate:
		return minDelay
	case StrategyFixed:
		return clamp(time.Duration(p.Base), minDelay, time.Duration(p.Cap))
	default:
		ceiling := exponential(time.Duration(p.Base), time.Duration(p.Cap), attempts)
		return clamp(time.Duration(rnd.Int64N(int64(ceiling)))+1, minDelay, ceiling)
	}
}

// exponential returns min(limit, base × 2^(n-1)) without overflow for any n.
func exponential(base, limit time.Duration, n int) time.Duration {
	d := min(max(base, minDelay), limit)
	for i := 1; i < n && d < limit; i++ {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return d
}

func clamp(d, low, high time.Duration) time.Duration { return max(min(d, high), min(low, high)) }

func (p Backoff) withDefaults() Backoff {
	if p.Strategy == "" {
		p.Strategy = StrategyExponential
	}
	if p.Base == 0 {
		p.Base = Duration(DefaultBackoffBase)
	}
	if p.Cap == 0 {
		p.Cap = Duration(DefaultBackoffCap)
	}
	return p
}

// Duration is a time.Duration that reads and writes as text: 1.5s, 10m.
type Duration time.Duration

// String returns the form of time.Duration.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the form of time.Duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return &InvalidError{
			Code: "invalid_duration", Field: "duration", Problem: "is " + quoteShort(string(text)),
			Fix: `use a number and a unit, for example "250ms", "30s" or "2h"`,
		}
	}
	*d = Duration(v)
	return nil
}
