package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/demo"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/sabotage"
	"github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/participant"
)

// devEnv is everything that dev runs, in one process but for PostgreSQL.
type devEnv struct {
	cluster *devcluster.Cluster
	server  *server
	nc      *nats.Conn
	world   *demo.World
	failed  chan error // the first failure of something that runs

	undo []func() error // what stop does, last first
}

// startDev starts PostgreSQL and NATS, then the coordinator, then the banks. What was started is stopped again
// when something fails.
func startDev(ctx context.Context, cfg devConfig) (_ *devEnv, err error) {
	e := &devEnv{failed: make(chan error, 4)}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop())
		}
	}()
	e.cluster, err = devcluster.Start(ctx, devcluster.Config{Dir: cfg.Dir, Durable: !cfg.Ephemeral, NATSPort: cfg.NATSPort, Log: cfg.Log})
	if err != nil {
		return e, err
	}
	e.later(func() error { return e.cluster.Stop(context.WithoutCancel(ctx)) })
	if err := e.startServer(ctx, cfg); err != nil {
		return e, err
	}
	e.nc, err = nats.Connect(e.cluster.NATSURL(), nats.Name("banks"), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	if err != nil {
		return e, fmt.Errorf("connect the banks to NATS: %w", err)
	}
	e.later(func() error { e.nc.Close(); return nil })
	c, err := client.New(e.server.url(), client.Options{})
	if err != nil {
		return e, err
	}
	e.world = &demo.World{Client: c, NATS: e.nc, Prefix: cfg.Prefix, Log: cfg.Log}
	if e.world.A, err = e.startBank(ctx, cfg, devBanks[0]); err != nil {
		return e, err
	}
	if e.world.B, err = e.startBank(ctx, cfg, devBanks[1]); err != nil {
		return e, err
	}
	if _, err := e.database(ctx, "service"); err != nil {
		return e, err
	}
	if err := e.world.Prepare(ctx); err != nil {
		return e, err
	}
	e.later(func() error { e.world.Close(); return nil })
	return e, nil
}

func (e *devEnv) later(f func() error) { e.undo = append(e.undo, f) }

// stop stops everything in the reverse order.
func (e *devEnv) stop() error {
	var errs []error
	for i := len(e.undo) - 1; i >= 0; i-- {
		errs = append(errs, e.undo[i]())
	}
	e.undo = nil
	return errors.Join(errs...)
}

// database makes a database unless it is there already, and returns its DSN.
func (e *devEnv) database(ctx context.Context, name string) (string, error) {
	pool, err := pgxpool.New(ctx, e.cluster.DSN("postgres"))
	if err != nil {
		return "", err
	}
	defer pool.Close()
	var exists bool
	err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
	if err != nil {
		return "", fmt.Errorf("look for database %s: %w", name, err)
	}
	if exists {
		return e.cluster.DSN(name), nil
	}
	return e.cluster.CreateDatabase(ctx, name)
}

func (e *devEnv) startServer(ctx context.Context, cfg devConfig) error {
	dsn, err := e.database(ctx, "coordinator")
	if err != nil {
		return err
	}
	if _, err := schema.Up(ctx, dsn); err != nil {
		return err
	}
	sc := cfg.serverConfig
	sc.DatabaseURL, sc.NATSURL, sc.Anonymous = dsn, e.cluster.NATSURL(), true
	if e.server, err = newServer(ctx, sc); err != nil {
		return err
	}
	e.run(ctx, "coordinator", e.server.run)
	return nil
}

// run runs something in the background until the environment stops; its failure ends dev.
func (e *devEnv) run(ctx context.Context, name string, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := f(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			select {
			case e.failed <- err:
			default:
			}
		}
		ended <- err
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	e.later(stop)
	return stop
}

// startBank starts a bank's participant on a database of its own.
func (e *devEnv) startBank(ctx context.Context, cfg devConfig, name string) (*demo.Bank, error) {
	dsn, err := e.database(ctx, devDatabase(name))
	if err != nil {
		return nil, err
	}
	pool, err := pg.Open(ctx, pg.Config{DSN: dsn, ApplicationName: "participant " + name, MaxConns: bankConnections})
	if err != nil {
		return nil, err
	}
	e.later(func() error { pool.Close(); return nil })
	var alter []func(string) (string, error)
	if cfg.Sabotage != "" {
		alter = append(alter, func(sql string) (string, error) { return sabotage.Barrier(sql, cfg.Sabotage) })
	}
	if err := bank.Migrate(ctx, pool, alter...); err != nil {
		return nil, err
	}
	b := &demo.Bank{Name: name, Pool: pool}
	b.Start = func() error {
		newParticipant := bank.NewParticipant
		if cfg.Group > 1 {
			newParticipant = bank.NewBatchParticipant
		}
		p, err := newParticipant(name, pool, e.nc, func(c *participant.Config) {
			c.Prefix, c.Logger, c.Concurrency, c.GroupMax = cfg.Prefix, cfg.Log, bankConnections-2, cfg.Group
		})
		if err != nil {
			return err
		}
		b.Stop = e.run(ctx, name, p.Run)
		return nil
	}
	if err := b.Start(); err != nil {
		return nil, err
	}
	return b, nil
}

// bankConnections are a bank's to PostgreSQL: its handlers', and two for who looks on.
const bankConnections = 12

func (e *devEnv) natsPort() string {
	u, err := url.Parse(e.cluster.NATSURL())
	if err != nil {
		return "?"
	}
	return u.Port()
}
