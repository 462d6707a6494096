// Command mutants removes every safeguard in turn from the real code, and shows which test, seed or model notices.
//
// It owns the table of safeguards: what each one is, the rule that asks for it, the text that it is in the source,
// and the detectors that must notice when it is gone. The working tree is never touched: mutants are made in a copy.
//
// First all detectors run on the code as it is, and must pass. Then each mutant is built and its detectors run,
// the cheapest first, until one fails. The command ends with a Markdown table, and with status 1 if a mutant
// survives, does not build, or if its text is no longer in the source exactly once: then the table is out of date.
//
//	go run ./internal/mutants                 all mutants
//	go run ./internal/mutants -only tombstone those whose name matches
//	go run ./internal/mutants -by sim         what the simulator alone notices, of what it is there for
//	go run ./internal/mutants -all            every detector of a mutant, also after one has noticed
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	only *regexp.Regexp // of names
	by   *regexp.Regexp // of the detectors' command lines
	all  bool           // run every detector of a mutant, not only until one notices
	json bool
	list bool
	past bool // the detectors are known to pass on the code as it is
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only, by string
	f := flag.NewFlagSet("mutants", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&only, "only", "", "run the mutants whose `name` matches this regular expression")
	f.StringVar(&by, "by", "", "use the detectors whose `command` matches this regular expression, and leave out mutants without one")
	f.BoolVar(&o.all, "all", false, "run all detectors of a mutant, also after one has noticed")
	f.BoolVar(&o.json, "json", false, "print JSON instead of a Markdown table")
	f.BoolVar(&o.list, "list", false, "list the mutants and their detectors, and run nothing")
	f.BoolVar(&o.past, "no-baseline", false, "do not run the detectors on the code as it is first")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: use -only to choose mutants", f.Arg(0))
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if o.by, err = regexp.Compile(by); err != nil {
		return o, fmt.Errorf("-by: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	chosen := choose(table(), o)
	if len(chosen) == 0 {
		return errors.New("nothing matches: see -list for the names and detectors")
	}
	if o.list {
		return list(stdout, chosen)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if err := checkTable(root, chosen); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := newLab(root, dir, stderr)
	if err != nil {
		return err
	}
	if !o.past {
		if err := l.baseline(ctx, chosen); err != nil {
			return err
		}
	}
	results := make([]result, 0, len(chosen))
	began := time.Now()
	for i, m := range chosen {
		r := l.try(ctx, m, o.all)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %d mutants: %w", i, len(chosen), ctx.Err())
		}
		fmt.Fprintf(stderr, "%3d/%d  %-28s %6.1fs  %s%s\n", i+1, len(chosen), m.Name, r.Seconds, r.summary(), left(time.Since(began), i+1, len(chosen)))
		for _, said := range r.Said {
			fmt.Fprintf(stderr, "%38s%.160s\n", "", said)
		}
		results = append(results, r)
	}
	if err := write(stdout, results, o.json); err != nil {
		return err
	}
	return verdict(results)
}

// left says how long the rest takes if it goes on like what is done.
func left(took time.Duration, done, all int) string {
	if done == all {
		return ""
	}
	return fmt.Sprintf("  (about %s left)", (took / time.Duration(done) * time.Duration(all-done)).Round(time.Second))
}

// write writes the results as a Markdown table or as JSON.
func write(w io.Writer, results []result, asJSON bool) error {
	if !asJSON {
		_, err := io.WriteString(w, markdown(results))
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}

// verdict returns an error that names the mutants that nothing has noticed.
func verdict(results []result) error {
	var missed []string
	for _, r := range results {
		if !r.Caught {
			missed = append(missed, r.Name)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d of %d mutants were not caught: %s", len(missed), len(results), strings.Join(missed, ", "))
	}
	return nil
}

// choose returns the mutants and detectors that the options ask for.
func choose(all []mutant, o options) []mutant {
	var chosen []mutant
	for _, m := range all {
		m.By = slices.DeleteFunc(slices.Clone(m.By), func(d detector) bool { return !o.by.MatchString(d.String()) })
		if len(m.By) > 0 && o.only.MatchString(m.Name) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

func list(w io.Writer, mutants []mutant) error {
	for _, m := range mutants {
		if _, err := fmt.Fprintf(w, "%-28s %-8s %s\n", m.Name, m.Rule, m.Without); err != nil {
			return err
		}
		for _, d := range m.By {
			if _, err := fmt.Fprintf(w, "%-28s %-8s   %s\n", "", "", d); err != nil {
				return err
			}
		}
	}
	return nil
}

// moduleRoot finds the directory of go.mod at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod at or above the working directory: run it in the repository")
		}
		dir = parent
	}
}

// since returns the seconds from an instant until now.
func since(t time.Time) float64 { return time.Since(t).Seconds() }
