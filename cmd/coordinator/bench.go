package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/bench"
	"github.com/sagacity-tx/sagacity/participant"
)

// benchConfig is what the flags of bench say.
type benchConfig struct {
	Clients     []int
	Work        []string
	Duration    time.Duration
	Warmup      time.Duration
	Runs        int
	InProcess   bool
	Connections int
	Lanes       int
	Group       int // of the banks, see participant.Config.GroupMax
	Format      string
	CPUProfile  string
	Log         *slog.Logger
}

func newBench() *cobra.Command {
	cfg := benchConfig{Format: formatTable}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure throughput, latency and cost on this machine", Args: cobra.NoArgs,
		Long: "bench measures a coordinator with clients that begin their next transaction when the last one has ended. It\n" +
			"starts a private PostgreSQL with durable settings, a NATS and the participants, and removes them at the end.\n" +
			"Every transaction has to commit, and money that moved has to be all there; whatever else happens is an error.\n\n" +
			"Work:\n" +
			"  noop  a saga of 3 steps, one after the other; the participant answers at once, without a database\n" +
			"  bank  a saga of 3 steps at 3 banks, each with a database of its own\n" +
			"  tcc   3 tcc steps at the same banks, side by side",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if !cmd.Flags().Changed("log-level") && os.Getenv("SAGACITY_LOG_LEVEL") == "" {
				_ = cmd.Flags().Set("log-level", "error") // the flag exists; what is started and stopped is no news here
			}
			if cfg.Log, err = logger(cmd, cmd.ErrOrStderr()); err != nil {
				return err
			}
			if err := cfg.validate(); err != nil {
				return err
			}
			return runBench(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&cfg.Clients, "clients", []int{1, 16, 128}, "numbers of clients, one measurement each")
	f.StringSliceVar(&cfg.Work, "work", workNames(), "what to measure")
	f.DurationVar(&cfg.Duration, "duration", 10*time.Second, "how long each measurement takes")
	f.DurationVar(&cfg.Warmup, "warmup", 2*time.Second, "how long each runs before it is measured")
	f.IntVar(&cfg.Runs, "runs", 1, "how often to measure everything; the median is printed, with the range")
	f.BoolVar(&cfg.InProcess, "in-process", false, "call the engine directly instead of over HTTP")
	f.IntVar(&cfg.Connections, "connections", defaultConnections, "most connections of the coordinator to PostgreSQL")
	f.IntVar(&cfg.Lanes, "lanes", 0, "concurrent batches of the coordinator (default: its own)")
	f.IntVar(&cfg.Group, "group", 0, "commands that the banks carry out in one local transaction, with handlers that queue (default: each has its own)")
	f.StringVar(&cfg.CPUProfile, "cpuprofile", "", "write a CPU profile of this process to a file")
	choiceFlag(cmd, &cfg.Format, "output", "o", []string{formatTable, formatJSON, formatMarkdown}, "how to print the figures")
	_ = cmd.RegisterFlagCompletionFunc("work", cobra.FixedCompletions(workNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// Limits of bench: what one private PostgreSQL with 200 connections can serve.
const (
	benchClientsMax     = 10_000
	benchConnectionsMax = 120
	benchRunsMax        = 100
)

func (c *benchConfig) validate() error {
	for _, n := range c.Clients {
		if n < 1 || n > benchClientsMax {
			return usageError("--clients has %d; use 1 to %d", n, benchClientsMax)
		}
	}
	for _, w := range c.Work {
		if !slices.Contains(workNames(), w) {
			return usageError("--work has %q; use %s", w, strings.Join(workNames(), ", "))
		}
	}
	switch {
	case c.Group < 0 || c.Group > participant.GroupMaxMax:
		return usageError("--group is %d; use 2 to %d, or 0 for none", c.Group, participant.GroupMaxMax)
	case len(c.Clients) == 0 || len(c.Work) == 0:
		return usageError("nothing to measure; give --clients and --work")
	case c.Duration <= 0 || c.Warmup < 0:
		return usageError("--duration is %s and --warmup %s; use times such as 10s", c.Duration, c.Warmup)
	case c.Runs < 1 || c.Runs > benchRunsMax:
		return usageError("--runs is %d; use 1 to %d", c.Runs, benchRunsMax)
	case c.Lanes < 0 || c.Connections > benchConnectionsMax || c.Connections < c.Lanes+2:
		return usageError("--lanes is %d and --connections %d; use at least two connections more than lanes, and at most %d",
			c.Lanes, c.Connections, benchConnectionsMax)
	}
	return nil
}

// runBench measures everything and prints what was measured, even if it is stopped before the end.
func runBench(ctx context.Context, cfg benchConfig, stdout, stderr io.Writer) (err error) {
	bars := newProgress(stderr)
	end := bars.begin("starting PostgreSQL, NATS, a coordinator and the participants", 10*time.Second)
	s, err := startStand(ctx, cfg)
	end()
	defer bars.close()
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("stopped before anything was measured")
		}
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	stopProfile, err := startProfile(cfg.CPUProfile)
	if err != nil {
		return err
	}
	rows, measureErr := s.measureAll(ctx, cfg, bars)
	profileErr := stopProfile()
	bars.close()
	summaries := bench.Summarize(rows)
	if err := writeSummaries(stdout, cfg.Format, summaries); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil && len(rows) > 0:
		return withExit(exitPartial, errors.New("stopped; what was measured until then is shown"))
	case ctx.Err() != nil:
		return errors.New("stopped before anything was measured")
	case measureErr != nil:
		return measureErr
	}
	return errors.Join(profileErr, s.check(ctx), countErrors(summaries))
}

func writeSummaries(w io.Writer, format string, summaries []bench.Summary) error {
	switch format {
	case formatJSON:
		return bench.WriteJSON(w, summaries)
	case formatMarkdown:
		return bench.WriteMarkdown(w, summaries)
	}
	return bench.WriteTable(w, summaries)
}

func countErrors(summaries []bench.Summary) error {
	var n int64
	for i := range summaries {
		n += summaries[i].Errors
	}
	if n > 0 {
		return fmt.Errorf("%d transactions did not commit; the first reasons are above", n)
	}
	return nil
}

// startProfile starts a CPU profile, if there is to be one.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write the CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("start the CPU profile: %w", err), f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// measureAll measures all work with all numbers of clients, and then all again for every run: what changes on
// the machine meanwhile meets all of them.
func (s *stand) measureAll(ctx context.Context, cfg benchConfig, bars *progress) ([]bench.Row, error) {
	var rows []bench.Row
	for run := range cfg.Runs {
		for _, name := range cfg.Work {
			for _, clients := range cfg.Clients {
				label := fmt.Sprintf("%s, clients: %d, run %d of %d", name, clients, run+1, cfg.Runs)
				end := bars.begin(label, cfg.Warmup+cfg.Duration)
				row, err := s.measure(ctx, cfg, works[name], clients)
				end()
				if err != nil {
					return rows, fmt.Errorf("measure %s: %w", label, err)
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func (s *stand) measure(ctx context.Context, cfg benchConfig, w work, clients int) (bench.Row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	defer func() { cancel(nil); <-watched }()
	go func() {
		defer close(watched)
		select {
		case err := <-s.env.failed: // without it every client would wait until its time is over
			cancel(err)
		case <-ctx.Done():
		}
	}()
	do := s.overHTTP
	if cfg.InProcess {
		do = s.inProcess
	}
	var before, after bench.Counters
	var beforeErr, afterErr error
	load := bench.Load{Clients: clients, Warmup: cfg.Warmup, Duration: cfg.Duration, Do: func(ctx context.Context) error {
		return do(ctx, w.body(s.next.Add(1)))
	}}
	r, err := load.Run(ctx,
		func() {
			runtime.GC()
			before, beforeErr = s.meter.Read(ctx)
		},
		func() { after, afterErr = s.meter.Read(ctx) })
	if err := errors.Join(context.Cause(ctx), err, beforeErr, afterErr); err != nil {
		return bench.Row{}, err
	}
	if r.FirstError != nil {
		cfg.Log.Error("transactions did not commit", "work", w.name, "clients", clients, "errors", r.Errors, "first", r.FirstError)
	}
	return bench.NewRow(w.name, clients, r, after.Sub(before)), nil
}
