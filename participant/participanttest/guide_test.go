package participanttest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

const guide = "../../docs/testing.md"

// The guide lists every check as it is, shows Go that is compiled, and a sample of the output that a test compares.
func TestGuide(t *testing.T) {
	t.Parallel()
	page := read(t, guide)
	if table := checksTable(); !strings.Contains(page, table) {
		t.Errorf("%s does not have this table:\n%s", guide, table)
	}
	blocks := regexp.MustCompile("(?s)```(go|text)\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 4 {
		t.Fatalf("%s has %d blocks", guide, len(blocks))
	}
	sources := read(t, "../../examples/hotel/torture_test.go") + read(t, "example_test.go") + read(t, "../../coordinator/coordinatortest/example_test.go")
	for _, block := range blocks {
		switch {
		case block[1] == "go" && !strings.Contains(sources, block[2]):
			t.Errorf("%s shows Go that is in no test:\n%s", guide, block[2])
		case block[1] == "text" && !strings.Contains(read(t, "testdata/sample.golden"), block[2]):
			t.Errorf("%s shows a report that is not testdata/sample.golden:\n%s", guide, block[2])
		}
	}
}

// Every check says all that a verdict needs, and its name is one of its kind only.
func TestChecks(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range checks() {
		if c.must == "" || c.fix == "" || c.rules == "" || c.run == nil || saga.CheckName("check", c.name) != nil {
			t.Errorf("%s is not complete", c.name)
		}
		for _, kind := range kindsOf(c) {
			if name := c.name + " " + string(kind); names[name] {
				t.Errorf("%s is there twice", name)
			} else {
				names[name] = true
			}
		}
	}
}

func kindsOf(c check) []saga.Kind {
	if c.kinds == nil {
		return []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}
	}
	return c.kinds
}

func checksTable() string {
	var b strings.Builder
	for _, c := range checks() {
		kinds := "all"
		if c.kinds != nil {
			kinds = strings.Trim(fmt.Sprint(c.kinds), "[]")
			kinds = "`" + strings.ReplaceAll(kinds, " ", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.name, kinds, c.rules, c.must)
	}
	return b.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
