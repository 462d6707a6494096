package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/health"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/sabotage"
	"github.com/sagacity-tx/sagacity/participant"
)

const reconnectWait = 250 * time.Millisecond

// bankConfig is what the flags of "participant bank" say.
type bankConfig struct {
	Name        string
	DatabaseURL string
	NATSURL     string
	Prefix      string
	Connections int32
	GroupMax    int
	Accounts    []string
	Cents       int64
	Drain       time.Duration
	Timeout     time.Duration // of a handler
	Sabotage    string
	Health      string // address to answer health checks on; "": none
	Log         *slog.Logger
}

func newBank() *cobra.Command {
	var c bankConfig
	cmd := &cobra.Command{
		Use: "bank", Short: "Run a bank of the demonstrations", Args: cobra.NoArgs,
		Long: "bank makes its tables and the barrier in the database, and answers to the commands for --name until SIGTERM\n" +
			"or SIGINT. Each bank has a database of its own; any number of processes may run one bank.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Log, err = logger(cmd); err != nil {
				return err
			}
			fromEnv(&c.Name, "SAGACITY_PARTICIPANT", "")
			fromEnv(&c.DatabaseURL, "DATABASE_URL", "")
			fromEnv(&c.NATSURL, "NATS_URL", nats.DefaultURL)
			switch {
			case c.Name == "":
				return usageError("no name; give --name or set SAGACITY_PARTICIPANT, for example bank-a")
			case c.DatabaseURL == "":
				return usageError("no database; give --database-url or set DATABASE_URL")
			}
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Name, "name", "", "name of the participant (SAGACITY_PARTICIPANT)")
	f.StringVar(&c.DatabaseURL, "database-url", "", "PostgreSQL of the bank (DATABASE_URL)")
	f.StringVar(&c.NATSURL, "nats-url", "", "NATS with JetStream (NATS_URL; default "+nats.DefaultURL+")")
	f.StringVar(&c.Prefix, "prefix", envOr("SAGACITY_PREFIX", "saga"), "prefix of NATS subjects and streams (SAGACITY_PREFIX)")
	f.Int32Var(&c.Connections, "connections", participant.DefaultConcurrency, "most connections to PostgreSQL, and handlers at a time")
	f.IntVar(&c.GroupMax, "group-max", 0, "commands that share one local transaction, with handlers that queue their statements; 0: each has its own")
	f.StringSliceVar(&c.Accounts, "account", nil, "make this account if it does not exist; may be repeated")
	f.Int64Var(&c.Cents, "balance-cents", 100_000, "of accounts that are made")
	f.DurationVar(&c.Drain, "drain-timeout", participant.DefaultDrainTimeout, "how long to finish what is in hand at the end")
	f.DurationVar(&c.Timeout, "handler-timeout", participant.DefaultHandlerTimeout, "how long a handler may take; a lease of an external effect is a second longer")
	f.StringVar(&c.Sabotage, "sabotage", "", "install the barrier without a safeguard, in a new database: tombstone, stored-reply or content-check")
	f.StringVar(&c.Health, "health-listen", envOr("SAGACITY_HEALTH_LISTEN", ""), "address that answers \"participant health\", for example 127.0.0.1:8090 (SAGACITY_HEALTH_LISTEN; default none)")
	return cmd
}

func (c bankConfig) run(ctx context.Context) error {
	listener, err := listenHealth(ctx, c.Health)
	if err != nil {
		return err
	}
	if listener != nil {
		defer func() { _ = listener.Close() }() // usually closed when what serves it has ended
	}
	pool, err := pg.Open(ctx, pg.Config{DSN: c.DatabaseURL, ApplicationName: "participant " + c.Name, MaxConns: c.Connections})
	if err != nil {
		return err
	}
	defer pool.Close()
	var alter []func(string) (string, error)
	if c.Sabotage != "" {
		c.Log.WarnContext(ctx, "the barrier is installed without a safeguard", "safeguard", c.Sabotage)
		alter = append(alter, func(sql string) (string, error) { return sabotage.Barrier(sql, c.Sabotage) })
	}
	if err := bank.Migrate(ctx, pool, alter...); err != nil {
		return err
	}
	if err := bank.Seed(ctx, pool, c.Cents, c.Accounts...); err != nil {
		return err
	}
	nc, err := connectNATS(c.NATSURL, "participant "+c.Name)
	if err != nil {
		return err
	}
	defer nc.Close()
	newParticipant := bank.NewParticipant
	if c.GroupMax > 1 {
		newParticipant = bank.NewBatchParticipant
	}
	p, err := newParticipant(c.Name, pool, nc, func(cfg *participant.Config) {
		cfg.Prefix, cfg.Logger, cfg.DrainTimeout = c.Prefix, c.Log, c.Drain
		cfg.Concurrency, cfg.GroupMax, cfg.HandlerTimeout = int(c.Connections), c.GroupMax, c.Timeout
	})
	if err != nil {
		return err
	}
	if listener == nil {
		return p.Run(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return health.Serve(ctx, listener, func(ctx context.Context) error { return ready(ctx, pool, nc) })
	})
	group.Go(func() error { return p.Run(ctx) })
	return group.Wait()
}

// connectNATS keeps trying in the background when the server cannot be reached yet.
func connectNATS(address, name string) (*nats.Conn, error) {
	nc, err := nats.Connect(address,
		nats.Name(name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait), nats.ReconnectBufSize(-1))
	var invalid *url.Error
	switch {
	case errors.As(err, &invalid): // it repeats the URL, with its password
		return nil, usageError("the NATS URL is not valid; use nats://host:port, %s by default", nats.DefaultURL)
	case err != nil:
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}
