package containers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/testcontainers/testcontainers-go"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// retry is patient: a server may be away for a while, and nobody may give up before it is back.
var retry = []saga.StepOption{
	saga.AttemptTimeout(2 * time.Second), saga.Attempts(saga.AttemptsMax),
	saga.RetryBackoff(saga.StrategyExponential, 50*time.Millisecond, time.Second),
}

var transfer = saga.Define("transfer").TCC("take", "bank-a", bank.ActionDebit, retry...).
	Saga("give", "bank-b", bank.ActionDeposit, retry...).MustBuild()

func submission(amount int64) client.Submission {
	return client.Submission{Definition: transfer, Inputs: map[string]any{
		"take": bank.Move{Account: "alice", Cents: amount},
		"give": bank.Move{Account: "bob", Cents: amount},
	}}
}

func TestContainers(t *testing.T) {
	s := newStand(t)
	t.Run("transfers", s.testTransfers)
	t.Run("credentials", s.testCredentials)
	t.Run("NATS restarts", func(t *testing.T) { s.testRestart(t, s.nats) })
	t.Run("PostgreSQL restarts", func(t *testing.T) { s.testRestart(t, s.postgres) })
}

// finish waits for the end of a transaction.
func (s *stand) finish(t *testing.T, id saga.ID) saga.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tx, err := s.client.Wait(ctx, id)
	if err != nil {
		t.Fatalf("transaction %s: %v", id, err)
	}
	return tx.Status
}

// wantMoney checks what is there (I-12), and that no effect happened twice (I-3).
func (s *stand) wantMoney(t *testing.T, alice, bob int64) {
	t.Helper()
	a, errA := bank.Balance(t.Context(), s.a, "alice")
	b, errB := bank.Balance(t.Context(), s.b, "bob")
	held, errHeld := bank.HeldTotal(t.Context(), s.a)
	twiceA, errTwiceA := bank.Repeated(t.Context(), s.a)
	twiceB, errTwiceB := bank.Repeated(t.Context(), s.b)
	if err := errors.Join(errA, errB, errHeld, errTwiceA, errTwiceB); err != nil {
		t.Fatal(err)
	}
	if a != alice || b != bob || held != 0 {
		t.Errorf("alice has %d, bob %d, held %d; want %d, %d, 0", a, b, held, alice, bob)
	}
	if len(twiceA)+len(twiceB) > 0 {
		t.Errorf("effects twice: %q %q", twiceA, twiceB)
	}
}

// One transfer commits; one of more than alice has does not, and what the other step did is taken back.
func (s *stand) testTransfers(t *testing.T) {
	for _, c := range []struct {
		amount int64
		status saga.Status
	}{{1000, saga.StatusCommitted}, {1 << 50, saga.StatusCancelled}, {500, saga.StatusCommitted}} {
		submitted, err := s.client.Submit(t.Context(), submission(c.amount), client.SubmitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if status := s.finish(t, submitted.ID); status != c.status {
			t.Errorf("%d cents: %s, want %s", c.amount, status, c.status)
		}
	}
	s.wantMoney(t, cents-1500, cents+1500)
}

// Nobody gets in without what the configuration asks for.
func (s *stand) testCredentials(t *testing.T) {
	if nc, err := nats.Connect("nats://127.0.0.1:" + s.natsPort); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("NATS without a password: %v", err)
		nc.Close()
	}
	other := strings.Replace(s.dsn("bank_a"), "/bank_a?", "/coordinator?", 1)
	if conn, err := pgx.Connect(t.Context(), other); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("bank A on the coordinator's database: %v", err)
		if conn != nil {
			_ = conn.Close(t.Context())
		}
	}
	if conn, err := pgx.Connect(t.Context(), strings.Replace(s.dsn("bank_a"), password, "wrong", 1)); err == nil || !strings.Contains(err.Error(), "28P01") {
		t.Errorf("PostgreSQL with another password: %v", err)
		if conn != nil {
			_ = conn.Close(t.Context())
		}
	}
	stranger, err := client.New(s.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var p *client.Problem
	if _, err := stranger.Submit(t.Context(), submission(1), client.SubmitOptions{}); !errors.As(err, &p) || p.Status != 401 {
		t.Errorf("a submission without a token: %v", err)
	}
}

// While transfers come in, a server stops and starts again: all of them commit, each once.
func (s *stand) testRestart(t *testing.T, server testcontainers.Container) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	alice, errA := bank.Balance(ctx, s.a, "alice")
	bob, errB := bank.Balance(ctx, s.b, "bob")
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	ids, fed := make(chan saga.ID, 10_000), make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		defer close(ids)
		for {
			submitted, err := s.client.Submit(ctx, submission(1), client.SubmitOptions{})
			if err != nil {
				fed <- err
				return
			}
			ids <- submitted.ID
			select {
			case <-stop:
				fed <- nil
				return
			default:
			}
		}
	}()
	var all []saga.ID
	some := func() {
		t.Helper()
		for range 20 {
			id, ok := <-ids
			if !ok {
				t.Fatalf("the submissions ended: %v", <-fed)
			}
			all = append(all, id)
		}
	}
	some()
	grace := 20 * time.Second
	if err := server.Stop(ctx, &grace); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	some()
	close(stop)
	for id := range ids {
		all = append(all, id)
	}
	if err := <-fed; err != nil {
		t.Fatalf("a submission failed: %v", err)
	}
	for _, id := range all {
		if status := s.finish(t, id); status != saga.StatusCommitted {
			t.Errorf("transaction %s: %s", id, status)
		}
	}
	n := int64(len(all))
	t.Logf("%d transfers", n)
	s.wantMoney(t, alice-n, bob+n)
}
