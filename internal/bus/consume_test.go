package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

// consume runs a consumer until the test ends and returns its deliveries.
func consume(t *testing.T, b *bus.Bus, c bus.Consumer) (deliveries <-chan *bus.Delivery, stop func() error) {
	t.Helper()
	ch := make(chan *bus.Delivery, 10_000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Consume(ctx, c, func(d *bus.Delivery) { ch <- d }) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return receive(t, ended)
	}
	t.Cleanup(func() {
		if !stopped {
			if err := stop(); err != nil {
				t.Errorf("Consume: %v", err)
			}
		}
	})
	return ch, stop
}

var accounts = bus.Consumer{
	Stream: bus.Commands, Durable: "accounts", FilterSubjects: []string{"saga.cmd.accounts"},
	DrainTimeout: 200 * time.Millisecond,
}

// receiveID takes deliveries until one has the id, acknowledging all.
func receiveID(t *testing.T, deliveries <-chan *bus.Delivery, id string) {
	t.Helper()
	for {
		d := receive(t, deliveries)
		if err := d.Ack(); err != nil && !errors.Is(err, bus.ErrDisconnected) {
			t.Fatal(err)
		}
		if string(d.Data) == id {
			return
		}
	}
}

func TestConsumeHandsEverythingOver(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{})
	deliveries, stop := consume(t, b, accounts)
	const n = 2000
	var msgs []bus.Message
	for i := range n {
		msgs = append(msgs, command("accounts", fmt.Sprint(i)))
	}
	if err := errors.Join(publish(t, b, msgs...)...); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d := receive(t, deliveries)
		if string(d.Data) != fmt.Sprint(i) || d.Subject != "saga.cmd.accounts" || d.Header["Nats-Msg-Id"][0] != fmt.Sprint(i) ||
			d.NumDelivered() != 1 || d.Sequence() == 0 || d.Stored().IsZero() {
			t.Fatalf("delivery %d: %+v", i, d.Message)
		}
		if err := d.AckSync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Messages(t.Context(), bus.Commands); got != 0 || err != nil {
		t.Errorf("%d messages left, %v", got, err)
	}
}

func TestUnsettledDeliveriesAreBounded(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{})
	c := accounts
	// The server delivers them again and again; the handler must not get them meanwhile.
	c.MaxAckPending, c.AckWait = 3, 100*time.Millisecond
	var msgs []bus.Message
	for i := range 10 {
		msgs = append(msgs, command("accounts", fmt.Sprint(i)))
	}
	if err := errors.Join(publish(t, b, msgs...)...); err != nil {
		t.Fatal(err)
	}
	deliveries, _ := consume(t, b, c)
	held := []*bus.Delivery{receive(t, deliveries), receive(t, deliveries), receive(t, deliveries)}
	timer := time.NewTimer(3 * c.AckWait)
	defer timer.Stop()
	select {
	case d := <-deliveries:
		t.Fatalf("a fourth is in hand: %s", d.Data)
	case <-timer.C:
	}
	seen := map[string]bool{}
	for _, d := range held {
		seen[string(d.Data)] = true
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	for len(seen) < 10 {
		d := receive(t, deliveries)
		seen[string(d.Data)] = true
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeliveriesAreSettledOnce(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{})
	c := accounts
	c.AckWait = 100 * time.Millisecond
	deliveries, _ := consume(t, b, c)
	publishUntilStored(t, b, command("accounts", "left"))
	first := receive(t, deliveries)
	first.Leave()
	again := receive(t, deliveries) // after AckWait
	if string(again.Data) != "left" || again.NumDelivered() != 2 {
		t.Errorf("delivery %d of %s", again.NumDelivered(), again.Data)
	}
	if err := again.Nak(); err != nil {
		t.Fatal(err)
	}
	third := receive(t, deliveries)
	if err := third.InProgress(); err != nil {
		t.Fatal(err)
	}
	if err := third.Term("cannot be handled"); err != nil {
		t.Fatal(err)
	}
	for _, settle := range []func() error{third.Ack, third.Nak, third.InProgress} {
		if err := settle(); err != nil {
			t.Errorf("settled twice: %v", err)
		}
	}
	publishUntilStored(t, b, command("accounts", "next"))
	if d := receive(t, deliveries); string(d.Data) != "next" {
		t.Errorf("terminated message came again: %s", d.Data)
	} else if err := d.Ack(); err != nil {
		t.Fatal(err)
	}
}

func TestConsumeDrains(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{})
	c := accounts
	c.DrainTimeout = patience
	deliveries := make(chan *bus.Delivery, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Consume(ctx, c, func(d *bus.Delivery) { deliveries <- d }) }()
	publishUntilStored(t, b, command("accounts", "1"))
	d := receive(t, deliveries)
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("ended while a message was in hand: %v", err)
	default:
	}
	if err := d.Ack(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, ended); err != nil {
		t.Fatal(err)
	}
}

