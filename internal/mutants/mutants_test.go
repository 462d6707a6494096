package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTable: every text is still in the source exactly once, so that the table cannot rot.
func TestTable(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkTable(root, table()); err != nil {
		t.Error(err)
	}
	if n := len(table()); n < 25 {
		t.Errorf("the table has %d mutants, want at least 25", n)
	}
	rules, err := os.ReadFile(filepath.Join(root, "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table() {
		if !strings.Contains(string(rules), `<a id="`+m.Rule+`"></a>`) {
			t.Errorf("mutant %s cites %s, which docs/rules.md does not have", m.Name, m.Rule)
		}
		if !regexp.MustCompile(`^[a-z][a-z0-9-]+$`).MatchString(m.Name) {
			t.Errorf("mutant %q: use lower-case letters, digits and '-' in names", m.Name)
		}
	}
}

// TestDetectorsExist: every test that a detector names is there; a pattern that chooses nothing notices nothing.
func TestDetectorsExist(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	for _, d := range merge(table()) {
		dir := filepath.Join(root, filepath.FromSlash(d.Package))
		if !d.isTest() {
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("%s: %v", d, err)
			}
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				names = append(names, m[1])
			}
		}
		for _, name := range strings.Split(d.Run, "|") {
			if !slices.Contains(names, name) {
				t.Errorf("%s has no test %s", d.Package, name)
			}
		}
	}
}

// TestFiles: a text that is not there, or there twice, is an error and no silent pass.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		edits []edit
		want  string // of the file; empty: an error
	}{
		{swap("a.go", "one", "1"), "1 two two"},
		{[]edit{{"a.go", "one", "1"}, {"a.go", "1 two", "3"}}, "3 two"},
		{swap("a.go", "two", "2"), ""},
		{swap("a.go", "three", "3"), ""},
		{swap("a.go", "one", "one"), ""},
		{swap("b.go", "one", "1"), ""},
		{nil, ""},
	} {
		m := mutant{Name: "m", Edits: c.edits}
		files, err := m.files(root)
		if (err != nil) != (c.want == "") || files["a.go"] != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.edits, files["a.go"], err, c.want)
		}
	}
}

