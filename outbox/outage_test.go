package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
)

// The tests of this file stop the package's NATS server, so they are not parallel.

func TestNATSIsStoppedAndWiped(t *testing.T) {
	pool, nats := testdb.New(t, schema), testdb.Cluster(t).NATS
	prefix := testdb.Prefix(t)
	b, err := bus.New(testdb.NATS(t), bus.Config{Prefix: prefix, Logger: quiet, PublishTimeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, _ := run(t, outbox.Config{Pool: pool, Publisher: b, Grace: 10 * time.Millisecond, HandOffMax: 100})
	send := func(n int) {
		t.Helper()
		r.HandOff(insert(t, pool, numbered(prefix+".submit.t", n)...)...)
	}
	send(50)
	awaitEmpty(t, pool)

	nats.Stop()
	for range 20 { // more than memory holds
		send(50)
	}
	if st := r.Stats(); st.InMemory > 100 {
		t.Errorf("%+v", st)
	}
	if n := rowCount(t, pool); n != 1000 {
		t.Errorf("%d rows, want 1000", n)
	}
	if err := nats.WipeStore(); err != nil {
		t.Fatal(err)
	}
	if err := nats.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, pool)
	got := make(chan string, 2000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, bus.Consumer{Stream: bus.Submissions, Durable: "c"}, func(d *bus.Delivery) {
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			got <- d.Header["Nats-Msg-Id"][0]
		})
	}()
	ids := map[string]bool{}
	for len(ids) < 1000 {
		ids[receive(t, got)] = true
	}
	cancel()
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}
