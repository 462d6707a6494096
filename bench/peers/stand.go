package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/bench"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

// Connections to PostgreSQL: more than two cores can use, on every side.
const (
	dtmConns         = 50
	participantConns = 16
)

// stand is what all sides share: PostgreSQL, NATS, and the participants' database.
type stand struct {
	coordinator, dtmProgram string
	dtmSource               string
	dir                     string
	clientsMax              int
	cluster                 *devcluster.Cluster
	accounts                string // DSN
	meter                   *bench.Meter
	pool                    *pgxpool.Pool
	sides                   []side
	next                    int64
}

func startStand(ctx context.Context, cfg config) (_ *stand, err error) {
	st := &stand{clientsMax: slices.Max(cfg.clients)}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.stop())
		}
	}()
	if st.coordinator, err = filepath.Abs(cfg.coordinator); err != nil {
		return nil, err
	}
	if st.dtmProgram, err = filepath.Abs(cfg.dtm); err != nil {
		return nil, err
	}
	if st.dtmSource, err = dtmDir(ctx); err != nil {
		return nil, err
	}
	if st.dir, err = os.MkdirTemp("", "bench-peers-"); err != nil {
		return nil, err
	}
	if st.cluster, err = devcluster.Start(ctx, devcluster.Config{Durable: true}); err != nil {
		return nil, err
	}
	if st.accounts, err = st.cluster.CreateDatabase(ctx, "accounts"); err != nil {
		return nil, err
	}
	if st.pool, err = pgxpool.New(ctx, st.accounts); err != nil {
		return nil, err
	}
	if _, err := st.pool.Exec(ctx, sqlAccounts); err != nil {
		return nil, err
	}
	st.meter = bench.NewMeter(ctx, st.pool)
	return st, st.startSides(ctx)
}

func (st *stand) startSides(ctx context.Context) error {
	ours, err := startSagacity(ctx, st)
	if err != nil {
		return err
	}
	st.sides = append(st.sides, ours, &singly{sagacity: ours, bodies: definitions(participantSingly)})
	for _, setting := range []int{1, 0} {
		d, err := startDTM(ctx, st, setting)
		if err != nil {
			return err
		}
		st.sides = append(st.sides, d)
	}
	d, err := startDBOS(ctx, st)
	if err != nil {
		return err
	}
	st.sides = append(st.sides, d)
	return nil
}

func (st *stand) stop() error {
	var errs []error
	for _, s := range st.sides {
		errs = append(errs, s.stop())
	}
	if st.pool != nil {
		st.pool.Close()
	}
	if st.cluster != nil {
		errs = append(errs, st.cluster.Stop(context.Background()))
	}
	if st.dir != "" {
		errs = append(errs, os.RemoveAll(st.dir))
	}
	return errors.Join(errs...)
}

// row is one measurement.
type row struct {
	side    string
	work    work
	clients int
	bench.Row
}

// measureAll measures side after side, and all again for every run.
func (st *stand) measureAll(ctx context.Context, cfg config) ([]row, error) {
	var rows []row
	for run := range cfg.runs {
		for _, w := range cfg.works {
			for _, clients := range cfg.clients {
				for _, s := range st.sides {
					if !s.does(w) {
						continue
					}
					r, err := st.measure(ctx, cfg, s, w, clients)
					if err != nil {
						return rows, err
					}
					fmt.Fprintf(os.Stderr, "run %d of %d  %-8s %4d clients  %-24s %7.0f/s  p50 %7.2f ms  p99 %8.2f ms  CPU %6.2f s/1000  %d errors\n",
						run+1, cfg.runs, w, clients, s.name(), r.PerSecond, r.P50Ms, r.P99Ms, r.CPUSeconds, r.Errors)
					rows = append(rows, row{side: s.name(), work: w, clients: clients, Row: r})
				}
			}
		}
	}
	return rows, nil
}

func (st *stand) measure(ctx context.Context, cfg config, s side, w work, clients int) (bench.Row, error) {
	var before, after bench.Counters
	var beforeErr, afterErr error
	numbers := make(chan int64, clients)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case numbers <- st.next:
				st.next++
			case <-done:
				return
			}
		}
	}()
	load := bench.Load{Clients: clients, Warmup: cfg.warmup, Duration: cfg.duration, Do: func(ctx context.Context) error {
		return s.do(ctx, w, <-numbers)
	}}
	started := time.Now()
	r, err := load.Run(ctx,
		func() { runtime.GC(); before, beforeErr = st.meter.Read(ctx) },
		func() { after, afterErr = st.meter.Read(ctx) })
	close(done)
	if err := errors.Join(err, beforeErr, afterErr); err != nil {
		return bench.Row{}, err
	}
	if r.Transactions == 0 {
		return bench.Row{}, fmt.Errorf("%s did no transaction of %s in %s: %w", s.name(), w, time.Since(started), r.FirstError)
	}
	if r.FirstError != nil {
		fmt.Fprintln(os.Stderr, "  first error:", r.FirstError)
	}
	return bench.NewRow(string(w), clients, r, after.Sub(before)), nil
}

// check makes sure that no cent was lost or made.
func (st *stand) check(ctx context.Context) error {
	var balance, held int64
	if err := st.pool.QueryRow(ctx, sqlTotals).Scan(&balance, &held); err != nil {
		return err
	}
	if balance != accountsMax*balanceCents || held != 0 {
		return fmt.Errorf("the accounts have %d cents and hold %d, want %d and 0: a side lost an effect or had one twice", balance, held, int64(accountsMax)*balanceCents)
	}
	return nil
}
