package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lab builds and runs detectors, one at a time.
type lab struct {
	root string // of a copy of the module, which mutants change
	dir  string // for what is built
	log  io.Writer
}

// newLab copies the module in root into dir. A copy, because tests also read the sources that they test, which an
// overlay of the go command would not change; and so that nobody's edits get in between.
func newLab(root, dir string, log io.Writer) (*lab, error) {
	l := &lab{root: filepath.Join(dir, "module"), dir: dir, log: log}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(l.root, name)
		switch {
		case e.IsDir() && (name == ".git" || name == "bin"):
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(to, 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err != nil {
		return nil, fmt.Errorf("copying the module: %w", err)
	}
	return l, nil
}

// result is what became of a mutant.
type result struct {
	Name    string   `json:"name"`
	Rule    string   `json:"rule"`
	Without string   `json:"without"`
	Caught  bool     `json:"caught"`
	By      []string `json:"by,omitempty"`   // names of tests, or a seed
	Said    []string `json:"said,omitempty"` // the first line of each that says why
	Error   string   `json:"error,omitempty"`
	Seconds float64  `json:"seconds"` // building included
}

func (r result) summary() string {
	switch {
	case r.Error != "":
		return "NOT TRIED: " + r.Error
	case !r.Caught:
		return "SURVIVED"
	}
	return "caught by " + strings.Join(r.By, "; ")
}

// baseline returns an error unless every detector of the mutants passes on the code as it is.
func (l *lab) baseline(ctx context.Context, mutants []mutant) error {
	detectors := merge(mutants)
	started := time.Now()
	for i, d := range detectors {
		began := time.Now()
		f, err := l.detect(ctx, d)
		switch {
		case err != nil:
			return err
		case f.Failed:
			return fmt.Errorf("%s fails on the code as it is, so it says nothing about mutants:\n%s", d, indent(strings.Join(f.Tail, "\n")))
		}
		fmt.Fprintf(l.log, "%3d/%d  passes on the code as it is, %.1fs: %s%s\n", i+1, len(detectors), since(began), d.Package,
			left(time.Since(started), i+1, len(detectors)))
	}
	return nil
}

// try runs the detectors of a mutant until one notices; with all, every one.
func (l *lab) try(ctx context.Context, m mutant, all bool) result {
	r := result{Name: m.Name, Rule: m.Rule, Without: m.Without}
	began := time.Now()
	originals, err := m.apply(l.root)
	for _, d := range m.By {
		if err != nil || r.Caught && !all {
			break
		}
		var f finding
		if f, err = l.detect(ctx, d); f.Failed && err == nil {
			r.Caught = true
			r.By = append(r.By, f.By)
			r.Said = append(r.Said, f.Said)
		}
	}
	for path, text := range originals {
		err = errors.Join(err, os.WriteFile(path, text, 0o600))
	}
	if err != nil {
		r.Caught, r.Error = false, err.Error()
	}
	r.Seconds = since(began)
	return r
}

func (l *lab) detect(ctx context.Context, d detector) (finding, error) {
	program := filepath.Join(l.dir, "detector")
	defer func() { _ = os.Remove(program) }()
	if err := d.build(ctx, l.root, program); err != nil {
		return finding{}, err
	}
	return d.run(ctx, l.root, program)
}
