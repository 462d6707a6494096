package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagacity-tx/sagacity/bench"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScale makes sure that everything is measured (P6, P10): how fast it is, is not asserted.
func TestScale(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "coordinator")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/coordinator").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(dir, "results", "scale.json")
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{
		"-coordinator", program, "-out", file, "-parts", "p6,p10", "-rows", "2000", "-pairs", "1", "-clients", "4",
		"-warmup", "100ms", "-duration", "1s",
	}, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var figures []figure
	if err := json.Unmarshal(text, &figures); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range figures {
		got = append(got, strings.Join([]string{f.ID, f.What, f.Metric, f.Setting, f.Beside, f.Want}, "|"))
		if f.Ratio != nil && (f.Value.Min <= 0 || f.Other.Min <= 0 || f.Ratio.Min <= 0) {
			t.Errorf("%s %s %s is not measured: %s, %s, %s", f.ID, f.What, f.Metric, f.Value, f.Other, f.Ratio)
		}
		if strings.Contains(f.What, "errors") || strings.Contains(f.What, "deadlocks") {
			if f.Got != "0" {
				t.Errorf("%s: %s", f.What, f.Got)
			}
		}
	}
	want := []string{
		"P6|noop, 4 clients|transactions_per_second|2,000 finished|empty|ratio ≥ 0.95",
		"P6|noop, 4 clients|p99_ms|2,000 finished|empty|ratio ≤ 1.1",
		"P6|noop, 4 clients|wal_bytes_per_transaction|2,000 finished|empty|",
		"P10|noop, 4 clients|transactions_per_second|2 coordinators|1 coordinator|ratio ≥ 1",
		"P10|noop, 4 clients|p99_ms|2 coordinators|1 coordinator|",
		"P10|noop, 4 clients|transactions_per_second|3 coordinators|1 coordinator|ratio ≥ 1",
		"P10|noop, 4 clients|p99_ms|3 coordinators|1 coordinator|",
	}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("the figures are\n%s\nwant at first\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	last := figures[len(figures)-3]
	if !strings.Contains(last.What, "kill -9") || last.Value == nil || last.Value.Max >= takeOverWait.Seconds() {
		t.Errorf("after kill -9: %+v", last)
	}
	for _, line := range []string{"| id | what |", "| P10 | deadlocks", "\n| empty | 4 |", "\n| 3 coordinators | 4 |"} {
		if !strings.Contains(stdout.String(), line) {
			t.Errorf("the tables lack %q:\n%s", line, stdout.String())
		}
	}
	if !strings.Contains(stderr.String(), "on disk: ") || !strings.Contains(stderr.String(), "2,000 of 2,000, 100 %") {
		t.Errorf("nothing about the loading:\n%s", stderr.String())
	}
}

func TestCompareJudgesTheMedianOfPairs(t *testing.T) {
	t.Parallel()
	rows := func(perSecond ...float64) (rows []bench.Row) {
		for _, v := range perSecond {
			rows = append(rows, bench.Row{PerSecond: v, P99Ms: v})
		}
		return rows
	}
	one, other := side{"one", rows(90, 200, 30)}, side{"other", rows(100, 100, 100)}
	for _, c := range []struct {
		figure figure
		want   verdict
	}{
		{compare("P6", "", metricRate, one, other), verdictShown},
		{compare("P6", "", metricRate, one, other).atLeast(0.9), verdictMet},
		{compare("P6", "", metricRate, one, other).atLeast(0.95), verdictMissed},
		{compare("P6", "", metricP99, one, other).atMost(0.9), verdictMet},
		{compare("P6", "", metricP99, one, other).atMost(0.89), verdictMissed},
	} {
		if c.figure.Verdict != c.want || c.figure.Ratio.Median != 0.9 || c.figure.Ratio.Max != 2 {
			t.Errorf("%s: %s, %s, want %s", c.figure.Want, c.figure.Verdict, c.figure.Ratio, c.want)
		}
	}
}

func TestReadVerdicts(t *testing.T) {
	t.Parallel()
	got, err := readVerdicts([]byte(`[{"Rule":"P7","What":"memory","Want":"≤ 300 MiB","Got":"50 MiB","OK":true},{"Rule":"P8","What":"moving","Want":"10s","Got":"12s","OK":false}]`))
	want := []figure{
		{ID: "P7", What: "memory", Want: "≤ 300 MiB", Got: "50 MiB", Verdict: verdictMet},
		{ID: "P8", What: "moving", Want: "10s", Got: "12s", Verdict: verdictMissed},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := readVerdicts([]byte(`{`)); err == nil {
		t.Error("what is no JSON was read")
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"-clients 0":   `-clients has "0"; use numbers from 1 to 1000, with commas between`,
		"-parts p6,p9": `-parts has "p9"; use some of p6,p7,p8,p10`,
		"-rows 0":      "-rows is 0; use 1 to 1000000000",
		"-pairs 101":   "-pairs is 101; use 1 to 100",
		"-duration 0s": "-transactions and -duration must be positive, -warmup not negative",
	} {
		if _, err := parse(strings.Fields(flags), &bytes.Buffer{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", flags, err, want)
		}
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 10_000_000: "10,000,000", 1_002_030: "1,002,030"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
