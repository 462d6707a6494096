package bus_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

// A queue that runs empty after each message goes on in one block file: without an anchor the server makes a new file for
// each. Those who consume do not see anchors, and the server removes them.
func TestAnchorsKeepTheBlockOfAnEmptyQueue(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := s.connect(bus.Config{})
	received := make(chan string)
	consuming, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, c := range []bus.Consumer{ // one that names its subjects, and one that takes all
		{Stream: bus.Commands, Durable: "accounts", FilterSubjects: []string{"saga.cmd.accounts"}},
		{Stream: bus.Replies, Durable: "coordinator"},
	} {
		go func() {
			ended <- b.Consume(consuming, c, func(d *bus.Delivery) {
				if err := d.AckSync(t.Context()); err != nil {
					t.Error(err)
				}
				received <- d.Subject
			})
		}()
	}
	for i := range 50 {
		for _, subject := range []string{"saga.cmd.accounts", "saga.reply.accounts.0"} {
			m := bus.Message{Subject: subject, Header: map[string][]string{"Nats-Msg-Id": {fmt.Sprint(subject, i)}}}
			for _, err := range publish(t, b, m) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := receive(t, received); got != subject {
				t.Fatalf("received %s, want %s", got, subject)
			}
		}
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if made := s.blocksMade(t, "SAGA_CMD"); made > 10 {
		t.Errorf("50 messages that came one by one took %d block files", made)
	}
	_, js := s.jetStream()
	stream, err := js.Stream(t.Context(), "SAGA_CMD")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.Messages(t.Context(), bus.Commands); n != 0 || err != nil {
		t.Errorf("%d messages beside the anchors, %v", n, err)
	}
	for deadline := time.After(patience); stream.CachedInfo().State.Msgs > 0; {
		select {
		case <-deadline:
			t.Fatalf("%d anchors are still there", stream.CachedInfo().State.Msgs)
		case <-time.After(50 * time.Millisecond):
		}
		if _, err := stream.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What only looks like an anchor is handed over: a body is somebody's, and submissions have no anchors (C5).
func TestNoMessageIsTakenForAnAnchor(t *testing.T) {
	t.Parallel()
	b := startServer(t).connect(bus.Config{})
	received := make(chan string)
	consuming, stop := context.WithCancel(t.Context())
	var ended []chan error
	for _, s := range []bus.Stream{bus.Replies, bus.Submissions} {
		end := make(chan error)
		ended = append(ended, end)
		go func() {
			end <- b.Consume(consuming, bus.Consumer{Stream: s, Durable: "all"}, func(d *bus.Delivery) {
				_ = d.Ack()
				received <- d.Subject
			})
		}()
	}
	for _, m := range []bus.Message{{Subject: "saga.submit._"}, {Subject: "saga.reply.a._", Data: []byte("body")}} {
		if _, err := b.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, received); got != m.Subject {
			t.Errorf("received %s, want %s", got, m.Subject)
		}
	}
	stop()
	for _, end := range ended {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
}

// Messages counts what is there, and no anchors.
func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	b := startServer(t).connect(bus.Config{})
	for _, err := range publish(t, b, command("a", "1"), command("b", "2"), command("b", "3")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := b.Messages(t.Context(), bus.Commands); n != 3 || err != nil {
		t.Errorf("%d messages, %v; want 3", n, err)
	}
}

// blocksMade returns how many block files a stream has had.
func (s *natsServer) blocksMade(t *testing.T, stream string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no block files of %s in %s, %v", stream, s.dir, err)
	}
	last := 0
	for _, f := range files {
		n := 0
		if _, err := fmt.Sscanf(strings.TrimSuffix(filepath.Base(f), ".blk"), "%d", &n); err != nil {
			t.Fatal(err)
		}
		last = max(last, n)
	}
	return last
}
