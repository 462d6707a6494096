package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Row is one measured run.
type Row struct {
	Work          string  `json:"work"`
	Clients       int     `json:"clients"`
	Transactions  int64   `json:"transactions"`
	Errors        int64   `json:"errors"`
	PerSecond     float64 `json:"per_second"`
	P50Ms         float64 `json:"p50_ms"`
	P99Ms         float64 `json:"p99_ms"`
	CPUSeconds    float64 `json:"cpu_seconds_per_1000"`
	CommitsPer    float64 `json:"commits_per_transaction"`
	StatementsPer float64 `json:"statements_per_transaction"` // -1 if not known
	WALBytesPer   float64 `json:"wal_bytes_per_transaction"`
}

// NewRow puts what clients saw beside what it cost.
func NewRow(work string, clients int, r *LoadResult, cost Counters) Row {
	n := float64(max(r.Transactions, 1))
	row := Row{
		Work: work, Clients: clients, Transactions: r.Transactions, Errors: r.Errors, PerSecond: r.PerSecond(),
		P50Ms: float64(r.Latency.ValueAtQuantile(50)) / 1000, P99Ms: float64(r.Latency.ValueAtQuantile(99)) / 1000,
		CPUSeconds: cost.CPU.Seconds() / n * 1000, CommitsPer: float64(cost.Commits) / n,
		StatementsPer: -1, WALBytesPer: float64(cost.WALBytes) / n,
	}
	if cost.Statements >= 0 {
		row.StatementsPer = float64(cost.Statements) / n
	}
	return row
}

// WriteJSON writes the rows as an array.
func WriteJSON(w io.Writer, rows []Row) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}

// WriteTable writes the rows for people.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "work\tclients\ttransactions/s\tp50 ms\tp99 ms\tCPU s/1000\tcommits\tstatements\tWAL bytes\terrors\t")
	for _, r := range rows {
		statements := "?"
		if r.StatementsPer >= 0 {
			statements = fmt.Sprintf("%.2f", r.StatementsPer)
		}
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%.0f\t%d\t\n", r.Work, r.Clients, r.PerSecond, r.P50Ms,
			r.P99Ms, r.CPUSeconds, r.CommitsPer, statements, r.WALBytesPer, r.Errors)
	}
	return t.Flush()
}
