package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A filter of a word that nothing can have is an error that says which there are, not an empty list.
func TestFiltersKnowTheirWords(t *testing.T) {
	for args, says := range map[string]string{
		"dlq list --cause handlerfault":                    "handler_fault",
		"dlq replay --cause handlerfault --reason x --yes": "handler_fault",
		"audit list --action repaly":                       "replay",
	} {
		command(t, nil, strings.Fields(args)...).want(t, exitUsage, "use one of", says)
	}
	wantAll(t, "../../saga/message.go", `Fault[A-Z]\w* += "([a-z_]+)"`, deadLetterCauses)
	wantAll(t, "../../saga/event.go", `DeadLetter(?:Exhausted|Panic|Unknown) += "([a-z_]+)"`, deadLetterCauses)
	wantAll(t, "../../saga/letter.go", `Letter[A-Z]\w* +LetterAction = "([a-z_]+)"`, auditActions)
	for _, dir := range []string{"", "api/", "token/"} {
		wantAll(t, "../../coordinator/"+dir+"*.go", `action[A-Z]\w* += "([a-z_]+)"`, auditActions)
	}
}

// wantAll checks that all words that the source has as constants are known.
func wantAll(t *testing.T, files, pattern string, known []string) {
	t.Helper()
	paths, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			if found++; !slices.Contains(known, m[1]) {
				t.Errorf("%s has %q, which no filter takes", path, m[1])
			}
		}
	}
	if found == 0 {
		t.Errorf("%s has nothing like %s", files, pattern)
	}
}
