package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// config is what the flags say.
type config struct {
	coordinator string // program
	dtm         string // program
	out         string // JSON file
	clients     []int
	works       []work
	runs        int
	warmup      time.Duration
	duration    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

func parse() (config, error) {
	var c config
	var clients, list string
	flag.StringVar(&c.coordinator, "coordinator", "../../bin/coordinator", "program of the coordinator")
	flag.StringVar(&c.dtm, "dtm", "../../bin/dtm", "program of DTM")
	flag.StringVar(&c.out, "out", "../results/peers.json", "file for the comparison as JSON")
	flag.StringVar(&clients, "clients", "1,16,128,512", "numbers of clients; the best of all is each side's peak")
	flag.StringVar(&list, "work", "noop,bank,failing,tcc", "what to measure")
	flag.IntVar(&c.runs, "runs", 3, "how often to measure everything")
	flag.DurationVar(&c.warmup, "warmup", 1500*time.Millisecond, "before each measurement")
	flag.DurationVar(&c.duration, "duration", 5*time.Second, "of each measurement")
	flag.Parse()
	for _, text := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return c, fmt.Errorf("-clients has %q; use numbers from 1 to 1000, with commas between", text)
		}
		c.clients = append(c.clients, n)
	}
	for _, text := range strings.Split(list, ",") {
		if !slices.Contains(works, work(text)) {
			return c, fmt.Errorf("-work has %q; use %v", text, works)
		}
		c.works = append(c.works, work(text))
	}
	if c.runs < 1 || c.duration <= 0 {
		return c, errors.New("-runs and -duration must be positive")
	}
	return c, nil
}

func run(ctx context.Context) (err error) {
	cfg, err := parse()
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "starting PostgreSQL, NATS, the coordinator and its peers")
	st, err := startStand(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	rows, err := st.measureAll(ctx, cfg)
	if err != nil {
		return err
	}
	if err := st.check(ctx); err != nil {
		return err
	}
	figures := compare(rows)
	if err := os.MkdirAll(filepath.Dir(cfg.out), 0o755); err != nil {
		return err
	}
	if err := writeJSON(cfg.out, figures); err != nil {
		return err
	}
	writeMarkdown(os.Stdout, rows, figures)
	return nil
}
