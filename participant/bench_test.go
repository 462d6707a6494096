package participant_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// One operation: a command in the stream, a try that does nothing behind the barrier, its reply in the stream.
func BenchmarkParticipant(b *testing.B) {
	pool := testdb.New(b, testdb.Template{Name: "bench", Migrate: func(ctx context.Context, dsn string) error {
		pool, err := pgxpool.New(ctx, dsn)
		if err != nil {
			return err
		}
		defer pool.Close()
		return participant.Migrate(ctx, pool)
	}})
	nc, prefix := testdb.NATS(b), testdb.Prefix(b)
	bs, err := bus.New(nc, bus.Config{Prefix: prefix})
	if err != nil {
		b.Fatal(err)
	}
	defer bs.Close()
	if err := bs.EnsureStreams(b.Context()); err != nil {
		b.Fatal(err)
	}
	p, err := participant.New(participant.Config{Name: "bench", Pool: pool, NATS: nc, Prefix: prefix, Concurrency: 10})
	if err != nil {
		b.Fatal(err)
	}
	participant.Handle(p, "noop", participant.Pivot[participant.None, participant.None]{
		Try: func(context.Context, pgx.Tx, participant.Call[participant.None]) (n participant.None, err error) {
			return n, nil
		},
	})
	msgs := make([]bus.Message, b.N)
	for i := range msgs {
		cmd := withBody(saga.Command{
			Verb: saga.VerbExecute, Tenant: tenant, Transaction: newID(), Step: "s", Phase: saga.PhaseTry, Kind: saga.KindPivot,
			Participant: "bench", Action: "noop", Attempt: 1, Revision: 1, ReplyTo: wire.ReplySubject(prefix, "bench", 0),
		}, saga.TryBody(saga.Payload{}, nil))
		if msgs[i], err = wire.EncodeCommand(prefix, cmd); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended, done := make(chan error, 1), make(chan struct{})
	var n atomic.Int64
	b.ResetTimer()
	go func() { ended <- p.Run(ctx) }()
	go bs.Publish(ctx, msgs, func(int, error) {})
	go func() {
		_ = bs.Consume(ctx, bus.Consumer{Stream: bus.Replies, Durable: "bench"}, func(d *bus.Delivery) {
			_ = d.Ack()
			if n.Add(1) == int64(b.N) {
				close(done)
			}
		})
	}()
	<-done
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
