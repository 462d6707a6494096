package participant_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

type Debit struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

type Hold struct {
	LeftCents int64 `json:"left_cents"`
}

func hold(ctx context.Context, tx pgx.Tx, c participant.Call[Debit]) (h Hold, err error) {
	err = tx.QueryRow(ctx, `UPDATE accounts SET balance = balance - $2, held = held + $2
		WHERE id = $1 AND balance >= $2 RETURNING balance`, c.Input.Account, c.Input.Cents).Scan(&h.LeftCents)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, participant.Refuse("insufficient_funds", nil)
	}
	return h, err
}

func use(ctx context.Context, tx pgx.Tx, c participant.Settle[Debit, Hold]) error {
	_, err := tx.Exec(ctx, `UPDATE accounts SET held = held - $2 WHERE id = $1`, c.Input.Account, c.Input.Cents)
	return err
}

func release(ctx context.Context, tx pgx.Tx, c participant.Settle[Debit, Hold]) error {
	_, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance + $2, held = held - $2 WHERE id = $1`, c.Input.Account, c.Input.Cents)
	return err
}

// serve is all that a service needs to join transactions: its accounts can be debited in two phases.
func serve(ctx context.Context, pool *pgxpool.Pool, nc *nats.Conn) error {
	if err := participant.Migrate(ctx, pool); err != nil {
		return err
	}
	p, err := participant.New(participant.Config{Name: "accounts", Pool: pool, NATS: nc})
	if err != nil {
		return err
	}
	participant.Handle(p, "debit", participant.TCC[Debit, Hold]{Try: hold, Confirm: use, Cancel: release})
	return p.Run(ctx) // until ctx ends
}

func Example() {
	join := func(ctx context.Context, databaseURL, natsURL string) error {
		pool, err := pgxpool.New(ctx, databaseURL)
		if err != nil {
			return err
		}
		defer pool.Close()
		nc, err := nats.Connect(natsURL, nats.MaxReconnects(-1))
		if err != nil {
			return err
		}
		defer nc.Close()
		return serve(ctx, pool, nc)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := join(ctx, "postgres://localhost/accounts", "nats://localhost:4222")
	stop()
	if err != nil {
		slog.Error("accounts ended", "error", err)
	}
}

func TestExample(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.pool = testdb.New(t, testdb.Template{})
	if _, err := k.pool.Exec(t.Context(), `CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL, held bigint NOT NULL);
		INSERT INTO accounts VALUES ('alice', 100, 0)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, k.pool, k.nc) }()
	defer func() {
		cancel()
		if err := wait(t, "the end of the service", ended); err != nil {
			t.Error(err)
		}
	}()
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, Debit{Account: "alice", Cents: 60})
	try.Participant = "accounts"
	m, err := wire.EncodeCommand("saga", withReplyTo(try, "saga.reply.accounts.0"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(k.nc, bus.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.sendRaw(m)
	reading, stop := context.WithCancel(t.Context())
	if err := b.Consume(reading, bus.Consumer{Stream: bus.Replies, Durable: "coordinator"}, func(d *bus.Delivery) {
		k.receive(d)
		stop()
	}); err != nil {
		t.Fatal(err)
	}
	if r := k.reply(try); r.Outcome != saga.OutcomeDone || string(r.Result.Data) != `{"left_cents":40}` {
		t.Errorf("%+v", r)
	}
}

func withReplyTo(c saga.Command, subject string) saga.Command {
	c.ReplyTo = subject
	return c
}
