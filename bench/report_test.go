package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestNewRow(t *testing.T) {
	h := hdrhistogram.New(1, latencyMaxUs, latencyDigits)
	for range 99 {
		_ = h.RecordValue(2000)
	}
	_ = h.RecordValue(50_000)
	r := &LoadResult{Transactions: 100, Errors: 1, Elapsed: 2 * time.Second, Latency: h}
	row := NewRow("noop", 4, r, Counters{Commits: 300, Statements: -1, WALBytes: 100_000, CPU: time.Second})
	want := Row{
		Work: "noop", Clients: 4, Transactions: 100, Errors: 1, PerSecond: 50, P50Ms: 2, P99Ms: 2, CPUSeconds: 10,
		CommitsPer: 3, StatementsPer: -1, WALBytesPer: 1000,
	}
	row.P50Ms, row.P99Ms = float64(int(row.P50Ms)), float64(int(row.P99Ms)) // a histogram rounds
	if row != want {
		t.Errorf("got %+v, want %+v", row, want)
	}
}

func TestSummaries(t *testing.T) {
	rows := []Row{
		{Work: "bank", Clients: 16, Transactions: 10, PerSecond: 300, P50Ms: 3, P99Ms: 9, CommitsPer: 4, StatementsPer: -1, WALBytesPer: 10},
		{Work: "noop", Clients: 16, Transactions: 10, PerSecond: 100, P50Ms: 1, P99Ms: 1, CPUSeconds: 1},
		{Work: "bank", Clients: 16, Transactions: 20, Errors: 1, PerSecond: 100, P50Ms: 1, P99Ms: 7, CommitsPer: 5, StatementsPer: -1, WALBytesPer: 30},
		{Work: "bank", Clients: 16, Transactions: 30, PerSecond: 200, P50Ms: 2, P99Ms: 8, CommitsPer: 6, StatementsPer: -1, WALBytesPer: 20},
	}
	var b bytes.Buffer
	if err := WriteMarkdown(&b, Summarize(rows)); err != nil {
		t.Fatal(err)
	}
	want := `| work | clients | transactions/s | p50 ms | p99 ms | CPU s/1000 | commits | statements | WAL bytes | errors |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
| bank | 16 | 200 (100–300) | 2.00 (1.00–3.00) | 8.00 (7.00–9.00) | 0.00 | 5.00 | ? | 20 | 1 |
| noop | 16 | 100 | 1.00 | 1.00 | 1.00 | 0.00 | 0.00 | 0 | 0 |
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := WriteJSON(&b, nil); err != nil || strings.TrimSpace(b.String()) != "[]" {
		t.Errorf("no rows as JSON: %q, %v; want []", b.String(), err)
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 5 0 0"
	pid, ppid, ticks, ok := parseStat(line)
	if pid != 42 || ppid != 7 || ticks != 110 || !ok {
		t.Errorf("got %d, %d, %d, %v; want 42, 7, 110, true", pid, ppid, ticks, ok)
	}
	if _, _, _, ok := parseStat("42 (sh"); ok {
		t.Error("a cut line is read")
	}
}
