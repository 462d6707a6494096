package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sagacity-tx/sagacity/bench"
)

// figure is one thing that was measured, and what it should be. A comparison has a value, one beside it and the ratio
// of the two; others have a value, or only words.
type figure struct {
	ID      string        `json:"id"` // P6 to P10
	What    string        `json:"what"`
	Metric  string        `json:"metric,omitempty"`
	Setting string        `json:"setting,omitempty"` // of value
	Value   *bench.Spread `json:"value,omitempty"`
	Beside  string        `json:"beside,omitempty"` // setting of beside_value
	Other   *bench.Spread `json:"beside_value,omitempty"`
	Ratio   *bench.Spread `json:"ratio,omitempty"` // value to beside_value, of each pair
	Got     string        `json:"got,omitempty"`
	Want    string        `json:"want"` // "": shown only
	Verdict verdict       `json:"verdict"`
}

type verdict string

const (
	verdictMet    verdict = "met"
	verdictMissed verdict = "missed"
	verdictShown  verdict = "shown" // there is no target
)

func judge(met bool) verdict {
	if met {
		return verdictMet
	}
	return verdictMissed
}

const (
	metricRate = "transactions_per_second"
	metricP99  = "p99_ms"
	metricWAL  = "wal_bytes_per_transaction"
)

// side is one of two that are compared: a row for each pair.
type side struct {
	label string
	rows  []bench.Row
}

func (s side) values(metric string) []float64 {
	values := make([]float64, len(s.rows))
	for i := range s.rows {
		switch metric {
		case metricP99:
			values[i] = s.rows[i].P99Ms
		case metricWAL:
			values[i] = s.rows[i].WALBytesPer
		default:
			values[i] = s.rows[i].PerSecond
		}
	}
	return values
}

// compare puts a side beside another, pair by pair.
func compare(id, what, metric string, one, other side) figure {
	ours, theirs := one.values(metric), other.values(metric)
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / theirs[i]
	}
	value, beside, ratio := bench.SpreadOf(ours...), bench.SpreadOf(theirs...), bench.SpreadOf(ratios...)
	return figure{ID: id, What: what, Metric: metric, Setting: one.label, Value: &value, Beside: other.label, Other: &beside, Ratio: &ratio, Verdict: verdictShown}
}

// atLeast judges the median of the ratios.
func (f figure) atLeast(target float64) figure {
	f.Want, f.Verdict = fmt.Sprintf("ratio ≥ %g", target), judge(f.Ratio.Median >= target)
	return f
}

// atMost judges the median of the ratios.
func (f figure) atMost(target float64) figure {
	f.Want, f.Verdict = fmt.Sprintf("ratio ≤ %g", target), judge(f.Ratio.Median <= target)
	return f
}

// report is all that was measured.
type report struct {
	figures []figure
	runs    []bench.Row
}

func (r *report) add(figures ...figure) { r.figures = append(r.figures, figures...) }

// writeJSON writes the figures as an array.
func (r *report) writeJSON(path string) error {
	if len(r.figures) == 0 {
		return nil // nothing was measured: keep what was written before
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r.figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// writeMarkdown writes the verdicts, and the runs that they come from.
func (r *report) writeMarkdown(w io.Writer) error {
	if len(r.figures) > 0 {
		fmt.Fprint(w, "| id | what | metric | measured | beside | ratio | target | verdict |\n|---|---|---|---:|---:|---:|---|---|\n")
	}
	for _, f := range r.figures {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", f.ID, f.What, f.Metric,
			f.Got+valueOf(f.Setting, f.Value), valueOf(f.Beside, f.Other), valueOf("", f.Ratio), f.Want, f.Verdict)
	}
	if len(r.runs) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return bench.WriteMarkdown(w, bench.Summarize(r.runs))
}

func valueOf(setting string, s *bench.Spread) string {
	switch {
	case s == nil:
		return ""
	case setting == "":
		return s.String()
	}
	return setting + ": " + s.String()
}
