package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/bench"
	"github.com/sagacity-tx/sagacity/saga"
)

// TestBench only makes sure that everything is measured: how fast it is, is not asserted.
func TestBench(t *testing.T) {
	t.Parallel()
	for _, extra := range []string{"--runs=1", "--in-process"} {
		profile := filepath.Join(t.TempDir(), "cpu.prof")
		r := command(t, nil, "bench", "--duration", "700ms", "--warmup", "100ms", "--clients", "2", "-o", "json", "--cpuprofile", profile, extra).
			want(t, exitOK, "noop, clients: 2, run 1 of 1", "tcc, clients: 2")
		var rows []bench.Summary
		if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
			t.Fatalf("%v\n%s", err, r.stdout)
		}
		if len(rows) != len(works) {
			t.Fatalf("%d rows, want %d", len(rows), len(works))
		}
		for _, row := range rows {
			if row.Transactions == 0 || row.Errors != 0 || row.PerSecond.Median == 0 || row.WALBytesPer == 0 || row.CPUSeconds == 0 {
				t.Errorf("%s is not measured: %+v", row.Work, row)
			}
		}
		if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
			t.Errorf("no CPU profile: %v", err)
		}
	}
}

func TestBenchStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	stderr := &stopWriter{stop: cancel, at: "bank, clients: 1,"}
	var stdout strings.Builder
	code := run(ctx, strings.Fields("bench --duration 100ms --warmup 100ms --clients 1 --work noop,bank"), &stdout, stderr)
	if code != exitPartial || !strings.Contains(stdout.String(), "noop") || strings.Contains(stdout.String(), "bank") {
		t.Errorf("exit code %d, want %d and the first row:\n%s%s", code, exitPartial, stdout.String(), stderr.text.String())
	}
}

// stopWriter calls stop when something is written.
type stopWriter struct {
	text strings.Builder
	stop func()
	at   string
}

func (s *stopWriter) Write(b []byte) (int, error) {
	s.text.Write(b)
	if strings.Contains(s.text.String(), s.at) {
		s.stop()
	}
	return len(b), nil
}

func TestBenchWorkIsValid(t *testing.T) {
	t.Parallel()
	for _, name := range workNames() {
		body := works[name].body(1234)
		if _, err := saga.ParseSubmission(body, saga.ParseDefinition); err != nil {
			t.Errorf("%s: %v\n%s", name, err, body)
		}
	}
}
