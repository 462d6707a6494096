package main

import (
	"bytes"
	"strings"
	"testing"
)

// call runs the command and returns what it printed.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestReport(t *testing.T) {
	code, out, errs := call("-seeds", "4", "-seed", "7")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %s", code, errs)
	}
	for _, want := range []string{
		"4 seeds from 7", "simulated hours", "events per second", "crash points: ", "reachable cells", "violations: 0",
		"\nPASS: every rule holds in 4 seeds from 7; ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not say %q:\n%s", want, out)
		}
	}
	if lines := strings.Count(out, "\n"); lines > 10 {
		t.Errorf("%d lines, want few:\n%s", lines, out)
	}
	_, out, _ = call("-seeds", "4", "-seed", "7", "-tables")
	for _, want := range []string{"commit done, answer lost", "published, before PubAck", "because of:", "not reached:\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("-tables does not show %q:\n%s", want, out)
		}
	}
}

func TestDrawnSeed(t *testing.T) {
	_, first, _ := call("-seeds", "1")
	_, second, _ := call("-seeds", "1")
	if a, b := strings.SplitN(first, "\n", 2)[0], strings.SplitN(second, "\n", 2)[0]; a == b {
		t.Errorf("two runs began with the same seed: %s", a)
	}
}

// TestEveryCell: few seeds do not reach every cell, which is an error for who asks for it.
func TestEveryCell(t *testing.T) {
	code, out, _ := call("-seeds", "2", "-seed", "7", "-every-cell")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; code != 1 || !strings.HasPrefix(last, "FAIL: ") || !strings.Contains(last, "cells of the transition table were not reached") {
		t.Errorf("exit %d: %s", code, last)
	}
}

// A violation is an exit status, a seed, a trace and the command that shows it again.
func TestViolation(t *testing.T) {
	code, out, _ := call("-seeds", "50", "-seed", "1", "-workers", "1", "-without", "without_version_check")
	if code != 1 {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	for _, want := range []string{
		"\nFAIL: a rule does not hold at seed ", "violations: 1", "I-7 does not hold of transaction", "stores submitted", "replay: make sim SEED=", "-without without_version_check", "(commit devel)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not say %q:\n%s", want, out)
		}
	}
	_, trace, _ := strings.Cut(out, "\nseed ")
	seed, _, _ := strings.Cut(trace, ":")
	code, again, _ := call("-seeds", "1", "-seed", seed, "-without", "without_version_check")
	if _, traceAgain, _ := strings.Cut(again, "\nseed "); code != 1 || traceAgain != trace {
		t.Errorf("seed %s again: exit %d, and other output", seed, code)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-seeds", "0"}, "-seeds is 0; use at least 1"},
		{[]string{"-workers", "0"}, "-workers is 0; use at least 1"},
		{[]string{"-mode", "mild"}, `-mode is "mild"; use normal or disaster`},
		{[]string{"-without", "luck"}, `-without is "luck"; use one of`},
		{[]string{"7"}, `"7" is no flag`},
		{[]string{"-nope"}, "flag provided but not defined"},
	} {
		code, _, errs := call(c.args...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, errs)
		}
	}
}
