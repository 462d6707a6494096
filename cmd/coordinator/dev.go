package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/internal/demo"
	"github.com/sagacity-tx/sagacity/internal/sabotage"
)

// devConfig is what the flags of dev say.
type devConfig struct {
	serverConfig
	Dir       string
	NATSPort  int
	Ephemeral bool
	Exit      bool
	JSON      bool
	Sabotage  string
	Group     int    // of the banks, see participant.Config.GroupMax
	LogPath   string // "" with --ephemeral
}

func newDev() *cobra.Command {
	var cfg devConfig
	var output string
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a coordinator with all it needs, and show what it does", Args: cobra.NoArgs,
		Long: "dev runs a private PostgreSQL, NATS in this process, a coordinator, and the two banks of the demonstration.\n" +
			"It runs every scenario once, prints what was expected and what was got, and goes on until you stop it.\n" +
			"PostgreSQL must be installed; nothing else is needed. Other users of this machine cannot connect to it; you can,\n" +
			"with the addresses that it writes into a file and names when it is ready.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if output != "table" && output != "json" {
				return usageError("--output is %q; use table or json", output)
			}
			cfg.JSON = output == "json"
			if err := cfg.complete(cmd.Flags().Changed("listen")); err != nil {
				return err
			}
			closeLog, err := cfg.openLog(cmd)
			if err != nil {
				return err
			}
			defer closeLog()
			return runDev(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addServerFlags(cmd, &cfg.serverConfig)
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where the data is kept (default: sagacity-dev in your cache directory)")
	f.IntVar(&cfg.NATSPort, "nats-port", 4222, "port of NATS on 127.0.0.1")
	f.BoolVar(&cfg.Ephemeral, "ephemeral", false, "a temporary directory and free ports; nothing is kept")
	f.BoolVar(&cfg.Exit, "exit", false, "leave after the scenarios, with 0 only if all came out as expected")
	f.StringVar(&cfg.Sabotage, "sabotage", "", "switch a safeguard of the banks off: "+
		strings.Join([]string{sabotage.Tombstone, sabotage.StoredReply, sabotage.ContentCheck}, ", ")+" (implies --ephemeral)")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// complete checks what belongs together and fills in what was not given.
func (c *devConfig) complete(listenGiven bool) error {
	if c.Sabotage != "" {
		c.Ephemeral = true // a barrier without a safeguard must not stay in kept data
		if _, err := sabotage.Barrier("", c.Sabotage); strings.Contains(err.Error(), "no safeguard") {
			return usageError("--sabotage: %w", err)
		}
	}
	if c.Ephemeral {
		if c.Dir != "" {
			return usageError("--dir is given beside --ephemeral; give one of the two")
		}
		c.NATSPort = 0
		if !listenGiven {
			c.Listen = "127.0.0.1:0"
		}
		return nil
	}
	if c.Dir == "" {
		var err error
		if c.Dir, err = devDir(); err != nil {
			return usageError("no cache directory: %w; give --dir or --ephemeral", err)
		}
	}
	return nil
}

// openLog sends the log of everything in the process to a file beside the data. With --ephemeral nothing is kept,
// so it is shown if it was asked for, and only then.
func (c *devConfig) openLog(cmd *cobra.Command) (closeLog func(), err error) {
	if c.Ephemeral {
		c.Log = slog.New(slog.DiscardHandler)
		if cmd.Flags().Changed("log-level") {
			c.Log, err = logger(cmd, cmd.ErrOrStderr())
		}
		return func() {}, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for the data: %w; choose another with --dir", err)
	}
	c.LogPath = filepath.Join(c.Dir, "dev.log")
	file, err := os.OpenFile(c.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	c.Log, err = logger(cmd, file)
	return func() { _ = file.Close() }, err
}

func runDev(ctx context.Context, cfg devConfig, stdout, stderr io.Writer) (err error) {
	started := time.Now()
	env, err := startDev(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.stop()) }()
	if err := env.announce(stderr, cfg, time.Since(started)); err != nil {
		return err
	}
	results := runScenarios(ctx, env.world, cfg.JSON, stdout, stderr)
	if err := ctx.Err(); err != nil && cfg.Exit {
		return withExit(exitFailed, fmt.Errorf("stopped before the scenarios had ended: %w", err))
	}
	if cfg.Exit {
		return verdict(results, demo.Count(env.world))
	}
	if ctx.Err() != nil {
		return nil
	}
	fmt.Fprintln(stderr, "\nRunning until you press Ctrl-C.")
	select {
	case <-ctx.Done():
		return nil
	case err := <-env.failed:
		return err
	}
}

// runScenarios prints the results: a table as they come, or one JSON array at the end.
func runScenarios(ctx context.Context, w *demo.World, asJSON bool, stdout, stderr io.Writer) []demo.Result {
	table := newScenarioTable(stdout)
	each := table.row
	if asJSON {
		each = func(r demo.Result) { fmt.Fprintf(stderr, "%s: %s\n", r.Scenario, okText(r)) }
	} else {
		table.header()
	}
	results := demo.Run(ctx, w, each)
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(results); err != nil {
			w.Log.Error("cannot write the results", "error", err)
		}
	}
	return results
}

