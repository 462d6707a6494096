package outage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Report is the experiment with all strategies, on one machine and at one rate.
type Report struct {
	Cores           int   `json:"cores"`
	Coordinators    int   `json:"coordinators"`
	CapacityPerS    int   `json:"capacity_per_s"`    // transactions that the participant carries, measured
	RatePerS        int   `json:"rate_per_s"`        // that were submitted, whatever became of those before
	OutageS         int   `json:"outage_s"`          // how long the participant was stopped
	AttemptTimeoutS int   `json:"attempt_timeout_s"` // of the only step
	DeadlineS       int   `json:"deadline_s"`        // of each transaction
	Runs            []Run `json:"runs"`
}

// Run is the experiment with one strategy. Windows are seconds since the load began.
type Run struct {
	Name      string `json:"name"`
	Retries   string `json:"retries"`
	Protected bool   `json:"protected"` // by retry budget, breaker and ceiling

	StoppedS float64 `json:"stopped_s"` // when the participant was killed
	BackS    float64 `json:"back_s"`    // when it was ready again

	// Sent are the commands on the participant's subject, in each window; Fetched those that its consumer was handed,
	// again included.
	Sent    []int `json:"sent"`
	Fetched []int `json:"fetched"`
	// Ceilings are the commands per second that a drain may have, in each window; absent without protection.
	Ceilings []int `json:"ceilings,omitempty"`

	// DrainedS is the time from BackS until all transactions of before had ended; absent if not all had.
	DrainedS *float64 `json:"drained_s,omitempty"`

	Submitted   int `json:"submitted"`
	Committed   int `json:"committed"`
	Exhausted   int `json:"exhausted"` // cancelled because their attempts were used up
	Cancelled   int `json:"cancelled"` // for another reason
	DeadLetters int `json:"dead_letters"`
	Unfinished  int `json:"unfinished"` // neither ended nor a dead letter when the experiment did

	Goroutines  Gauge `json:"goroutines"`  // of the coordinators
	Connections Gauge `json:"connections"` // of the coordinators to PostgreSQL
}

// Gauge is a level, before the outage and at most since.
type Gauge struct {
	Before int `json:"before"`
	Most   int `json:"most"`
}

// settleS is how long a load runs before its mean counts: connections are made, and caches fill.
const settleS = 2

// Before returns the mean of the commands sent in a window before the outage.
func (r *Run) Before() float64 {
	windows := r.Sent[min(settleS, len(r.Sent)):min(int(r.StoppedS), len(r.Sent))]
	sum := 0
	for _, n := range windows {
		sum += n
	}
	return float64(sum) / float64(max(1, len(windows)))
}

// During returns the most commands that were sent in a window of the outage.
func (r *Run) During() int { return most(r.Sent, r.StoppedS, r.BackS) }

// After returns the most commands that were sent, or fetched, in a window since the participant was back.
func (r *Run) After() int {
	return max(most(r.Sent, r.BackS, float64(len(r.Sent))), most(r.Fetched, r.BackS, float64(len(r.Fetched))))
}

// most returns the largest window between two instants, those included in which they are.
func most(windows []int, from, to float64) int {
	part := windows[min(max(int(from), 0), len(windows)):min(int(to)+1, len(windows))]
	if len(part) == 0 {
		return 0
	}
	return slices.Max(part)
}

// CommittedPercent returns how many of the submitted transactions are committed.
func (r *Run) CommittedPercent() float64 {
	return 100 * float64(r.Committed) / float64(max(1, r.Submitted))
}

// CeilingFactor is how far above its ceiling a window may be: windows and the drain's rate do not begin together (R4).
const CeilingFactor = 1.1

// Broken says what of the promise of the default strategy does not hold; nothing if all does. The promise: 99 % commit,
// nothing is exhausted or a dead letter, and no more is delivered than the ceiling allows (R4, X5).
func (r *Run) Broken() (broken []string) {
	if p := r.CommittedPercent(); p < 99 {
		broken = append(broken, fmt.Sprintf("%.1f %% are committed", p))
	}
	if r.Exhausted > 0 || r.DeadLetters > 0 {
		broken = append(broken, fmt.Sprintf("%d are exhausted, and %d dead letters", r.Exhausted, r.DeadLetters))
	}
	for _, windows := range [][]int{r.Sent, r.Fetched} {
		for s := int(r.StoppedS); s < len(windows); s++ {
			if most := r.ceiling(s); float64(windows[s]) > CeilingFactor*float64(most) {
				broken = append(broken, fmt.Sprintf("%d commands in second %d, with a ceiling of %d", windows[s], s, most))
			}
		}
	}
	return broken
}

// ceiling returns the highest ceiling while a window was open: it was looked at once a second, at any time of it.
func (r *Run) ceiling(window int) int { return most(r.Ceilings, float64(window-1), float64(window+1)) }

// drainCeiling returns the highest ceiling since the participant was back.
func (r *Run) drainCeiling() int { return most(r.Ceilings, r.BackS, float64(len(r.Ceilings))) }

// Markdown returns the table: a row for each strategy.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("| retries | protection | commands/s before | most during | most after | ceiling | drained after | committed | exhausted | dead letters | goroutines | connections |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range r.Runs {
		run := &r.Runs[i]
		before := run.Before()
		protection := "none"
		if run.Protected {
			protection = "budget, breaker, ceiling"
		}
		cells := []string{
			run.Retries, protection, fmt.Sprintf("%.0f", before), times(run.During(), before), times(run.After(), before),
			orNone(run.drainCeiling()), run.drained(), fmt.Sprintf("%.1f %%", run.CommittedPercent()),
			fmt.Sprint(run.Exhausted), fmt.Sprint(run.DeadLetters), run.Goroutines.String(), run.Connections.String(),
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

func times(n int, before float64) string {
	return fmt.Sprintf("%d (%.1f ×)", n, float64(n)/cmp.Or(before, 1))
}

func orNone(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func (r *Run) drained() string {
	switch {
	case r.DrainedS != nil && r.DeadLetters > 0:
		return fmt.Sprintf("%.0f s, but the dead letters", *r.DrainedS)
	case r.DrainedS != nil:
		return fmt.Sprintf("%.0f s", *r.DrainedS)
	}
	return "not in time"
}

// String returns the level before and the highest since.
func (g Gauge) String() string { return fmt.Sprintf("%d → %d", g.Before, g.Most) }

// Conditions says in a sentence what the figures were measured with.
func (r *Report) Conditions() string {
	coordinators := "one coordinator"
	if r.Coordinators > 1 {
		coordinators = fmt.Sprintf("%d coordinators", r.Coordinators)
	}
	return fmt.Sprintf("%d cores, %s; the participant carries %d transactions per second and gets %d; it is killed and comes "+
		"back after %d s; attempt timeout %d s, deadline %d s.",
		r.Cores, coordinators, r.CapacityPerS, r.RatePerS, r.OutageS, r.AttemptTimeoutS, r.DeadlineS)
}
