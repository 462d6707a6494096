package sagacity_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

// The runbook has a section for every kind of notification and every cause of a dead letter, and none for anything else.
func TestRunbookIsComplete(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"test": true}
	for _, k := range notify.Kinds {
		want[string(k)] = true
	}
	for _, cause := range causes(t) {
		want[cause] = true
	}
	if len(want) < 20 {
		t.Fatalf("only %d codes are known", len(want))
	}
	page, err := os.ReadFile("docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^### <a id=\"([a-z_]+)\"></a>`([a-z_]+)`\n\n\\*\\*.+\\*\\* .+$").FindAllStringSubmatch(string(page), -1) {
		if m[1] != m[2] || !want[m[1]] {
			t.Errorf("docs/runbook.md has a section %s that nothing leads to", m[1])
		}
		delete(want, m[1])
	}
	for code := range want {
		t.Errorf("docs/runbook.md has no section %s", code)
	}
}

// causes reads from the source what a dead letter's cause may be, so that a new one cannot be forgotten.
func causes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("saga/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\t(?:Fault[A-Z]\w*|DeadLetter(?:Exhausted|Unknown|Panic)) +(?:\w+ +)?= "([a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			list = append(list, m[1])
		}
	}
	for _, must := range []string{saga.FaultConflict, saga.DeadLetterExhausted, saga.DeadLetterUnknown, saga.DeadLetterPanic} {
		if !strings.Contains(strings.Join(list, " "), must) {
			t.Fatalf("the cause %s was not found in %q", must, list)
		}
	}
	return list
}