// TestLab: a mutant changes the copy while its detectors run, and nothing else.
func TestLab(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test\n\ngo 1.26\n", "a/a.go": "package a\n\nconst N = 1\n", "a/a_test.go": `package a

import "testing"

func TestN(t *testing.T) {
	if N != 1 {
		t.Error("I-1: N changes")
	}
}
`} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := newLab(root, t.TempDir(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	detectors := []detector{tests("./a", "TestN")}
	notices := mutant{Name: "n", By: detectors, Edits: swap("a/a.go", "= 1", "= 2")}
	survives := mutant{Name: "comment", By: detectors, Edits: swap("a/a.go", "const", "// Unseen.\nconst")}
	breaks := mutant{Name: "syntax", By: detectors, Edits: swap("a/a.go", "const", "cons")}
	if err := l.baseline(t.Context(), []mutant{notices}); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		m              mutant
		caught, broken bool
	}{{notices, true, false}, {survives, false, false}, {breaks, false, true}, {notices, true, false}} {
		r := l.try(t.Context(), c.m, false)
		if r.Caught != c.caught || (r.Error != "") != c.broken || r.Caught && (r.By[0] != "`TestN`" || r.Said[0] != "I-1: N changes") {
			t.Errorf("%s: %+v", c.m.Name, r)
		}
		for _, at := range []string{root, l.root} {
			if text, err := os.ReadFile(filepath.Join(at, "a", "a.go")); err != nil || string(text) != "package a\n\nconst N = 1\n" {
				t.Errorf("%s has left %q, %v", c.m.Name, text, err)
			}
		}
	}
}

// TestRead: what counts as noticing.
func TestRead(t *testing.T) {
	suite, sim := tests("./saga", "TestA", "TestB"), command("./saga/sagatest/sim", "-seeds", "9")
	for _, c := range []struct {
		by        detector
		out, want string // empty: an error
	}{
		{suite, "--- FAIL: TestA (0.00s)\n    a_test.go:7: I-1: broken\n--- FAIL: TestB (0.00s)\nFAIL", "`TestA`, `TestB`"},
		{suite, "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL", "`TestA`"},
		{suite, "panic: test timed out after 4m0s\n\trunning tests:\n\t\tTestB (4m0s)\n", "`TestB` (hangs)"},
		{suite, "testdb: after the tests: goroutines are left", ""},
		{suite, "PASS", ""},
		{sim, "sim: 9 seeds from 40\n\nseed 41: I-2: broken\n", "`sim` at seed 41"},
		{sim, "panic: index out of range\n\ngoroutine 7 [running]:", "`sim` (panics)"},
		{sim, "sim: -seeds is 0; use at least 1", ""},
	} {
		f, err := c.by.read(c.out)
		if (err != nil) != (c.want == "") || err == nil && f.By != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.out, f.By, err, c.want)
		}
	}
	if f, _ := suite.read("--- FAIL: TestA (0.00s)\n    a_test.go:7: I-1: broken\n"); f.Said != "I-1: broken" {
		t.Errorf("said %q", f.Said)
	}
}

// TestReplay: the seed that a command has found must give the same trace twice more, or it is no finding.
func TestReplay(t *testing.T) {
	first := "sim: 9 seeds from 40\n\nseed 41: I-2: broken\n\n  1s c1 dies\n\nseed 41: I-2: broken\nreplay: make sim SEED=41\n\nFAIL\n"
	sim := command("./saga/sagatest/sim", "-seeds", "9")
	for name, c := range map[string]struct {
		script string
		want   string // of the error
	}{
		"same":    {"echo 'another report'; echo; printf 'seed 41: I-2: broken\\n\\n  1s c1 dies\\n\\nseed 41: I-2: broken\\nreplay: x\\n'; exit 1", ""},
		"other":   {"printf 'seed 41: I-2: broken\\n\\n  2s c1 dies\\n\\nseed 41: I-2: broken\\nreplay: x\\n'; exit 1", "another trace"},
		"nothing": {"exit 0", "finds nothing"},
		"broken":  {"echo no such flag; exit 2", "another trace"},
		"args":    {`[ "$*" = "-seed 41 -seeds 1" ] || exit 0; printf 'seed 41: I-2: broken\n\n  1s c1 dies\n\nseed 41: I-2: broken\nreplay: x\n'; exit 1`, ""},
	} {
		program := filepath.Join(t.TempDir(), "sim")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := sim.read(first)
		if err != nil || f.Seed != "41" {
			t.Fatalf("%+v, %v", f, err)
		}
		err = f.replay(t.Context(), program, t.TempDir())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if same := strings.HasSuffix(f.By, "at seed 41, same trace twice"); same != (err == nil) {
			t.Errorf("%s: noticed by %s, %v", name, f.By, err)
		}
	}
}

// TestVerdict: one mutant that was not caught is an error that names it.
func TestVerdict(t *testing.T) {
	caught, missed := result{Name: "a", Caught: true}, result{Name: "b", Rule: "I-1", Without: "x | y"}
	if err := verdict([]result{caught}); err != nil {
		t.Error(err)
	}
	if err := verdict([]result{caught, missed}); err == nil || !strings.Contains(err.Error(), "b") {
		t.Errorf("got %v", err)
	}
	if text := markdown([]result{missed}); !strings.Contains(text, `| x \| y | [I-1](rules.md#I-1) | **nothing** |`) {
		t.Errorf("got %s", text)
	}
}

// TestMerge: the detectors of one package run together on the code as it is.
func TestMerge(t *testing.T) {
	sim := command("./sim", "-seeds", "9")
	merged := merge([]mutant{{By: []detector{tests("./b", "TestY", "TestX"), sim}}, {By: []detector{tests("./b", "TestX"), sim}}})
	if len(merged) != 2 || merged[0].String() != sim.String() || merged[1].Run != "TestX|TestY" {
		t.Errorf("got %v", merged)
	}
}

func TestLeft(t *testing.T) {
	for _, c := range []struct {
		took      time.Duration
		done, all int
		want      string
	}{
		{30 * time.Second, 3, 110, "  (about 17m50s left)"},
		{time.Hour, 110, 110, ""},
	} {
		if got := left(c.took, c.done, c.all); got != c.want {
			t.Errorf("after %d of %d: %q, want %q", c.done, c.all, got, c.want)
		}
	}
}
