package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/bench"
	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
	"github.com/sagacity-tx/sagacity/saga"
)

// stand is everything that bench measures with, in one process but for PostgreSQL.
type stand struct {
	env    *devEnv
	banks  []*pgxpool.Pool
	meter  *bench.Meter
	client *client.Client
	http   *http.Transport
	seeded int64        // cents in all banks
	next   atomic.Int64 // number of the next transaction
}

const benchPrefix = "bench"

// startStand starts it all. What was started is stopped again when something fails.
func startStand(ctx context.Context, cfg benchConfig) (_ *stand, err error) {
	s := &stand{env: &devEnv{failed: make(chan error, 8)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	e := s.env
	e.cluster, err = devcluster.Start(ctx, devcluster.Config{Durable: true, Log: cfg.Log})
	if err != nil {
		return s, err
	}
	e.later(func() error { return e.cluster.Stop(context.WithoutCancel(ctx)) })
	dev := devConfig{serverConfig: serverConfig{
		Prefix: benchPrefix, Listen: "127.0.0.1:0", Connections: cfg.Connections, Lanes: cfg.Lanes, Log: cfg.Log,
	}, Group: cfg.Group}
	if err := e.startServer(ctx, dev); err != nil {
		return s, err
	}
	s.http = &http.Transport{MaxIdleConnsPerHost: slices.Max(cfg.Clients)}
	e.later(func() error { s.http.CloseIdleConnections(); return nil })
	// No repetitions: what was refused is to be seen as an error.
	s.client, err = client.New(e.server.url(), client.Options{HTTPClient: &http.Client{Transport: s.http}, RetryTime: -1})
	if err != nil {
		return s, err
	}
	if err := s.startNoop(ctx, cfg); err != nil {
		return s, err
	}
	if err := s.startBanks(ctx, dev); err != nil {
		return s, err
	}
	if err := s.startMeter(ctx); err != nil {
		return s, err
	}
	return s, nil
}

func (s *stand) stop() error { return s.env.stop() }

// startMeter reads PostgreSQL's counters on a connection of its own.
func (s *stand) startMeter(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, s.env.cluster.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("open a connection for the counters: %w", err)
	}
	s.env.later(func() error { pool.Close(); return nil })
	s.meter = bench.NewMeter(ctx, pool)
	return nil
}

func (s *stand) startNoop(ctx context.Context, cfg benchConfig) error {
	b, err := bus.Connect(ctx, bus.Config{URL: s.env.cluster.NATSURL(), Name: "noop", Prefix: benchPrefix, Logger: cfg.Log})
	if err != nil {
		return err
	}
	s.env.later(func() error { b.Close(); return nil })
	s.env.run(ctx, "noop", func(ctx context.Context) error {
		if err := bench.RunNoop(ctx, b, "noop", cfg.Log); ctx.Err() == nil {
			return err
		}
		return nil
	})
	return nil
}

func (s *stand) startBanks(ctx context.Context, dev devConfig) (err error) {
	e := s.env
	e.nc, err = nats.Connect(e.cluster.NATSURL(), nats.Name("banks"), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect the banks to NATS: %w", err)
	}
	e.later(func() error { e.nc.Close(); return nil })
	for _, name := range bankNames {
		b, err := e.startBank(ctx, dev, name)
		if err != nil {
			return err
		}
		s.banks = append(s.banks, b.Pool)
		if err := bank.Seed(ctx, b.Pool, benchBalanceCents, benchAccounts()...); err != nil {
			return err
		}
	}
	s.seeded, err = s.total(ctx)
	return err
}

func (s *stand) total(ctx context.Context) (cents int64, err error) {
	for _, pool := range s.banks {
		n, err := bank.Total(ctx, pool)
		if err != nil {
			return 0, err
		}
		cents += n
	}
	return cents, nil
}

// check makes sure that the money is all there and that nothing happened twice.
func (s *stand) check(ctx context.Context) error {
	total, err := s.total(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if total != s.seeded {
		errs = append(errs, fmt.Errorf("the banks have %d cents and had %d: this must never happen", total, s.seeded))
	}
	for i, pool := range s.banks {
		held, err := bank.HeldTotal(ctx, pool)
		if err == nil && held != 0 {
			err = fmt.Errorf("%s still holds %d cents", bankNames[i], held)
		}
		repeated, repeatedErr := bank.Repeated(ctx, pool)
		if len(repeated) > 0 {
			repeatedErr = fmt.Errorf("%s: %d operations had an effect more than once: this must never happen", bankNames[i], len(repeated))
		}
		errs = append(errs, err, repeatedErr)
	}
	return errors.Join(errs...)
}

// endTimeout is how long a client waits for the end of its transaction.
const endTimeout = time.Minute

// overHTTP runs a transaction through the API: submission and end are one request.
func (s *stand) overHTTP(ctx context.Context, body []byte) error {
	submitted, err := s.client.SubmitBytes(ctx, body, client.SubmitOptions{Wait: endTimeout, Minimal: true})
	if err != nil {
		return err
	}
	if submitted.Transaction == nil {
		return fmt.Errorf("transaction %s: the coordinator did not wait for its end", submitted.ID)
	}
	return committed(submitted.ID, submitted.Transaction.Status)
}

// inProcess runs a transaction through the engine.
func (s *stand) inProcess(ctx context.Context, body []byte) error {
	waitCtx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	submitted, view, err := s.env.server.coordinator.SubmitAndWait(ctx, waitCtx, coordinator.SubmitParams{
		Caller: coordinator.Caller{Tenant: "default", Client: "bench"}, RequestID: uuid.NewString(), Body: body,
	})
	if err != nil {
		return err
	}
	return committed(submitted.ID, view.Status)
}

func committed(id saga.ID, status saga.Status) error {
	if status != saga.StatusCommitted {
		return fmt.Errorf("transaction %s is %s", id, status)
	}
	return nil
}
