package sagatest

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Many says which seeds to run.
type Many struct {
	Seed    uint64 // the first
	Seeds   int
	Mode    Mode
	Without Sabotage // a safeguard that is taken out, to see that it is missed
	Workers int      // zero: one

	// SeedsMax is how many seeds to run at most while a cell of the transition table has not been reached that can be.
	// Less than Seeds: Seeds.
	SeedsMax int
	Done     func() // called after each run, by any of the workers; nil: nobody wants to know
}

// Report is what came of many runs.
type Report struct {
	Runs       int
	Simulated  time.Duration
	Events     int
	Statuses   map[saga.Status]int
	Coverage   Coverage // by how many runs each cell was reached
	Violations []Result // of the seeds that found one, with their traces; by seed
	Detected   map[string]int
	Waits      map[saga.Wait]int

	faults [faultKinds]int
	points [points]pointCount
}

// RunMany runs many seeds, each in one goroutine, and no more after the first violation.
func RunMany(m Many) *Report {
	report := &Report{Statuses: map[saga.Status]int{}, Coverage: Coverage{}, Detected: map[string]int{}, Waits: map[saga.Wait]int{}}
	var next atomic.Int64
	var failed atomic.Bool
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range max(m.Workers, 1) {
		workers.Go(func() {
			for !failed.Load() {
				i := next.Add(1) - 1
				mu.Lock()
				enough := i >= int64(m.Seeds) && (i >= int64(m.SeedsMax) || len(report.Unreached()) == 0)
				mu.Unlock()
				if enough {
					return
				}
				r := RunTraced(Options{Seed: m.Seed + uint64(i), Mode: m.Mode, Sabotage: m.Without})
				if r.Violation != nil {
					failed.Store(true)
				}
				mu.Lock()
				report.add(&r)
				mu.Unlock()
				if m.Done != nil {
					m.Done()
				}
			}
		})
	}
	workers.Wait()
	slices.SortFunc(report.Violations, func(a, b Result) int { return cmp.Compare(a.Seed, b.Seed) })
	return report
}

// RunTraced runs a seed and, if it finds a violation, once more for the trace of the transaction concerned.
func RunTraced(o Options) Result {
	r := Run(o)
	if r.Violation == nil {
		return r
	}
	o.Trace, o.TraceOf = true, r.Violation.Transaction
	r.Trace = Run(o).Trace
	return r
}

func (r *Report) add(one *Result) {
	r.Runs++
	r.Simulated += one.Simulated
	r.Events += one.Events
	for cell := range one.Coverage {
		r.Coverage[cell]++
	}
	for status, n := range one.Statuses {
		r.Statuses[status] += n
	}
	for name, n := range one.Detected {
		r.Detected[name] += n
	}
	for wait, n := range one.Waits {
		r.Waits[wait] += n
	}
	for kind, n := range one.Faults {
		r.faults[kind] += n
	}
	for at, n := range one.Points {
		r.points[at].reached += n.reached
		r.points[at].crashes += n.crashes
		r.points[at].pauses += n.pauses
	}
	if one.Violation != nil {
		r.Violations = append(r.Violations, *one)
	}
}

// Unreached lists the reachable cells of the transition table that no run has reached.
func (r *Report) Unreached() []Cell {
	var cells []Cell
	for _, c := range reachable() {
		if r.Coverage[c] == 0 {
			cells = append(cells, c)
		}
	}
	return cells
}

// reachable lists the cells that can be reached.
var reachable = sync.OnceValue(func() []Cell {
	return slices.DeleteFunc(Cells(), func(c Cell) bool { return Unreachable(c) != "" })
})

// Missing names the kinds of faults that no run has met, and the crash points that none has reached.
func (r *Report) Missing() []string {
	var missing []string
	for kind, n := range r.faults {
		if n == 0 && fault(kind) != commitsForgotten && fault(kind) != participantRestored {
			missing = append(missing, faultNames[kind])
		}
	}
	for at, n := range r.points {
		if n.reached == 0 {
			missing = append(missing, pointNames[at])
		}
	}
	return missing
}

