package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// config is what the flags say.
type config struct {
	coordinator  string // program
	dir          string // of the data while it runs
	out          string // JSON file
	parts        []string
	clients      []int
	rows         int
	pairs        int
	transactions int
	warmup       time.Duration
	duration     time.Duration
}

const (
	partFinished = "p6"
	partWaiting  = "p7"
	partRestart  = "p8"
	partSeveral  = "p10"
)

var parts = []string{partFinished, partWaiting, partRestart, partSeveral}

// Limits of what one private PostgreSQL and this process can serve.
const (
	rowsMax    = 1_000_000_000
	clientsMax = 1000
	pairsMax   = 100
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-scale:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var clients, list string
	f := flag.NewFlagSet("bench-scale", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.coordinator, "coordinator", "bin/coordinator", "program of the coordinator")
	f.StringVar(&c.dir, "dir", os.TempDir(), "directory for the data while it is measured: about 3 GB for a million rows")
	f.StringVar(&c.out, "out", "bench/results/scale.json", "file for the figures as JSON")
	f.StringVar(&list, "parts", strings.Join(parts, ","), "what to measure; p7 and p8 are one run")
	f.StringVar(&clients, "clients", "16,128", "numbers of clients")
	f.IntVar(&c.rows, "rows", 10_000_000, "p6: finished transactions in the tables")
	f.IntVar(&c.pairs, "pairs", 5, "p6, p10: how often to measure everything; p10: how often to kill")
	f.IntVar(&c.transactions, "transactions", 100_000, "p7, p8: transactions that wait")
	f.DurationVar(&c.warmup, "warmup", 2*time.Second, "before each measurement")
	f.DurationVar(&c.duration, "duration", 10*time.Second, "of each measurement")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	for _, text := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > clientsMax {
			return c, fmt.Errorf("-clients has %q; use numbers from 1 to %d, with commas between", text, clientsMax)
		}
		c.clients = append(c.clients, n)
	}
	c.parts = strings.Split(list, ",")
	for _, part := range c.parts {
		if !slices.Contains(parts, part) {
			return c, fmt.Errorf("-parts has %q; use some of %s", part, strings.Join(parts, ","))
		}
	}
	switch {
	case c.rows < 1 || c.rows > rowsMax:
		return c, fmt.Errorf("-rows is %d; use 1 to %d", c.rows, rowsMax)
	case c.pairs < 1 || c.pairs > pairsMax:
		return c, fmt.Errorf("-pairs is %d; use 1 to %d", c.pairs, pairsMax)
	case c.transactions < 1 || c.duration <= 0 || c.warmup < 0:
		return c, errors.New("-transactions and -duration must be positive, -warmup not negative")
	}
	return c, nil
}

// has reports whether one of the parts is to be measured.
func (c *config) has(wanted ...string) bool {
	return slices.ContainsFunc(wanted, func(part string) bool { return slices.Contains(c.parts, part) })
}

// run measures the parts and writes what was measured, also when a later part fails.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	r := &report{}
	err = measure(ctx, cfg, r, stderr)
	return errors.Join(err, r.writeJSON(cfg.out), r.writeMarkdown(stdout))
}

func measure(ctx context.Context, cfg config, r *report, stderr io.Writer) error {
	if cfg.has(partFinished, partSeveral) {
		if err := measureOnStand(ctx, cfg, r, stderr); err != nil {
			return err
		}
	}
	if cfg.has(partWaiting, partRestart) {
		return backlog(ctx, cfg, r, stderr)
	}
	return nil
}

func measureOnStand(ctx context.Context, cfg config, r *report, stderr io.Writer) (err error) {
	st, err := startStand(ctx, cfg, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	defer func() { r.runs = st.runs }()
	if cfg.has(partFinished) {
		if err := st.finished(ctx, r); err != nil {
			return fmt.Errorf("p6: %w", err)
		}
	}
	if cfg.has(partSeveral) {
		if err := st.several(ctx, r); err != nil {
			return fmt.Errorf("p10: %w", err)
		}
	}
	return nil
}
