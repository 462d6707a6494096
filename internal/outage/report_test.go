package outage_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/outage"
)

func report() *outage.Report {
	drained := 4.2
	return &outage.Report{
		Cores: 2, Coordinators: 1, CapacityPerS: 20, RatePerS: 10, OutageS: 3, AttemptTimeoutS: 1, DeadlineS: 60,
		Runs: []outage.Run{
			{
				Name: "default", Retries: "exponential <&>", Protected: true, StoppedS: 4.1, BackS: 7.4, Ceilings: []int{20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20}, DrainedS: &drained,
				Sent: []int{3, 30, 8, 12, 10, 4, 3, 0, 22, 21, 10}, Fetched: []int{0, 30, 8, 12, 1, 0, 0, 0, 22, 20, 10},
				Submitted: 1000, Committed: 992, Cancelled: 8, Goroutines: outage.Gauge{Before: 100, Most: 120}, Connections: outage.Gauge{Before: 9, Most: 9},
			},
			{
				Name: "immediate", Retries: "immediate", StoppedS: 4, BackS: 7.2,
				Sent: []int{10, 10, 10, 10, 40, 70, 100, 250, 60, 0}, Fetched: []int{10, 10, 10, 10, 0, 0, 0, 31},
				Submitted: 100, Committed: 80, Exhausted: 15, DeadLetters: 3, Unfinished: 2,
			},
		},
	}
}

// The figures of a window are those of the seconds that it touches, and the warm-up does not count.
func TestFigures(t *testing.T) {
	r := report()
	d, i := &r.Runs[0], &r.Runs[1]
	if d.Before() != 10 || d.During() != 10 || d.After() != 22 || i.During() != 250 || i.After() != 250 {
		t.Errorf("default %v before, %d during, %d after; immediate %d during, %d after", d.Before(), d.During(), d.After(), i.During(), i.After())
	}
	if broken := d.Broken(); len(broken) != 0 {
		t.Errorf("the default breaks its promise: %v", broken)
	}
	if broken := i.Broken(); len(broken) < 3 {
		t.Errorf("of the other only this is seen: %v", broken)
	}
	d.Sent[8] = 23
	if broken := d.Broken(); len(broken) != 1 {
		t.Errorf("of 23 in a second, where 22 may be: %v", broken)
	}
	var empty outage.Run
	if empty.Before() != 0 || empty.During() != 0 || empty.After() != 0 {
		t.Error("nothing has figures")
	}
}

// A report reads and writes as JSON, and its table has a row for each strategy.
func TestTable(t *testing.T) {
	want := report()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got outage.Report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	table := got.Markdown()
	for _, line := range []string{
		"| exponential <&> | budget, breaker, ceiling | 10 | 10 (1.0 ×) | 22 (2.2 ×) | 20 | 4 s | 99.2 % | 0 | 0 | 100 → 120 | 9 → 9 |",
		"| immediate | none | 10 | 250 (25.0 ×) | 250 (25.0 ×) | none | not in time | 80.0 % | 15 | 3 | 0 → 0 | 0 → 0 |",
	} {
		if !strings.Contains(table, line+"\n") {
			t.Errorf("the table lacks %s\n%s", line, table)
		}
	}
}

var negative = regexp.MustCompile(`[" MLHV]-[0-9]`)

// The plot is XML, and all that is drawn lies within it.
func TestPlot(t *testing.T) {
	svg := report().SVG()
	d := xml.NewDecoder(bytes.NewReader(svg))
	paths := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
			paths++
		}
	}
	if paths < 20 || bytes.Contains(svg, []byte("NaN")) || negative.Match(svg) {
		t.Errorf("%d paths\n%s", paths, svg)
	}
	if len((&outage.Report{}).SVG()) == 0 {
		t.Error("nothing cannot be drawn")
	}
}

var update = flag.Bool("update", false, "write into docs/failing-well.md what docs/outage/outage.json says")

// What the docs show is what the figures beside them say. To show new ones: make outage OUT=docs/outage, and then this test
// with -update.
func TestDocs(t *testing.T) {
	dir := filepath.Join("..", "..", "docs")
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	var r outage.Report
	if err := json.Unmarshal(read("outage/outage.json"), &r); err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- outage: begin -->\n", "<!-- outage: end -->\n"
	page := string(read("failing-well.md"))
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("docs/failing-well.md lacks %s or %s", begin, end)
	}
	want := before + begin + r.Conditions() + "\n\n" + r.Markdown() + end + after
	if *update {
		for name, content := range map[string]string{"failing-well.md": want, "outage/outage.svg": string(r.SVG())} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if page != want {
		t.Error("docs/failing-well.md is not what outage.json says; -update rewrites it")
	}
	if !bytes.Equal(read("outage/outage.svg"), r.SVG()) {
		t.Error("docs/outage/outage.svg is not the plot of outage.json; -update rewrites it")
	}
}
