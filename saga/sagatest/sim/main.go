// Command sim runs the seeded simulator: the real decisions of packages saga, saga/relay and saga/wire in a modelled world
// of crashes, losses, clocks and people. See package sagatest for what it checks.
//
//	go run ./saga/sagatest/sim -seeds 2000            from a seed that is drawn and printed
//	go run ./saga/sagatest/sim -seeds 1 -seed 42      one seed again
//
// Its last line begins with PASS or FAIL. When a rule does not hold it prints a trace, and exits with 1.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/sagacity-tx/sagacity/saga/sagatest"
)

// version is the commit, set by the linker.
var version = "devel"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seeds := flags.Int("seeds", 2000, "how many seeds to run")
	seed := flags.Uint64("seed", 0, "the first seed; 0: one that is drawn")
	mode := flags.String("mode", string(sagatest.Normal), "normal, or disaster: databases lose what they had acknowledged")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "how many run at the same time")
	without := flags.String("without", "", "a safeguard to run without, to see that it is missed: one of "+names(sagatest.Sabotages()))
	everyCell := flags.Bool("every-cell", false, "go on until every cell of the transition table is reached that can be, and fail if eight times the seeds are not enough")
	tables := flags.Bool("tables", false, "print how often each fault and crash point was met, and which cells of the transition table were not")
	trace := flags.Bool("trace", false, "print everything that the first seed does")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	m := sagatest.Many{Seed: *seed, Seeds: *seeds, Mode: sagatest.Mode(*mode), Workers: *workers, Without: sagatest.Sabotage(*without)}
	if *everyCell {
		m.SeedsMax = everyCellMax * m.Seeds
	}
	problem := check(m)
	if flags.NArg() > 0 {
		problem = fmt.Sprintf("%q is no flag", flags.Arg(0))
	}
	if problem != "" {
		fmt.Fprintf(stderr, "sim: %s; run it with -h for help\n", problem)
		return 2
	}
	if m.Seed == 0 {
		m.Seed = 1 + rand.Uint64N(1<<40)
	}
	if *trace {
		for _, line := range sagatest.Run(sagatest.Options{Seed: m.Seed, Mode: m.Mode, Sabotage: m.Without, Trace: true}).Trace {
			fmt.Fprintln(stdout, line)
		}
	}
	fmt.Fprintf(stdout, "sim: %s mode, %d seeds from %d, commit %s\n", m.Mode, m.Seeds, m.Seed, version)
	report, took := runMany(m, stderr)
	report.Write(stdout, took)
	switch {
	case *tables:
		report.WriteTables(stdout)
	case *everyCell:
		report.WriteUnreached(stdout)
	}
	for i := range report.Violations {
		writeViolation(stdout, m, &report.Violations[i])
	}
	return verdict(stdout, m, report, *everyCell)
}

// everyCellMax is how many times as many seeds are run while a cell is missing. The rarest cells are reached by a few of 8,000
// seeds: one or the other may be missing by chance then, and hardly after twice as many.
const everyCellMax = 8

// verdict prints the last line, and returns the exit status.
func verdict(w io.Writer, m sagatest.Many, r *sagatest.Report, everyCell bool) int {
	var problem string
	missing := len(r.Unreached())
	switch {
	case len(r.Violations) > 0:
		problem = fmt.Sprintf("a rule does not hold at seed %d: %s", r.Violations[0].Seed, r.Violations[0].Violation.Rule)
	case everyCell && missing > 0:
		problem = fmt.Sprintf("%d cells of the transition table were not reached, which are listed above", missing)
	default:
		fmt.Fprintf(w, "\nPASS: every rule holds in %d seeds from %d; %d reachable cells were not reached\n", r.Runs, m.Seed, missing)
		return 0
	}
	fmt.Fprintf(w, "\nFAIL: %s\n", problem)
	return 1
}

func check(m sagatest.Many) string {
	switch {
	case m.Seeds < 1:
		return fmt.Sprintf("-seeds is %d; use at least 1", m.Seeds)
	case m.Workers < 1:
		return fmt.Sprintf("-workers is %d; use at least 1", m.Workers)
	case m.Mode != sagatest.Normal && m.Mode != sagatest.Disaster:
		return fmt.Sprintf("-mode is %q; use normal or disaster", m.Mode)
	case m.Without != "" && !slices.Contains(sagatest.Sabotages(), m.Without):
		return fmt.Sprintf("-without is %q; use one of %s", m.Without, names(sagatest.Sabotages()))
	}
	return ""
}

func names(safeguards []sagatest.Sabotage) string {
	list := make([]string, len(safeguards))
	for i, s := range safeguards {
		list[i] = string(s)
	}
	return strings.Join(list, ", ")
}

// runMany runs the seeds, with a bar on a terminal.
func runMany(m sagatest.Many, w io.Writer) (*sagatest.Report, time.Duration) {
	debug.SetGCPercent(400) // worlds are small and short-lived
	began := time.Now()     //nolint:forbidigo // how long it took is printed, and decides nothing
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		bars := mpb.New(mpb.WithOutput(w), mpb.WithWidth(60))
		bar := bars.AddBar(int64(m.Seeds), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("seeds "), decor.CountersNoUnit("%d of %d ")), mpb.AppendDecorators(decor.Percentage()))
		m.Done = bar.Increment
		defer bars.Shutdown()
	}
	report := sagatest.RunMany(m)
	return report, time.Since(began) //nolint:forbidigo // as above
}

// writeViolation prints which rule did not hold, how it came to that, and how to see it again.
func writeViolation(w io.Writer, m sagatest.Many, r *sagatest.Result) {
	fmt.Fprintf(w, "\nseed %d: %v\n\n", r.Seed, r.Violation)
	for _, line := range r.Trace {
		fmt.Fprintln(w, line)
	}
	again := fmt.Sprintf("make sim SEED=%d", r.Seed)
	if m.Mode != sagatest.Normal {
		again += " MODE=" + string(m.Mode)
	}
	if m.Without != "" {
		again += " ARGS='-without " + string(m.Without) + "'"
	}
	fmt.Fprintf(w, "\nseed %d: %v\nreplay: %s (commit %s)\n", r.Seed, r.Violation, again, version)
}
