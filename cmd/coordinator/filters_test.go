package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
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

// Days count as elsewhere, and what is neither a time nor a duration says what is.
func TestSince(t *testing.T) {
	for text, ago := range map[string]time.Duration{"2d": 48 * time.Hour, "36h": 36 * time.Hour, "1m": time.Minute} {
		if got, err := sinceOf(text); err != nil || time.Since(got) < ago || time.Since(got) > ago+time.Minute {
			t.Errorf("--since %s is %s, %v", text, got, err)
		}
	}
	for _, all := range []string{"", "0", "0d"} {
		if got, err := sinceOf(all); err != nil || !got.IsZero() {
			t.Errorf("--since %q is %s, %v; want all", all, got, err)
		}
	}
	for _, wrong := range []string{"yesterday", "-1h", "-1d", "1.5d", "d", "40000d"} {
		if _, err := sinceOf(wrong); err == nil || !strings.Contains(err.Error(), "give an instant such as 2026-01-31T03:00:00Z, or a duration such as 2d") {
			t.Errorf("--since %s: %v", wrong, err)
		}
	}
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/none")
	command(t, nil, "doctor", "--since", "yesterday").want(t, exitUsage, "--since is", "give an instant")
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
