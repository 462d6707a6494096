package bus_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

// A message can be followed until it is acknowledged, and removed; a stream says whether it has consumers.
func TestInspect(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := startServer(t).connect(bus.Config{})
	first, err := b.Send(ctx, bus.Message{Subject: "saga.cmd.a"})
	second, err2 := b.Send(ctx, bus.Message{Subject: "saga.cmd.b"})
	if err := errors.Join(err, err2); err != nil || second != first+1 {
		t.Fatalf("numbers %d and %d, %v", first, second, err)
	}
	holds := func(sequence uint64, want bool) {
		t.Helper()
		if is, err := b.Holds(ctx, bus.Commands, sequence); err != nil || is != want {
			t.Errorf("message %d is held: %t, %v; want %t", sequence, is, err, want)
		}
	}
	holds(first, true)
	if n, err := b.Consumers(ctx, bus.Commands); err != nil || n != 0 {
		t.Errorf("%d consumers, %v", n, err)
	}
	acknowledged := make(chan error, 1)
	consuming, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(consuming, bus.Consumer{Stream: bus.Commands, Durable: "a", FilterSubjects: []string{"saga.cmd.a"}},
			func(d *bus.Delivery) { acknowledged <- d.AckSync(ctx) })
	}()
	if err := <-acknowledged; err != nil {
		t.Fatal(err)
	}
	holds(first, false)
	holds(second, true)
	if n, err := b.Consumers(ctx, bus.Commands); err != nil || n != 1 {
		t.Errorf("%d consumers, %v", n, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := b.Purge(ctx, bus.Commands, "saga.cmd.*"); err != nil {
		t.Fatal(err)
	}
	holds(second, false)
	if _, err := b.Send(ctx, bus.Message{Subject: "elsewhere"}); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("no stream takes it, but: %v", err)
	}
}