// verdict is nil only if every scenario ran and came out as expected.
func verdict(results []demo.Result, all int) error {
	wrong := 0
	for _, r := range results {
		if !r.OK() {
			wrong++
		}
	}
	if wrong > 0 || len(results) < all {
		return withExit(exitFailed, fmt.Errorf("%d of %d scenarios did not come out as expected", wrong+all-len(results), all))
	}
	return nil
}

func okText(r demo.Result) string {
	if r.OK() {
		return "ok"
	}
	return "WRONG"
}

// scenarioTable prints rows as they come, in columns wide enough for what is expected.
type scenarioTable struct{ w io.Writer }

func newScenarioTable(w io.Writer) scenarioTable { return scenarioTable{w: w} }

const scenarioFormat = "%-29s  %-8s  %-65s  %8s"

func (t scenarioTable) header() {
	fmt.Fprintf(t.w, scenarioFormat+"\n", "SCENARIO", "", "RESULT", "DURATION")
}

// row prints what was expected above what was got, so that a difference meets the eye.
func (t scenarioTable) row(r demo.Result) {
	duration := (time.Duration(r.Ms) * time.Millisecond).String()
	fmt.Fprintf(t.w, "%-29s  expected  %s\n", r.Scenario, r.Expected)
	fmt.Fprintf(t.w, scenarioFormat+"  %s\n", "", "got", r.Got, duration, okText(r))
}

// announce says where everything is and what to try.
func (e *devEnv) announce(w io.Writer, cfg devConfig, took time.Duration) error {
	file, err := e.writeAddresses()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Ready after %s.\n\n", took.Round(10*time.Millisecond))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"API", e.server.url() + "/v1/transactions   (description: " + e.server.url() + "/openapi.json)"},
		{"NATS", "127.0.0.1:" + e.natsPort()},
		{"PostgreSQL", "databases coordinator, bank_a, bank_b, and service for a service of yours; log " + e.cluster.Postgres.LogPath()},
		{"Banks", e.world.A.Name + " (account alice), " + e.world.B.Name + " (account bob)"},
		{"Data", cmp.Or(cfg.Dir, "not kept")},
		{"Log", cmp.Or(cfg.LogPath, "not kept (show it with --log-level info)")},
		{"Addresses", file + " (with passwords, for you only)"},
	} {
		fmt.Fprintf(t, "  %s\t%s\n", line[0], line[1])
	}
	_ = t.Flush()
	if cfg.Exit {
		fmt.Fprintln(w)
		return nil
	}
	fmt.Fprintf(w, "\nTry, in another terminal:\n\n  . %s\n"+
		"  go run ./cmd/coordinator tx list\n  go run ./cmd/coordinator dlq list\n"+
		"  go run ./cmd/coordinator tx start -f examples/transfer.json --wait\n  go run ./examples/hotel/cmd\n\n", file)
	return nil
}
