package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/sagacity-tx/sagacity/bench"
)

const (
	sideSagacity = "Sagacity"
	sideSingly   = "Sagacity, one commit each"
	sideFair     = "DTM, UpdateBranchSync 1"
)

// figure is one comparison. Ratios are better when higher, whatever the metric; a target is one of those.
type figure struct {
	ID          string       `json:"id"`
	Work        work         `json:"work"`
	Clients     string       `json:"clients"` // a number, or "peak": each side at its best number
	Metric      string       `json:"metric"`
	OurSetting  string       `json:"our_setting"`
	PeerSetting string       `json:"peer_setting"`
	Ours        bench.Spread `json:"ours"`
	Peer        bench.Spread `json:"peer"`
	Ratio       float64      `json:"ratio"`  // of the medians
	Target      *float64     `json:"target"` // null: shown only
}

// target is what one figure shall reach, beside DTM with durable branches.
type target struct {
	id      string
	work    work
	clients string
	metric  string
	ratio   float64
	side    string // of ours; "": sideSagacity
}

const (
	metricRate = "transactions_per_second"
	metricCPU  = "cpu_seconds_per_1000"
	metricP50  = "p50_ms"
	metricP99  = "p99_ms"
	peak       = "peak"
)

var targets = []target{
	{"P1", workNoop, "1", metricRate, 3, ""},
	{"P1", workNoop, "16", metricRate, 4, ""},
	{"P1", workNoop, "128", metricRate, 11, ""},
	{"P1", workNoop, peak, metricRate, 15, ""},
	{"P2", workBank, "1", metricRate, 2, ""},
	{"P2", workBank, "16", metricRate, 3.3, ""},
	{"P2", workBank, "128", metricRate, 12, ""},
	{"P2", workBank, peak, metricRate, 18, ""},
	{"P2", workBank, "128", metricRate, 6, sideSingly},
	{"P3", workFailing, "16", metricRate, 5, ""},
	{"P3", workFailing, "128", metricRate, 18, ""},
	{"P3", workTCC, "16", metricRate, 5, ""},
	{"P3", workTCC, "128", metricRate, 18, ""},
	{"P4", workNoop, "128", metricCPU, 12, ""},
	{"P4", workBank, "128", metricCPU, 12, ""},
	{"P5", workBank, "1", metricP50, 2.22, ""},
	{"P5", workBank, "1", metricP99, 1.67, ""},
}

// compare puts the rows of all peers beside ours.
func compare(rows []row) []figure {
	var figures []figure
	for _, t := range targets {
		our := cmp.Or(t.side, sideSagacity)
		ours, ok := at(rows, our, t)
		if !ok {
			continue
		}
		for _, peer := range sidesOf(rows) {
			theirs, ok := at(rows, peer, t)
			if peer == sideSagacity || peer == sideSingly || !ok {
				continue
			}
			f := figure{
				ID: t.id, Work: t.work, Clients: t.clients, Metric: t.metric, OurSetting: our, PeerSetting: peer, Ours: ours, Peer: theirs,
				Ratio: bench.Round(ours.Median / theirs.Median),
			}
			if t.metric != metricRate {
				f.Ratio = bench.Round(theirs.Median / ours.Median)
			}
			if peer == sideFair {
				f.Target = &t.ratio
			}
			figures = append(figures, f)
		}
	}
	return figures
}

func sidesOf(rows []row) []string {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.side) {
			names = append(names, r.side)
		}
	}
	return names
}

// at returns a side's figure of all runs.
func at(rows []row, side string, t target) (bench.Spread, bool) {
	byClients := map[int][]float64{}
	for _, r := range rows {
		if r.side == side && r.work == t.work && (t.clients == peak || t.clients == strconv.Itoa(r.clients)) {
			byClients[r.clients] = append(byClients[r.clients], r.value(t.metric))
		}
	}
	var best bench.Spread
	for _, values := range byClients {
		if s := bench.SpreadOf(values...); s.Median > best.Median {
			best = s
		}
	}
	return best, len(byClients) > 0
}

func (r row) value(metric string) float64 {
	switch metric {
	case metricCPU:
		return r.CPUSeconds
	case metricP50:
		return r.P50Ms
	case metricP99:
		return r.P99Ms
	}
	return r.PerSecond
}

func writeJSON(path string, figures []figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func writeMarkdown(w io.Writer, rows []row, figures []figure) {
	fmt.Fprint(w, "| id | work | clients | metric | our setting | ours | peer | setting | ratio | target |\n|---|---|---:|---|---|---:|---:|---|---:|---:|\n")
	for _, f := range figures {
		goal := ""
		if f.Target != nil {
			goal = fmt.Sprint(*f.Target)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %.2f | %s |\n", f.ID, f.Work, f.Clients, f.Metric, f.OurSetting, f.Ours, f.Peer, f.PeerSetting, f.Ratio, goal)
	}
	fmt.Fprint(w, "\n| work | clients | side | transactions/s | p50 ms | p99 ms | CPU s/1000 | commits | statements | WAL bytes | errors |\n|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	type key struct {
		side    string
		work    work
		clients int
	}
	seen := map[key]bool{}
	for _, r := range rows {
		k := key{r.side, r.work, r.clients}
		if seen[k] {
			continue
		}
		seen[k] = true
		of := func(get func(row) float64) bench.Spread {
			var values []float64
			for _, o := range rows {
				if (key{o.side, o.work, o.clients}) == k {
					values = append(values, get(o))
				}
			}
			return bench.SpreadOf(values...)
		}
		fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %s | %s | %.1f | %.1f | %.0f | %.0f |\n", r.work, r.clients, r.side,
			of(func(r row) float64 { return r.PerSecond }), of(func(r row) float64 { return r.P50Ms }), of(func(r row) float64 { return r.P99Ms }),
			of(func(r row) float64 { return r.CPUSeconds }), of(func(r row) float64 { return r.CommitsPer }).Median,
			of(func(r row) float64 { return r.StatementsPer }).Median, of(func(r row) float64 { return r.WALBytesPer }).Median,
			of(func(r row) float64 { return float64(r.Errors) }).Max)
	}
}
