package sagatest_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga/sagatest"
)

// run runs seeds from a base that is drawn and printed, and fails with the trace of the first violation.
func run(t *testing.T, seeds int, mode sagatest.Mode) *sagatest.Report {
	t.Helper()
	base := 1 + rand.Uint64N(1<<40)
	t.Logf("%d seeds from %d", seeds, base)
	report := sagatest.RunMany(sagatest.Many{Seed: base, Seeds: seeds, Mode: mode, Workers: runtime.GOMAXPROCS(0)})
	for _, r := range report.Violations {
		t.Errorf("seed %d: %v\n%s", r.Seed, r.Violation, strings.Join(r.Trace, "\n"))
	}
	var text bytes.Buffer
	report.Write(&text, time.Second)
	report.WriteTables(&text)
	t.Log(text.String())
	return report
}

// TestSeeds runs the real decisions through every fault that they have to survive: I-1 to I-15 hold after every event.
func TestSeeds(t *testing.T) {
	report := run(t, 300, sagatest.Normal)
	if missing := report.Missing(); len(missing) > 0 {
		t.Errorf("never met: %s", strings.Join(missing, ", "))
	}
	for cell := range report.Coverage {
		if why := sagatest.Unreachable(cell); why != "" {
			t.Errorf("%s was reached, although %s", cell, why)
		}
	}
	reached := len(report.Coverage)
	if unreached := len(report.Unreached()); reached < 4*unreached {
		t.Errorf("%d cells of the transition table were reached and %d were not: such runs prove little", reached, unreached)
	}
}

// TestDisasters lets databases lose what they had acknowledged: what is wrong afterwards is told.
func TestDisasters(t *testing.T) {
	report := run(t, 150, sagatest.Disaster)
	if report.Detected["wrong"] == 0 {
		t.Error("no transaction was wrong: such disasters prove nothing")
	}
}

// TestSameSeedSameTrace: everything that a run does follows from its seed.
func TestSameSeedSameTrace(t *testing.T) {
	for _, mode := range []sagatest.Mode{sagatest.Normal, sagatest.Disaster} {
		for seed := range uint64(15) {
			o := sagatest.Options{Seed: seed, Mode: mode, Trace: true}
			first, second := sagatest.Run(o), sagatest.Run(o)
			if !slices.Equal(first.Trace, second.Trace) {
				t.Fatalf("seed %d gives two traces: %s", seed, firstDifference(first.Trace, second.Trace))
			}
			o.Trace = false
			if r := sagatest.Run(o); r.Events != first.Events {
				t.Fatalf("seed %d has %d events, and with a trace %d", seed, r.Events, first.Events)
			}
		}
	}
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] + "\n" + b[i]
		}
	}
	return "one is longer"
}

// TestChecksFindWhatIsMissing takes each safeguard out of the model's own order of things: its rule is soon broken, and
// the trace shows the transaction.
func TestChecksFindWhatIsMissing(t *testing.T) {
	rules := map[sagatest.Sabotage][]string{
		sagatest.WithoutVersionCheck:     {"I-7"},
		sagatest.WithoutReload:           {"S2.10"},
		sagatest.WithoutLeaseToken:       {"I-6", "I-3", "I-5", "I-2"},
		sagatest.MessageIDWithoutAttempt: {"C3"},
		sagatest.SentBeforeCommit:        {"I-8"},
		sagatest.OnlyHandedOff:           {"C2"},
		sagatest.RemovedBeforePubAck:     {"C2"},
		sagatest.AckedBeforeCommit:       {"S2.10"},
		sagatest.AckedBeforeReply:        {"B5"},
		sagatest.AnsweredBeforeCommit:    {"I-5", "I-2", "I-4", "I-1", "B5"},
	}
	for _, s := range sagatest.Sabotages() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			report := sagatest.RunMany(sagatest.Many{Seed: 1, Seeds: 500, Without: s})
			if len(report.Violations) == 0 {
				t.Fatal("nothing was found in 500 seeds")
			}
			r := report.Violations[0]
			t.Logf("after %d seeds: %v", report.Runs, r.Violation)
			if !slices.Contains(rules[s], r.Violation.Rule) {
				t.Errorf("%v: want one of %v", r.Violation, rules[s])
			}
			last := r.Trace[len(r.Trace)-1]
			if !strings.Contains(last, "checks") || !strings.Contains(last, r.Violation.Text) {
				t.Errorf("the trace of %d lines ends with %q", len(r.Trace), last)
			}
		})
	}
}

// TestUnreachableList: every line of the list names cells that no other line explains.
func TestUnreachableList(t *testing.T) {
	reasons := map[string]int{}
	for _, c := range sagatest.Cells() {
		if why := sagatest.Unreachable(c); why != "" {
			reasons[why]++
		}
	}
	for _, line := range sagatest.UnreachableReasons() {
		if reasons[line] == 0 {
			t.Errorf("nothing is unreachable because %s", line)
		}
	}
}
