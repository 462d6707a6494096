package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

func TestPublishStoresEveryMessageOnce(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{PublishInFlightMax: 64})
	const n = 1000
	msgs := make([]bus.Message, n)
	for i := range msgs {
		msgs[i] = command("a", fmt.Sprint(i))
	}
	for range 2 { // the second time all are duplicates
		if err := errors.Join(publish(t, b, msgs...)...); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := b.Messages(t.Context(), bus.Commands); got != n || err != nil {
		t.Errorf("stored %d messages, %v; want %d", got, err, n)
	}
	if b.InFlight() != 0 {
		t.Errorf("%d in flight", b.InFlight())
	}
}

func TestFullQueueBlocksNoOther(t *testing.T) { // C12
	s := startServer(t)
	b := s.connect(bus.Config{Streams: bus.StreamSettings{PerSubjectMax: 2}})
	errs := publish(t, b, command("full", "1"), command("full", "2"), command("full", "3"), command("other", "4"))
	if errs[0] != nil || errs[1] != nil || errs[3] != nil {
		t.Errorf("messages that fit: %v", errs)
	}
	if !errors.Is(errs[2], bus.ErrFull) || bus.Permanent(errs[2]) {
		t.Errorf("message that does not fit: %v", errs[2])
	}
}

func TestMessagesThatCanNeverPass(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{Streams: bus.StreamSettings{MessageBytesMax: 1000}})
	if b.MessageBytesMax() != 1000 {
		t.Errorf("MessageBytesMax is %d", b.MessageBytesMax())
	}
	noTTL := command("a", "ttl")
	noTTL.Header["Nats-TTL"] = []string{"a while"}
	for name, c := range map[string]struct {
		msg  bus.Message
		want error
	}{
		"larger than the stream's limit": {bus.Message{Subject: "saga.cmd.a", Data: bytes.Repeat([]byte("x"), 2000)}, bus.ErrTooLarge},
		"larger than the server's limit": {bus.Message{Subject: "saga.cmd.a", Data: make([]byte, 2<<20)}, bus.ErrTooLarge},
		"subject":                        {bus.Message{Subject: "saga.cmd.a b"}, bus.ErrInvalid},
		"TTL":                            {noTTL, bus.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			err := publish(t, b, c.msg)[0]
			if !errors.Is(err, c.want) || !bus.Permanent(err) {
				t.Errorf("Publish: %v, want %v", err, c.want)
			}
		})
	}
}

func TestMissingStreamIsMadeAgain(t *testing.T) { // C8
	s := startServer(t)
	b := s.connect(bus.Config{})
	_, js := s.jetStream()
	if err := js.DeleteStream(t.Context(), "SAGA_CMD"); err != nil {
		t.Fatal(err)
	}
	if err := publish(t, b, command("a", "1"))[0]; !errors.Is(err, bus.ErrNoStream) {
		// The library tries again for half a second, so the stream may be back already.
		if err != nil {
			t.Fatalf("Publish: %v", err)
		}
	}
	publishUntilStored(t, b, command("a", "2"))
}

// A subject with a listener that never answers: the PubAck is lost.
func TestLostPubAck(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{Prefix: "p", PublishTimeout: 50 * time.Millisecond, PublishInFlightMax: 3})
	nc, _ := s.jetStream()
	if _, err := nc.Subscribe("void.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	void := bus.Message{Subject: "void.x"}
	for i, err := range publish(t, b, void, void, void, void, void, void, void) { // more than fit in flight
		if !errors.Is(err, bus.ErrTimeout) {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

func TestPublishEnds(t *testing.T) {
	s := startServer(t)
	nc, _ := s.jetStream()
	if _, err := nc.Subscribe("void.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	void := bus.Message{Subject: "void.x"}
	start := func(c bus.Config) (*bus.Bus, context.CancelFunc, chan error) {
		c.PublishTimeout, c.PublishInFlightMax = time.Hour, 2
		b := s.connectOnly(c)
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 4)
		go b.Publish(ctx, []bus.Message{void, void, void, void}, func(_ int, err error) { results <- err })
		return b, cancel, results
	}

	t.Run("with its context", func(t *testing.T) {
		b, cancel, results := start(bus.Config{})
		cancel()
		for range 2 { // those that did not fit
			if err := receive(t, results); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		b.Close() // ends the two in flight, unless the context came first
	})
	t.Run("with the bus", func(t *testing.T) {
		b, cancel, results := start(bus.Config{})
		defer cancel()
		b.Close()
		b.Close()
		for range 4 {
			if err := receive(t, results); !errors.Is(err, bus.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		if err := b.EnsureStreams(t.Context()); err == nil {
			t.Error("EnsureStreams after Close succeeded")
		}
	})
	t.Run("with the connection", func(t *testing.T) {
		b, cancel, results := start(bus.Config{})
		defer cancel()
		s.stop()
		for range 4 {
			if err := receive(t, results); !errors.Is(err, bus.ErrDisconnected) {
				t.Errorf("got %v", err)
			}
		}
		s.start()
		publishUntilStored(t, b, command("a", "1")) // the streams are made after the reconnect
	})
}

func TestUsersConnectionStaysOpen(t *testing.T) {
	s := startServer(t)
	nc, _ := s.jetStream()
	b, err := bus.New(nc, bus.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := publish(t, b, command("a", "1"))[0]; err != nil {
		t.Fatal(err)
	}
	b.Close()
	if nc.IsClosed() {
		t.Error("Close closed the user's connection")
	}
}
