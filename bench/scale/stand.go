package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/bench"
	"github.com/sagacity-tx/sagacity/bench/process"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
	"github.com/sagacity-tx/sagacity/saga"
)

const (
	participantNoop = "noop"
	steps           = 3
	endWait         = time.Minute // for which a client waits for the end of its transaction
)

var log = slog.New(slog.DiscardHandler) // what went wrong is in the figures

// definition is the work: what its participant does costs nothing, so that all is the coordinator's.
var definition = saga.Define("scale").Saga("first", participantNoop, "nothing").Saga("second", participantNoop, "nothing").
	Saga("third", participantNoop, "nothing").MustBuild()

// stand is what all measurements share: PostgreSQL and NATS.
type stand struct {
	cfg     config
	stderr  io.Writer
	program string
	dir     string
	cluster *devcluster.Cluster
	pool    *pgxpool.Pool
	meter   *bench.Meter
	sites   []*site
	next    atomic.Int64
	runs    []bench.Row
}

func startStand(ctx context.Context, cfg config, stderr io.Writer) (_ *stand, err error) {
	st := &stand{cfg: cfg, stderr: stderr}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.stop())
		}
	}()
	if st.program, err = filepath.Abs(cfg.coordinator); err != nil {
		return nil, err
	}
	if st.dir, err = os.MkdirTemp(cfg.dir, "bench-scale-"); err != nil {
		return nil, fmt.Errorf("make a directory for the data: %w; choose another with -dir", err)
	}
	st.say("starting PostgreSQL and NATS")
	if st.cluster, err = devcluster.Start(ctx, devcluster.Config{Dir: filepath.Join(st.dir, "data"), Durable: true}); err != nil {
		return nil, err
	}
	if st.pool, err = pgxpool.New(ctx, st.cluster.DSN("postgres")); err != nil {
		return nil, err
	}
	st.meter = bench.NewMeter(ctx, st.pool)
	return st, nil
}

func (st *stand) stop() error {
	var errs []error
	for _, s := range st.sites {
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

// say tells a person how far it is.
func (st *stand) say(format string, args ...any) { fmt.Fprintf(st.stderr, format+"\n", args...) }

// site is a database with its coordinators, and the participant that works for them.
type site struct {
	st    *stand
	name  string // of the database, and prefix in NATS
	env   []string
	pool  *pgxpool.Pool
	nodes []*node
	end   func() // of the participant
}

func (st *stand) newSite(ctx context.Context, name string) (*site, error) {
	dsn, err := st.cluster.CreateDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &site{st: st, name: name, env: []string{
		"DATABASE_URL=" + dsn, "NATS_URL=" + st.cluster.NATSURL(), "SAGACITY_PREFIX=" + name, "SAGACITY_LOG_LEVEL=error",
	}}
	if s.pool, err = pgxpool.New(ctx, dsn); err != nil {
		return nil, err
	}
	st.sites = append(st.sites, s)
	return s, process.Run(ctx, st.program, s.env, "migrate")
}

// stop stops the coordinators and the participant.
func (s *site) stop() error {
	err := s.stopNodes()
	if s.end != nil {
		s.end()
		s.end = nil
	}
	s.pool.Close()
	return err
}

// stopNodes stops the coordinators, side by side.
func (s *site) stopNodes() error {
	errs := make([]error, len(s.nodes))
	var stopping sync.WaitGroup
	for i, n := range s.nodes {
		stopping.Go(func() { errs[i] = n.stop() })
	}
	stopping.Wait()
	s.nodes = nil
	return errors.Join(errs...)
}

// startNodes starts so many coordinators, and the participant beside the first ones.
func (s *site) startNodes(ctx context.Context, count int) error {
	for range count {
		if err := s.startNode(ctx); err != nil {
			return err
		}
	}
	if s.end != nil {
		return nil
	}
	b, err := bus.Connect(ctx, bus.Config{URL: s.st.cluster.NATSURL(), Name: participantNoop, Prefix: s.name, Logger: log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = bench.RunNoop(ctx, b, participantNoop, log) }) // without it nothing commits, which is an error
	s.end = func() { cancel(); running.Wait(); b.Close() }
	return nil
}

// node is one coordinator.
type node struct {
	child  *process.Child
	http   *http.Transport
	client *client.Client
}

func (s *site) startNode(ctx context.Context) error {
	address, err := process.FreeAddress(ctx)
	if err != nil {
		return err
	}
	n := &node{http: &http.Transport{MaxIdleConnsPerHost: slices.Max(s.st.cfg.clients)}}
	// Loaded weeks are to stay, and what goes wrong is to be seen.
	n.child, err = process.Start(s.st.program, s.env, "serve", "--anonymous", "--listen", address, "--retention", "off", "--auto-pause", "0")
	if err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	if err := n.child.AwaitHTTP(ctx, "http://"+address+"/readyz"); err != nil {
		return err
	}
	n.client, err = client.New("http://"+address, client.Options{HTTPClient: &http.Client{Transport: n.http}, RetryTime: -1})
	return err
}

func (n *node) stop() error {
	n.http.CloseIdleConnections()
	return n.child.Stop()
}

// do runs one transaction to its end. An empty request id is replaced by a random one.
func (n *node) do(ctx context.Context, number int64, requestID string) error {
	body := fmt.Appendf(nil, `{"definition":%s,"input":{"order":%d}}`, definition.JSON(), number)
	submitted, err := n.client.SubmitBytes(ctx, body, client.SubmitOptions{RequestID: requestID, Wait: endWait, Minimal: true})
	if err != nil {
		return err
	}
	if submitted.Transaction == nil || submitted.Transaction.Status != saga.StatusCommitted {
		return fmt.Errorf("transaction %s has not committed: %s", submitted.ID, submitted.Answer)
	}
	return nil
}

// load measures clients that are spread over the coordinators.
func (s *site) load(ctx context.Context, label string, clients int) (bench.Row, error) {
	st := s.st
	var before, after bench.Counters
	var beforeErr, afterErr error
	load := bench.Load{Clients: clients, Warmup: st.cfg.warmup, Duration: st.cfg.duration, Do: func(ctx context.Context) error {
		number := st.next.Add(1)
		return s.nodes[number%int64(len(s.nodes))].do(ctx, number, "")
	}}
	r, err := load.Run(ctx,
		func() { runtime.GC(); before, beforeErr = st.meter.Read(ctx) },
		func() { after, afterErr = st.meter.Read(ctx) })
	if err := errors.Join(err, beforeErr, afterErr); err != nil {
		return bench.Row{}, err
	}
	if r.Transactions == 0 {
		return bench.Row{}, fmt.Errorf("%s: nothing committed in %s: %w", label, st.cfg.duration, r.FirstError)
	}
	row := bench.NewRow(label, clients, r, after.Sub(before))
	st.say("  %4d clients  %-26s %7.0f/s  p50 %7.2f ms  p99 %8.2f ms  WAL %6.0f bytes  %d errors",
		clients, label, row.PerSecond, row.P50Ms, row.P99Ms, row.WALBytesPer, row.Errors)
	if r.FirstError != nil {
		st.say("  first error: %s", r.FirstError)
	}
	st.runs = append(st.runs, row)
	return row, nil
}
