package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/bench"
	"github.com/sagacity-tx/sagacity/bench/process"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// sagacity is our side: a coordinator process, and participants in this process.
type sagacity struct {
	client  *client.Client
	bodies  map[work]*saga.Definition
	http    *http.Transport
	closing []func()
	server  *process.Child
}

func (s *sagacity) name() string   { return sideSagacity }
func (s *sagacity) does(work) bool { return true }

// singly is our side with a participant that commits each operation by itself.
type singly struct {
	*sagacity
	bodies map[work]*saga.Definition
}

func (s *singly) name() string     { return sideSingly }
func (s *singly) does(w work) bool { return w != workNoop }
func (s *singly) stop() error      { return nil } // with the other side

func (s *singly) do(ctx context.Context, w work, n int64) error { return s.run(ctx, s.bodies[w], w, n) }

const (
	participantNoop   = "noop"
	participantBank   = "accounts"
	participantSingly = "accounts-singly"
	endWait           = time.Minute
)

// startSagacity starts the coordinator and the participants.
func startSagacity(ctx context.Context, st *stand) (_ *sagacity, err error) {
	s := &sagacity{bodies: definitions(participantBank)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	dsn, err := st.cluster.CreateDatabase(ctx, "sagacity")
	if err != nil {
		return nil, err
	}
	env := []string{"DATABASE_URL=" + dsn, "NATS_URL=" + st.cluster.NATSURL(), "SAGACITY_LOG_LEVEL=error"}
	if err := process.Run(ctx, st.coordinator, env, "migrate"); err != nil {
		return nil, err
	}
	address, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	if s.server, err = process.Start(st.coordinator, env, "serve", "--anonymous", "--listen", address, "--auto-pause", "0"); err != nil {
		return nil, err
	}
	if err := s.server.AwaitHTTP(ctx, "http://"+address+"/readyz"); err != nil {
		return nil, err
	}
	s.http = &http.Transport{MaxIdleConnsPerHost: st.clientsMax}
	s.client, err = client.New("http://"+address, client.Options{HTTPClient: &http.Client{Transport: s.http}, RetryTime: -1})
	if err != nil {
		return nil, err
	}
	return s, s.startParticipants(ctx, st)
}

func (s *sagacity) startParticipants(ctx context.Context, st *stand) error {
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Connect(ctx, bus.Config{URL: st.cluster.NATSURL(), Name: participantNoop, Prefix: bus.DefaultPrefix, Logger: log})
	if err != nil {
		return err
	}
	nc, err := nats.Connect(st.cluster.NATSURL(), nats.MaxReconnects(-1))
	if err != nil {
		b.Close()
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	var pools []*pgxpool.Pool
	s.closing = append(s.closing, func() {
		cancel()
		work.Wait()
		nc.Close()
		b.Close()
		for _, pool := range pools {
			pool.Close()
		}
	})
	work.Go(func() { _ = bench.RunNoop(running, b, participantNoop, log) })
	for name, groupMax := range map[string]int{participantBank: participant.GroupMaxMax, participantSingly: 0} {
		cfg, err := pgxpool.ParseConfig(st.accounts)
		if err != nil {
			return err
		}
		cfg.MaxConns = participantConns
		pool, err := pgxpool.NewWithConfig(running, cfg)
		if err != nil {
			return err
		}
		pools = append(pools, pool)
		p, err := accounts(ctx, participant.Config{Name: name, Pool: pool, NATS: nc, Logger: log, Concurrency: participantConns, GroupMax: groupMax})
		if err != nil {
			return err
		}
		work.Go(func() { _ = p.Run(running) })
	}
	return nil
}

// accounts is the participant that moves cents.
func accounts(ctx context.Context, c participant.Config) (*participant.Participant, error) {
	if err := participant.Migrate(ctx, c.Pool); err != nil {
		return nil, err
	}
	p, err := participant.New(c)
	if err != nil {
		return nil, err
	}
	participant.Handle(p, "move", participant.BatchSaga[move, participant.None]{Try: try(sqlMove), Cancel: settle(sqlMove, -1)})
	participant.Handle(p, "hold", participant.BatchTCC[move, participant.None]{
		Try: try(sqlHold), Confirm: settle(sqlUse, 1), Cancel: settle(sqlRelease, 1),
	})
	return p, nil
}

func try(sql string) participant.BatchTryFunc[move, participant.None] {
	return func(b *pgx.Batch, c participant.Call[move], _ *participant.None) error {
		if c.Input.Refuse {
			return participant.Refuse("no", errors.New("asked to refuse"))
		}
		b.Queue(sql, c.Input.Account, c.Input.Cents)
		return nil
	}
}

func settle(sql string, sign int64) participant.BatchSettleFunc[move, participant.None] {
	return func(b *pgx.Batch, c participant.Settle[move, participant.None]) error {
		b.Queue(sql, c.Input.Account, sign*c.Input.Cents)
		return nil
	}
}

func definitions(accounts string) map[work]*saga.Definition {
	bank := saga.Define("peers-bank").Saga("a", accounts, "move").Saga("b", accounts, "move").Saga("c", accounts, "move").MustBuild()
	return map[work]*saga.Definition{
		workNoop: saga.Define("peers-noop").Saga("a", participantNoop, "nothing").Saga("b", participantNoop, "nothing").
			Saga("c", participantNoop, "nothing").MustBuild(),
		workBank:    bank,
		workFailing: bank,
		workTCC: saga.Define("peers-tcc").TCC("a", accounts, "hold", saga.Root()).TCC("b", accounts, "hold", saga.Root()).
			TCC("c", accounts, "hold", saga.Root()).MustBuild(),
	}
}

func (s *sagacity) do(ctx context.Context, w work, n int64) error {
	return s.run(ctx, s.bodies[w], w, n)
}

func (s *sagacity) run(ctx context.Context, def *saga.Definition, w work, n int64) error {
	m := movesOf(w, n)
	inputs, err := json.Marshal(map[string]move{"a": m[0], "b": m[1], "c": m[2]})
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"definition":%s,"inputs":%s}`, def.JSON(), inputs)
	submitted, err := s.client.SubmitBytes(ctx, body, client.SubmitOptions{Wait: endWait, Minimal: true})
	if err != nil {
		return err
	}
	want := saga.StatusCommitted
	if w == workFailing {
		want = saga.StatusCancelled
	}
	if submitted.Transaction == nil || submitted.Transaction.Status != want {
		return wrongEnd(w, n, string(submitted.Answer))
	}
	return nil
}

func (s *sagacity) stop() error {
	for _, f := range s.closing {
		f()
	}
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}