// Write prints the report in short. took is how long the runs took.
func (r *Report) Write(w io.Writer, took time.Duration) {
	fmt.Fprintf(w, "%d seeds in %.1f s: %.0f simulated hours, %d events, %.0f events per second\n", r.Runs, took.Seconds(),
		r.Simulated.Hours(), r.Events, float64(r.Events)/max(took.Seconds(), 0.001))
	fmt.Fprintf(w, "transactions: %d committed, %d cancelled, %d resolved\n", r.Statuses[saga.StatusCommitted],
		r.Statuses[saga.StatusCancelled], r.Statuses[saga.StatusResolved])
	all, kinds, reached, crashes := 0, 0, 0, 0
	for _, n := range r.faults {
		all += n
		kinds += min(n, 1)
	}
	for _, n := range r.points {
		reached += min(n.reached, 1)
		crashes += n.crashes
	}
	fmt.Fprintf(w, "faults: %d of %d kinds; crash points: %d of %d reached, %d crashes there\n", all, kinds, reached, len(r.points), crashes)
	if len(r.Detected) > 0 {
		fmt.Fprintln(w, "transactions that a disaster has left wrong, by what told of it:")
		for _, name := range slices.Sorted(maps.Keys(r.Detected)) {
			fmt.Fprintf(w, "  %-36s %9d\n", name, r.Detected[name])
		}
	}
	reachable := 0
	for _, c := range Cells() {
		if Unreachable(c) == "" {
			reachable++
		}
	}
	fmt.Fprintf(w, "transition table: %d of %d reachable cells\n", reachable-len(r.Unreached()), reachable)
	fmt.Fprintf(w, "violations: %d\n", len(r.Violations))
}

// WriteTables prints how often each fault, each crash point and each reason to wait was met, and which cells of the
// transition table were not.
func (r *Report) WriteTables(w io.Writer) {
	fmt.Fprint(w, "\nnot sent at once, because of:")
	for _, wait := range slices.Sorted(maps.Keys(r.Waits)) {
		fmt.Fprintf(w, " %s %d", wait, r.Waits[wait])
	}
	fmt.Fprint(w, "\n\nfaults:\n")
	for kind, n := range r.faults {
		if n > 0 {
			fmt.Fprintf(w, "  %-36s %9d\n", faultNames[kind], n)
		}
	}
	fmt.Fprintf(w, "\n%-40s %9s %9s %9s\n", "crash points:", "reached", "crashes", "pauses")
	for at, n := range r.points {
		fmt.Fprintf(w, "  %-38s %9d %9d %9d\n", pointNames[at], n.reached, n.crashes, n.pauses)
	}
	r.WriteUnreached(w)
}

// rarestMax is how many of the cells that the fewest seeds have reached are printed.
const rarestMax = 5

// writeRarest prints which cells the fewest seeds have reached: how near the runs came to missing one.
func (r *Report) writeRarest(w io.Writer) {
	cells := slices.SortedFunc(maps.Keys(r.Coverage), func(a, b Cell) int {
		return cmp.Or(cmp.Compare(r.Coverage[a], r.Coverage[b]), cmp.Compare(a.String(), b.String()))
	})
	fmt.Fprintln(w, "reached by the fewest seeds:")
	for _, c := range cells[:min(rarestMax, len(cells))] {
		fmt.Fprintf(w, "  %-48s %9d\n", c, r.Coverage[c])
	}
}

// WriteUnreached prints the cells of the transition table that were not reached and can be.
func (r *Report) WriteUnreached(w io.Writer) {
	unreached := r.Unreached()
	r.writeRarest(w)
	if len(unreached) == 0 {
		return
	}
	fmt.Fprintln(w, "\ncells of the transition table that were not reached:")
	lines := map[string][]string{}
	var order []string
	for _, c := range unreached {
		head, last, _ := strings.Cut(c.String(), " | ")
		if i := strings.LastIndex(last, " | "); i >= 0 {
			head, last = head+" | "+last[:i], last[i+3:]
		}
		if lines[head] == nil {
			order = append(order, head)
		}
		lines[head] = append(lines[head], last)
	}
	for _, head := range order {
		fmt.Fprintf(w, "  %s | %s\n", head, strings.Join(lines[head], " · "))
	}
}
