package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is one measured run.
type Row struct {
	Work          string
	Clients       int
	Transactions  int64
	Errors        int64
	PerSecond     float64
	P50Ms         float64
	P99Ms         float64
	CPUSeconds    float64 // per 1,000 transactions; -1 if not known
	CommitsPer    float64
	StatementsPer float64 // -1 if not known
	WALBytesPer   float64
}

// NewRow puts what clients saw beside what it cost.
func NewRow(work string, clients int, r *LoadResult, cost Counters) Row {
	n := float64(max(r.Transactions, 1))
	row := Row{
		Work: work, Clients: clients, Transactions: r.Transactions, Errors: r.Errors, PerSecond: r.PerSecond(),
		P50Ms: float64(r.Latency.ValueAtQuantile(50)) / 1000, P99Ms: float64(r.Latency.ValueAtQuantile(99)) / 1000,
		CPUSeconds: -1, CommitsPer: float64(cost.Commits) / n, StatementsPer: -1, WALBytesPer: float64(cost.WALBytes) / n,
	}
	if cost.CPU >= 0 {
		row.CPUSeconds = cost.CPU.Seconds() / n * 1000
	}
	if cost.Statements >= 0 {
		row.StatementsPer = float64(cost.Statements) / n
	}
	return row
}

// Spread is the median of several runs, between the lowest and the highest.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summary is what several runs of the same work with the same number of clients gave: medians, and for what
// clients see the range too. -1 stands for what could not be measured.
type Summary struct {
	Work          string  `json:"work"`
	Clients       int     `json:"clients"`
	Runs          int     `json:"runs"`
	Transactions  int64   `json:"transactions"` // of all runs
	Errors        int64   `json:"errors"`       // of all runs
	PerSecond     Spread  `json:"per_second"`
	P50Ms         Spread  `json:"p50_ms"`
	P99Ms         Spread  `json:"p99_ms"`
	CPUSeconds    float64 `json:"cpu_seconds_per_1000"`
	CommitsPer    float64 `json:"commits_per_transaction"`
	StatementsPer float64 `json:"statements_per_transaction"`
	WALBytesPer   float64 `json:"wal_bytes_per_transaction"`
}

// Summarize gathers the runs of the same work and clients, in the order in which they occur first.
func Summarize(rows []Row) []Summary {
	type key struct {
		work    string
		clients int
	}
	groups := map[key][]Row{}
	var order []key
	for _, r := range rows {
		k := key{r.Work, r.Clients}
		if len(groups[k]) == 0 {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	summaries := make([]Summary, 0, len(order))
	for _, k := range order {
		runs := groups[k]
		s := Summary{
			Work: k.work, Clients: k.clients, Runs: len(runs),
			PerSecond:     spread(runs, func(r *Row) float64 { return r.PerSecond }),
			P50Ms:         spread(runs, func(r *Row) float64 { return r.P50Ms }),
			P99Ms:         spread(runs, func(r *Row) float64 { return r.P99Ms }),
			CPUSeconds:    spread(runs, func(r *Row) float64 { return r.CPUSeconds }).Median,
			CommitsPer:    spread(runs, func(r *Row) float64 { return r.CommitsPer }).Median,
			StatementsPer: spread(runs, func(r *Row) float64 { return r.StatementsPer }).Median,
			WALBytesPer:   spread(runs, func(r *Row) float64 { return r.WALBytesPer }).Median,
		}
		for _, r := range runs {
			s.Transactions += r.Transactions
			s.Errors += r.Errors
		}
		summaries = append(summaries, s)
	}
	return summaries
}

func spread(runs []Row, of func(*Row) float64) Spread {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = of(&runs[i])
	}
	return SpreadOf(values...)
}

// SpreadOf returns the spread of one value or more, rounded.
func SpreadOf(values ...float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Spread{Median: Round((sorted[(n-1)/2] + sorted[n/2]) / 2), Min: Round(sorted[0]), Max: Round(sorted[n-1])}
}

// String shows the median and the range.
func (s Spread) String() string {
	if s.Min == s.Max {
		return short(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(s.Median), short(s.Min), short(s.Max))
}

func short(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Round keeps three decimals: no figure here is worth more.
func Round(v float64) float64 { return math.Round(v*1000) / 1000 }

// WriteJSON writes the summaries as an array.
func WriteJSON(w io.Writer, summaries []Summary) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(append([]Summary{}, summaries...))
}

var columns = []string{
	"work", "clients", "transactions/s", "p50 ms", "p99 ms", "CPU s/1000", "commits", "statements", "WAL bytes", "errors",
}

func (s *Summary) cells() []string {
	return []string{
		s.Work, fmt.Sprint(s.Clients), s.PerSecond.text(s.Runs, 0), s.P50Ms.text(s.Runs, 2), s.P99Ms.text(s.Runs, 2),
		known(s.CPUSeconds), known(s.CommitsPer), known(s.StatementsPer), fmt.Sprintf("%.0f", s.WALBytesPer), fmt.Sprint(s.Errors),
	}
}

func (s Spread) text(runs, decimals int) string {
	if runs == 1 {
		return fmt.Sprintf("%.*f", decimals, s.Median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}

func known(v float64) string {
	if v < 0 {
		return "?"
	}
	return fmt.Sprintf("%.2f", v)
}

// WriteTable writes the summaries for people.
func WriteTable(w io.Writer, summaries []Summary) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(columns, "\t")+"\t")
	for i := range summaries {
		fmt.Fprintln(t, strings.Join(summaries[i].cells(), "\t")+"\t")
	}
	return t.Flush()
}

// WriteMarkdown writes the summaries for a document.
func WriteMarkdown(w io.Writer, summaries []Summary) error {
	var b strings.Builder
	fmt.Fprintln(&b, "| "+strings.Join(columns, " | ")+" |")
	fmt.Fprintln(&b, "|---|"+strings.Repeat("---:|", len(columns)-1))
	for i := range summaries {
		fmt.Fprintln(&b, "| "+strings.Join(summaries[i].cells(), " | ")+" |")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
