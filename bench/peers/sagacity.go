package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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
	label   string
	client  *client.Client
	bodies  map[work]*saga.Definition
	http    *http.Transport
	closing []func()
	server  *process.Child
}

func (s *sagacity) name() string   { return s.label }
func (s *sagacity) does(work) bool { return true }

const (
	participantNoop = "noop"
	participantBank = "accounts"
	endWait         = time.Minute
)

// startSagacity starts the coordinator and the participants.
func startSagacity(ctx context.Context, st *stand) (_ *sagacity, err error) {
	s := &sagacity{label: sideSagacity, bodies: definitions()}
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
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{}, 2)
	go func() { _ = bench.RunNoop(ctx, b, participantNoop, log); ended <- struct{}{} }()
	cfg, err := pgxpool.ParseConfig(st.accounts)
	if err != nil {
		cancel()
		return err
	}
	cfg.MaxConns = participantConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		cancel()
		return err
	}
	nc, err := nats.Connect(st.cluster.NATSURL(), nats.MaxReconnects(-1))
	if err != nil {
		cancel()
		return err
	}
	s.closing = append(s.closing, func() {
		cancel()
		<-ended
		<-ended
		nc.Close()
		pool.Close()
		b.Close()
	})
	p, err := accounts(ctx, pool, nc, log)
	if err != nil {
		return err
	}
	go func() { _ = p.Run(ctx); ended <- struct{}{} }()
	return nil
}

// accounts is the participant that moves cents.
func accounts(ctx context.Context, pool *pgxpool.Pool, nc *nats.Conn, log *slog.Logger) (*participant.Participant, error) {
	if err := participant.Migrate(ctx, pool); err != nil {
		return nil, err
	}
	p, err := participant.New(participant.Config{Name: participantBank, Pool: pool, NATS: nc, Logger: log, Concurrency: participantConns})
	if err != nil {
		return nil, err
	}
	participant.Handle(p, "move", participant.Saga[move, participant.None]{Try: try(sqlMove), Cancel: settle(sqlMove, -1)})
	participant.Handle(p, "hold", participant.TCC[move, participant.None]{
		Try: try(sqlHold), Confirm: settle(sqlUse, 1), Cancel: settle(sqlRelease, 1),
	})
	return p, nil
}

func try(sql string) participant.TryFunc[move, participant.None] {
	return func(ctx context.Context, tx pgx.Tx, c participant.Call[move]) (participant.None, error) {
		if c.Input.Refuse {
			return participant.None{}, participant.Refuse("no", errors.New("asked to refuse"))
		}
		_, err := tx.Exec(ctx, sql, c.Input.Account, c.Input.Cents)
		return participant.None{}, err
	}
}

func settle(sql string, sign int64) participant.SettleFunc[move, participant.None] {
	return func(ctx context.Context, tx pgx.Tx, c participant.Settle[move, participant.None]) error {
		_, err := tx.Exec(ctx, sql, c.Input.Account, sign*c.Input.Cents)
		return err
	}
}

func definitions() map[work]*saga.Definition {
	bank := saga.Define("peers-bank").Saga("a", participantBank, "move").Saga("b", participantBank, "move").Saga("c", participantBank, "move").MustBuild()
	return map[work]*saga.Definition{
		workNoop: saga.Define("peers-noop").Saga("a", participantNoop, "nothing").Saga("b", participantNoop, "nothing").
			Saga("c", participantNoop, "nothing").MustBuild(),
		workBank:    bank,
		workFailing: bank,
		workTCC: saga.Define("peers-tcc").TCC("a", participantBank, "hold", saga.Root()).TCC("b", participantBank, "hold", saga.Root()).
			TCC("c", participantBank, "hold", saga.Root()).MustBuild(),
	}
}

func (s *sagacity) do(ctx context.Context, w work, n int64) error {
	m := movesOf(w, n)
	inputs, err := json.Marshal(map[string]move{"a": m[0], "b": m[1], "c": m[2]})
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"definition":%s,"inputs":%s}`, s.bodies[w].JSON(), inputs)
	submitted, err := s.client.SubmitBytes(ctx, body, client.SubmitOptions{Wait: endWait})
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
