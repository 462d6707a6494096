package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is the code without one safeguard.
type mutant struct {
	Name    string     // unique, short: lower-case letters, digits and '-'
	Rule    string     // id of the rule that asks for the safeguard
	Without string     // what is missing, in one sentence that begins in lower case
	Edits   []edit     // what removes it; several where two places hold the same line of defence
	By      []detector // what has to notice, the cheapest first
}

// edit replaces a text that has to be in the file exactly once.
type edit struct {
	File string // from the module's root
	Old  string
	New  string
}

// swap makes the only edit of a mutant.
func swap(file, from, to string) []edit { return []edit{{File: file, Old: from, New: to}} }

// checkTable returns all that is wrong with the table itself, the source included.
func checkTable(root string, mutants []mutant) error {
	var wrong []error
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.Name] {
			wrong = append(wrong, fmt.Errorf("mutant %s is in the table twice", m.Name))
		}
		seen[m.Name] = true
		if m.Rule == "" || m.Without == "" || len(m.By) == 0 {
			wrong = append(wrong, fmt.Errorf("mutant %s lacks a rule, a sentence or a detector", m.Name))
		}
		if _, err := m.files(root); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// files returns the mutated files by their path from the root.
func (m mutant) files(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.Edits {
		text, ok := files[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("mutant %s: the text to remove is in %s %d times, want once: bring internal/mutants up to date with the source:\n%s",
				m.Name, e.File, n, indent(e.Old))
		}
		if e.Old == e.New {
			return nil, fmt.Errorf("mutant %s: the edit of %s changes nothing", m.Name, e.File)
		}
		files[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("mutant %s has no edit", m.Name)
	}
	return files, nil
}

// apply writes the mutated files, and returns the files as they were.
func (m mutant) apply(root string) (originals map[string][]byte, err error) {
	files, err := m.files(root)
	if err != nil {
		return nil, err
	}
	originals = map[string][]byte{}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if originals[path], err = os.ReadFile(path); err != nil {
			return originals, err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return originals, err
		}
	}
	return originals, nil
}

func indent(s string) string { return "\t" + strings.ReplaceAll(s, "\n", "\n\t") }
