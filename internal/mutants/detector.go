package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// detector is a program that has to fail on a mutant and to pass on the code as it is.
type detector struct {
	Package string   // from the module's root, as ./saga
	Run     string   // of tests: the regular expression that chooses them; empty: a command
	Args    []string // of a command
}

// tests is a detector that consists of some tests of a package.
func tests(pkg string, names ...string) detector {
	return detector{Package: pkg, Run: strings.Join(names, "|")}
}

// command is a detector that is a program of its own. It takes -seed and -seeds, and prints the seed that failed with its
// trace, from a line "seed 42: what is wrong" on.
func command(pkg string, args ...string) detector { return detector{Package: pkg, Args: args} }

func (d detector) isTest() bool { return d.Run != "" }

// String returns the command line that runs it on the code as it is.
func (d detector) String() string {
	if d.isTest() {
		return "go test " + d.Package + " -run '^(" + d.Run + ")$'"
	}
	return strings.Join(append([]string{"go run", d.Package}, d.Args...), " ")
}

// detectorTimeout is how long one may take. A mutant that makes it hang is caught by that.
const detectorTimeout = 4 * time.Minute

// killDelay is how much longer than its timeout a detector lives that does not end itself.
const killDelay = 30 * time.Second

// commandTimeout is how long a command may take. It has no clock of its own, so being late proves nothing.
const commandTimeout = 15 * time.Minute

// finding is what a detector said.
type finding struct {
	Failed bool
	By     string // what noticed: names of tests, or a seed
	Seed   string // of a command
	trace  string
	Said   string   // the first line that says why
	Tail   []string // of the output
}

// build makes the detector's program of the module in root.
func (d detector) build(ctx context.Context, root, to string) error {
	args := []string{"build"}
	if d.isTest() {
		args = []string{"test", "-c", "-vet=off"}
	}
	c := exec.CommandContext(ctx, "go", append(args, "-o", to, d.Package)...)
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not build: %w\n%s", d.Package, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// run runs the program that build has made.
func (d detector) run(ctx context.Context, root, program string) (finding, error) {
	args, dir, limit := d.Args, root, commandTimeout
	if d.isTest() {
		limit = detectorTimeout + killDelay
		dir = filepath.Join(root, filepath.FromSlash(d.Package))
		args = []string{"-test.run", "^(" + d.Run + ")$", "-test.timeout", detectorTimeout.String(), "-test.count", "1"}
		if importsRapid(dir) {
			args = append(args, "-rapid.nofailfile", "-rapid.shrinktime", "1s")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	c.WaitDelay = killDelay
	out, err := c.CombinedOutput()
	if err == nil {
		return finding{}, nil
	}
	if ctx.Err() != nil || c.ProcessState == nil {
		return finding{}, fmt.Errorf("%s did not end by itself within %s: %w", d, limit, err)
	}
	f, err := d.read(string(out))
	if err == nil && f.Seed != "" {
		err = f.replay(ctx, program, dir)
	}
	return f, err
}

// replay runs the seed that was found twice more: what it prints must be the same, or nobody could look into it.
func (f *finding) replay(ctx context.Context, program, dir string) error {
	for range 2 {
		c := exec.CommandContext(ctx, program, "-seed", f.Seed, "-seeds", "1")
		c.Dir = dir
		c.WaitDelay = killDelay
		out, err := c.CombinedOutput()
		if err == nil {
			return fmt.Errorf("seed %s finds nothing when it is run again", f.Seed)
		}
		if trace := traceIn(string(out)); trace == "" || trace != f.trace {
			return fmt.Errorf("seed %s gives another trace when it is run again:\n%s", f.Seed, indent(trace))
		}
	}
	f.By += ", same trace twice"
	return nil
}

// traceIn returns what was printed about the first seed that failed; "" if none did.
func traceIn(out string) string {
	at := failedSeed.FindStringIndex(out)
	if at == nil {
		return ""
	}
	trace := out[at[0]:]
	if end := strings.Index(trace, "\nreplay: "); end >= 0 { // of several that failed at the same time
		trace = trace[:end]
	}
	return trace
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	hungTest   = regexp.MustCompile(`(?m)^panic: test timed out[^\n]*\n\s*running tests:\n\s*(\S+)`)
	failedSeed = regexp.MustCompile(`(?m)^seed (\d+): (.*)`)
	crashed    = regexp.MustCompile(`(?m)^panic: (.*)`)
	place      = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*\S)`)
)

// read finds out what has failed. A program that fails without saying so proves nothing about the mutant.
func (d detector) read(out string) (finding, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	f := finding{Failed: true, Tail: lines[max(0, len(lines)-20):]}
	if !d.isTest() {
		seed, panicked := failedSeed.FindStringSubmatch(out), crashed.FindStringSubmatch(out)
		switch {
		case seed != nil:
			f.By, f.Said = "`"+filepath.Base(d.Package)+"` at seed "+seed[1], seed[2]
			f.Seed, f.trace = seed[1], traceIn(out)
		case panicked != nil:
			f.By, f.Said = "`"+filepath.Base(d.Package)+"` (panics)", panicked[1]
		default:
			return f, fmt.Errorf("%s failed without naming a seed:\n%s", d, indent(strings.Join(f.Tail, "\n")))
		}
		return f, nil
	}
	var names []string
	for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
		names = append(names, "`"+m[1]+"`")
	}
	if m := hungTest.FindStringSubmatch(out); m != nil {
		names = append(names, "`"+m[1]+"` (hangs)")
	}
	if len(names) == 0 {
		return f, fmt.Errorf("%s failed outside of a test:\n%s", d, indent(strings.Join(f.Tail, "\n")))
	}
	f.By = strings.Join(slices.Compact(names), ", ")
	if m := place.FindStringSubmatch(out); m != nil {
		f.Said = m[1]
	}
	return f, nil
}

// importsRapid reports whether the package's tests have the flags of rapid.
func importsRapid(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false
	}
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), `"pgregory.net/rapid"`) {
			return true
		}
	}
	return false
}

// merge joins the detectors of all mutants, so that each package is built and run once.
func merge(mutants []mutant) []detector {
	var merged []detector
	patterns := map[string][]string{}
	for _, m := range mutants {
		for _, d := range m.By {
			if !d.isTest() {
				if !slices.ContainsFunc(merged, func(o detector) bool { return o.String() == d.String() }) {
					merged = append(merged, d)
				}
				continue
			}
			patterns[d.Package] = append(patterns[d.Package], strings.Split(d.Run, "|")...)
		}
	}
	for pkg, names := range patterns {
		slices.Sort(names)
		merged = append(merged, tests(pkg, slices.Compact(names)...))
	}
	slices.SortFunc(merged, func(a, b detector) int { return cmp.Compare(a.String(), b.String()) })
	return merged
}
