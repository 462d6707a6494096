package coordinatortest_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// reality starts a coordinator with PostgreSQL and NATS, whose participants are the fakes of c, and returns a client of it.
func reality(t *testing.T, c *coordinatortest.Coordinator, participants ...string) *client.Client {
	t.Helper()
	log, prefix := slog.New(slog.DiscardHandler), testdb.Prefix(t)
	pool, nc := testdb.New(t, migrated), testdb.NATS(t)
	b, err := bus.New(nc, bus.Config{Prefix: prefix, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.EnsureStreams(within(t)); err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, Publisher: b, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := coordinator.New(coordinator.Config{Pool: pool, Bus: b, Relay: relay, Log: log, Lanes: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		running.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	run("relay", relay.Run)
	run("coordinator", engine.Run)
	for _, name := range participants {
		run("participant "+name, func(ctx context.Context) error { return consume(ctx, b, prefix, name, c) })
	}
	handler := api.New(api.Config{Coordinator: engine, Authenticate: api.Loopback(), Log: log})
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.StopWaiting()
		server.Close()
		cancel()
		running.Wait()
	})
	cl, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// consume brings the commands of NATS to a fake, and its replies back.
func consume(ctx context.Context, b *bus.Bus, prefix, name string, c *coordinatortest.Coordinator) error {
	return b.Consume(ctx, bus.Consumer{
		Stream: bus.Commands, Durable: name, FilterSubjects: []string{wire.CommandSubject(prefix, name)},
	}, func(d *bus.Delivery) {
		cmd, err := wire.DecodeCommand(d.Message)
		if err != nil {
			_ = d.Term("undecodable")
			return
		}
		coordinatortest.Serve(c, cmd, func(r *saga.Reply) {
			if r == nil {
				_ = d.Ack()
				return
			}
			m, err := wire.EncodeReply(*r, cmd.ReplyTo)
			if err != nil {
				_ = d.Term("unsendable")
				return
			}
			b.Publish(ctx, []bus.Message{m}, func(int, error) { _ = d.Ack() })
		})
	})
}