func TestDrainDoesNotWaitForever(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{})
	c := accounts
	c.DrainTimeout = 10 * time.Millisecond
	deliveries, stop := consume(t, b, c)
	publishUntilStored(t, b, command("accounts", "1"))
	receive(t, deliveries) // and never settled
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestConsumerIsMadeAgain(t *testing.T) { // C8
	for name, lose := range map[string]func(t *testing.T, s *natsServer){
		"consumer deleted": func(t *testing.T, s *natsServer) {
			_, js := s.jetStream()
			if err := js.DeleteConsumer(t.Context(), "SAGA_CMD", "accounts"); err != nil {
				t.Fatal(err)
			}
		},
		"stream deleted": func(t *testing.T, s *natsServer) {
			_, js := s.jetStream()
			if err := js.DeleteStream(t.Context(), "SAGA_CMD"); err != nil {
				t.Fatal(err)
			}
		},
		"server restarted": func(_ *testing.T, s *natsServer) { s.stop(); s.start() },
		"store wiped":      func(_ *testing.T, s *natsServer) { s.restartEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			b := s.connect(bus.Config{})
			deliveries, _ := consume(t, b, accounts)
			publishUntilStored(t, b, command("accounts", "before"))
			receiveID(t, deliveries, "before")
			lose(t, s)
			began := time.Now()
			publishUntilStored(t, b, command("accounts", "after"))
			receiveID(t, deliveries, "after")
			t.Logf("back after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}

func TestConsumerBeforeItsStream(t *testing.T) {
	s := startServer(t)
	b := s.connectOnly(bus.Config{Manage: bus.ManageMissing})
	deliveries, _ := consume(t, b, accounts)
	publishUntilStored(t, b, command("accounts", "1"))
	receiveID(t, deliveries, "1")
}

func TestConsumersMustNotOverlap(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{})
	deliveries, _ := consume(t, b, accounts)
	publishUntilStored(t, b, command("accounts", "1")) // so that the first consumer is there
	receiveID(t, deliveries, "1")
	c := accounts
	c.Durable = "second"
	err := b.Consume(t.Context(), c, nil) // ends by itself
	var se *bus.SettingError
	if !errors.As(err, &se) || !strings.Contains(err.Error(), "second") || !strings.Contains(se.Fix, "another consumer") {
		t.Errorf("Consume: %v", err)
	}
}

func TestConsumeEndsWithTheBus(t *testing.T) {
	s := startServer(t)
	nc, _ := s.jetStream()
	b, err := bus.New(nc, bus.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	deliveries := make(chan *bus.Delivery, 1)
	go func() { ended <- b.Consume(t.Context(), accounts, func(d *bus.Delivery) { deliveries <- d }) }()
	publishUntilStored(t, b, command("accounts", "1"))
	if err := receive(t, deliveries).Ack(); err != nil {
		t.Fatal(err)
	}
	b.Close() // the connection stays open
	if err := receive(t, ended); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("Consume: %v", err)
	}
}

func TestConsumeEndsWithTheConnection(t *testing.T) {
	s := startServer(t)
	b := s.connect(bus.Config{})
	ended := make(chan error, 1)
	deliveries := make(chan *bus.Delivery, 1)
	go func() { ended <- b.Consume(t.Context(), accounts, func(d *bus.Delivery) { deliveries <- d }) }()
	publishUntilStored(t, b, command("accounts", "1"))
	if err := receive(t, deliveries).Ack(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := receive(t, ended); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("Consume: %v", err)
	}
}

func TestConsumerIsChecked(t *testing.T) {
	s := startServer(t)
	b := s.connectOnly(bus.Config{})
	for name, c := range map[string]bus.Consumer{
		"nothing":  {},
		"durable":  {Stream: bus.Commands, Durable: "a.b"},
		"negative": {Stream: bus.Commands, Durable: "a", MaxAckPending: -1},
	} {
		if err := b.Consume(t.Context(), c, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
