package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/demo"
	"github.com/sagacity-tx/sagacity/internal/pg"
)

// clusterDemo is what the flags of demo say.
type clusterDemo struct {
	remote
	natsURL string
	prefix  string
	bankA   string // URLs of the banks' databases
	bankB   string
	kill    bool
}

func newDemo() *cobra.Command {
	var c clusterDemo
	cmd := &cobra.Command{
		Use: "demo", Short: "Run the scenarios of the demonstration on a cluster that runs", Args: cobra.NoArgs,
		Long: "demo runs the scenarios of \"coordinator dev\" on a cluster that runs: coordinators, and the two banks, as\n" +
			"\"participant bank\" runs them. It needs the banks' databases, because it looks at the money there, and NATS,\n" +
			"because it also plays the part of a coordinator. It ends with 0 only if all came out as expected.\n\n" +
			"It cannot stop other processes. It prints \"ask: stop bank-b\" (or start, or kill) on standard error and waits\n" +
			"until someone, or a script, has done so and answers with an empty line or \"done\"; anything else is an error.",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.format = formatTable
	f := cmd.Flags()
	f.StringVar(&c.server, "server", "", "URL of the coordinators (SAGACITY_SERVER; default "+defaultServer+")")
	f.StringVar(&c.natsURL, "nats-url", "", "NATS of the cluster (NATS_URL; default nats://127.0.0.1:4222)")
	f.StringVar(&c.prefix, "prefix", envOr("SAGACITY_PREFIX", bus.DefaultPrefix), "prefix of NATS subjects and streams (SAGACITY_PREFIX)")
	f.StringVar(&c.bankA, "bank-a-url", "", "PostgreSQL of bank-a (SAGACITY_BANK_A_URL)")
	f.StringVar(&c.bankB, "bank-b-url", "", "PostgreSQL of bank-b (SAGACITY_BANK_B_URL)")
	f.BoolVar(&c.kill, "kill", false, "ask for coordinator-1 and bank-b to be killed while transfers are under way")
	formats := []string{formatTable, formatJSON}
	f.VarP(choice{&c.format, formats}, "output", "o", "how to print the results: "+strings.Join(formats, ", "))
	return cmd
}

func (c *clusterDemo) run(cmd *cobra.Command) error {
	fromEnv(&c.natsURL, "NATS_URL", nats.DefaultURL)
	fromEnv(&c.bankA, "SAGACITY_BANK_A_URL", "")
	fromEnv(&c.bankB, "SAGACITY_BANK_B_URL", "")
	if c.bankA == "" || c.bankB == "" {
		return usageError("the databases of the banks are missing; give --bank-a-url and --bank-b-url, or set SAGACITY_BANK_A_URL and SAGACITY_BANK_B_URL")
	}
	if err := c.connect(0); err != nil {
		return err
	}
	w, end, err := c.world(cmd)
	if err != nil {
		return err
	}
	defer end()
	results := runScenarios(cmd.Context(), w, c.format == formatJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err := cmd.Context().Err(); err != nil {
		return fmt.Errorf("stopped before the scenarios had ended: %w", err)
	}
	return verdict(results, demo.Count(w))
}

// world connects to everything that the scenarios need; end is for the end.
func (c *clusterDemo) world(cmd *cobra.Command) (_ *demo.World, _ func(), err error) {
	var undo []func()
	end := func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	w := &demo.World{Client: c.client, Prefix: c.prefix}
	if w.Log, err = logger(cmd, cmd.ErrOrStderr()); err != nil {
		return nil, nil, err
	}
	asker := newAsker(cmd.InOrStdin(), cmd.ErrOrStderr())
	for _, b := range []struct {
		name, url string
		bank      **demo.Bank
	}{{"bank-a", c.bankA, &w.A}, {"bank-b", c.bankB, &w.B}} {
		pool, err := pg.Open(cmd.Context(), pg.Config{DSN: b.url, ApplicationName: "coordinator demo", MaxConns: demoConnections})
		if err != nil {
			return nil, nil, fmt.Errorf("%w; check --%s-url", err, b.name)
		}
		undo = append(undo, pool.Close)
		if _, err := bank.Total(cmd.Context(), pool); err != nil {
			return nil, nil, fmt.Errorf("%w; %s makes its tables when it starts: is it running?", err, b.name)
		}
		*b.bank = &demo.Bank{
			Name: b.name, Pool: pool,
			Start: func() error { return asker.ask(cmd.Context(), "start "+b.name) },
			Stop:  func() error { return asker.ask(cmd.Context(), "stop "+b.name) },
		}
	}
	if c.kill {
		w.Crash = &demo.Crash{
			Kill:             func() error { return asker.ask(cmd.Context(), "kill coordinator-1 bank-b") },
			StartBank:        w.B.Start,
			StartCoordinator: func() error { return asker.ask(cmd.Context(), "start coordinator-1") },
		}
	}
	nc, err := nats.Connect(c.natsURL, nats.Name("coordinator demo"), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	var invalid *url.Error
	switch {
	case errors.As(err, &invalid): // it repeats the URL, with its password
		return nil, nil, usageError("the NATS URL is not valid; use nats://host:port (NATS_URL)")
	case err != nil:
		return nil, nil, fmt.Errorf("connect to NATS: %w; check --nats-url (NATS_URL)", err)
	}
	undo = append(undo, nc.Close)
	w.NATS = nc
	if err := w.Prepare(cmd.Context()); err != nil {
		return nil, nil, err
	}
	undo = append(undo, w.Close)
	return w, end, nil
}

const demoConnections = 4

// asker asks whoever sits in front of it, or a script, to do what the program cannot do.
type asker struct {
	out     io.Writer
	answers chan string // closed when nobody answers any more
}

func newAsker(in io.Reader, out io.Writer) *asker {
	a := &asker{out: out, answers: make(chan string)}
	go func() { // ends with the process, or with the input
		defer close(a.answers)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			a.answers <- strings.TrimSpace(lines.Text())
		}
	}()
	return a
}

// ask waits until it was done.
func (a *asker) ask(ctx context.Context, what string) error {
	fmt.Fprintf(a.out, "ask: %s (then press Enter)\n", what)
	select {
	case answer, ok := <-a.answers:
		switch {
		case !ok:
			return fmt.Errorf("nobody was there to %s: standard input has ended", what)
		case answer != "" && answer != "done":
			return fmt.Errorf("asked to %s: %s", what, answer)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
