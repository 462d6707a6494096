package flow

import (
	"cmp"
	"fmt"
	"time"
)

// Policy bounds what is sent to one participant by all coordinators together. Zero fields mean the defaults.
type Policy struct {
	InFlightMax     int           // attempts whose reply is awaited; default 5,000 (R3)
	RetryPercent    int           // retries per 100 first attempts of the last ten seconds; default 10 (R1)
	RetryFloor      int           // retries per second that are allowed if the percentage gives less; default 20
	BreakerTimeouts int           // attempts in a row without any reply that open the breaker; default 5 (R2)
	BreakerPauseMin time.Duration // before the first probe; it doubles with each failed one; default 1 s
	BreakerPauseMax time.Duration // default 30 s
	Probes          int           // attempts that a half-open breaker lets through; default 3
	Ceiling         int           // commands per second while a backlog drains; zero: the most replies per second of late (R4)
	CeilingMin      int           // of the measured ceiling, so that a participant that was idle can start; default 50
	CeilingQuick    int           // up to which the measured ceiling rises every second while the participant keeps up; default 500

	// Unprotected leaves out the retry budget, the breaker and the ceiling, to show in an experiment what they are for (X5).
	// Only InFlightMax remains.
	Unprotected bool
}

// Defaults of Policy.
const (
	DefaultInFlightMax     = 5000
	DefaultRetryPercent    = 10
	DefaultRetryFloor      = 20
	DefaultBreakerTimeouts = 5
	DefaultBreakerPauseMin = time.Second
	DefaultBreakerPauseMax = 30 * time.Second
	DefaultProbes          = 3
	DefaultCeilingMin      = 50
	DefaultCeilingQuick    = 500
)

// WithDefaults returns the policy with its zero fields set.
func (p Policy) WithDefaults() Policy {
	p.InFlightMax = cmp.Or(p.InFlightMax, DefaultInFlightMax)
	p.RetryPercent = cmp.Or(p.RetryPercent, DefaultRetryPercent)
	p.RetryFloor = cmp.Or(p.RetryFloor, DefaultRetryFloor)
	p.BreakerTimeouts = cmp.Or(p.BreakerTimeouts, DefaultBreakerTimeouts)
	p.BreakerPauseMin = cmp.Or(p.BreakerPauseMin, DefaultBreakerPauseMin)
	p.BreakerPauseMax = cmp.Or(p.BreakerPauseMax, max(p.BreakerPauseMin, DefaultBreakerPauseMax))
	p.Probes = cmp.Or(p.Probes, DefaultProbes)
	p.CeilingMin = cmp.Or(p.CeilingMin, DefaultCeilingMin)
	p.CeilingQuick = cmp.Or(p.CeilingQuick, DefaultCeilingQuick)
	return p
}

// Validate names a field that makes no sense, with what to do.
func (p Policy) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"InFlightMax", p.InFlightMax},
		{"RetryPercent", p.RetryPercent},
		{"RetryFloor", p.RetryFloor},
		{"BreakerTimeouts", p.BreakerTimeouts},
		{"BreakerPauseMin", int(p.BreakerPauseMin)},
		{"BreakerPauseMax", int(p.BreakerPauseMax)},
		{"Probes", p.Probes},
		{"Ceiling", p.Ceiling},
		{"CeilingMin", p.CeilingMin},
		{"CeilingQuick", p.CeilingQuick},
	} {
		if f.value < 0 {
			return fmt.Errorf("flow: %s is %d; give a positive number, or 0 for the default", f.name, f.value)
		}
	}
	if p = p.WithDefaults(); p.BreakerPauseMax < p.BreakerPauseMin {
		return fmt.Errorf("flow: BreakerPauseMax is %s, below BreakerPauseMin %s; raise it", p.BreakerPauseMax, p.BreakerPauseMin)
	}
	return nil
}
