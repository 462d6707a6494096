package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// road takes a shop's commands where the coordinator sends them, and gives them to the shop under another prefix: later,
// in another order, or twice. Replies come back over it; those to the pivot's try are late or lost.
type road struct {
	s        *shop
	from, to *bus.Bus

	travellers sync.WaitGroup
	under      atomic.Int64 // the same, counted
}

// newRoad opens the road of a shop. It closes with the test.
func newRoad(t *testing.T, s *shop) *road {
	t.Helper()
	nc, err := nats.Connect(s.w.cluster.NATSURL(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	r := &road{s: s}
	for b, prefix := range map[**bus.Bus]string{&r.from: bus.DefaultPrefix, &r.to: r.prefixOf(s)} {
		if *b, err = bus.New(nc, bus.Config{Prefix: prefix, Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		if err := (*b).EnsureStreams(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var lanes sync.WaitGroup
	lane := func(b *bus.Bus, c bus.Consumer, take func(context.Context, *bus.Delivery) error) {
		lanes.Go(func() {
			err := b.Consume(ctx, c, func(d *bus.Delivery) { r.travel(ctx, t, d, take) })
			if err != nil {
				t.Errorf("the road: %v", err)
			}
		})
	}
	lane(r.from, bus.Consumer{
		Stream: bus.Commands, Durable: s.name, FilterSubjects: []string{wire.CommandSubject(bus.DefaultPrefix, s.name)},
	}, r.carry)
	lane(r.to, bus.Consumer{Stream: bus.Replies, Durable: "road"}, r.carryBack)
	t.Cleanup(func() {
		cancel()
		lanes.Wait()
		r.travellers.Wait()
		r.from.Close()
		r.to.Close()
		nc.Close()
	})
	return r
}

// prefix is that of the shop's end of the road.
func (r *road) prefix() string { return r.prefixOf(r.s) }

func (r *road) prefixOf(s *shop) string { return "road-" + s.name }

// travel lets a message begin its journey, so that the next one does not wait for it.
func (r *road) travel(ctx context.Context, t *testing.T, d *bus.Delivery, carry func(context.Context, *bus.Delivery) error) {
	r.under.Add(1)
	r.travellers.Go(func() {
		defer r.under.Add(-1)
		if err := carry(ctx, d); err != nil {
			t.Errorf("the road: %v", err)
			d.Leave()
			return
		}
		_ = d.Ack() // it comes again otherwise, and is a copy
	})
}

// raceOfCommand reads in the input which race a command belongs to.
func (r *road) raceOfCommand(d *bus.Delivery) (saga.Command, *race, error) {
	cmd, err := wire.DecodeCommand(d.Message)
	if err != nil {
		return cmd, nil, err
	}
	body, err := wire.ParseBody(cmd.Phase, cmd.Body)
	if err != nil {
		return cmd, nil, err
	}
	var input shopInput
	if err := json.Unmarshal(body.Input.Data, &input); err != nil {
		return cmd, nil, err
	}
	return cmd, r.s.raceOf(input.Race), nil
}

// carry lets a command through when its race says so.
func (r *road) carry(ctx context.Context, d *bus.Delivery) error {
	cmd, race, err := r.raceOfCommand(d)
	switch {
	case err != nil:
		return err
	case cmd.Step != "charge":
		return r.pass(ctx, d.Message)
	case cmd.Phase == saga.PhaseCancel:
		return r.carryFence(ctx, d.Message, race)
	case cmd.Attempt > 1:
		race.tries.Add(1)
		return r.pass(ctx, d.Message)
	}
	r.s.meet(race, cmd.Transaction, d.Message)
	instant, known := race.reference(ctx, cmd.Deadline)
	if !known {
		return nil // the test is over
	}
	pause(ctx, time.Until(instant.Add(race.try)))
	race.tries.Add(1)
	return r.pass(ctx, d.Message)
}

// reference waits until it is known which instant the try is let through around. It is not if the test ends first.
func (r *race) reference(ctx context.Context, deadline time.Time) (instant time.Time, known bool) {
	if r.way == wayRoad {
		select {
		case <-r.coming:
			return time.Now(), true
		case <-ctx.Done():
			return instant, false
		}
	}
	if !r.byClient {
		return deadline, true
	}
	select {
	case instant = <-r.instant:
		return instant, true
	case <-ctx.Done():
		return instant, false
	}
}

// carryBack lets a reply through. Replies to the pivot's try may come after the fence's, or never.
func (r *road) carryBack(ctx context.Context, d *bus.Delivery) error {
	reply, err := wire.DecodeReply(d.Message)
	if err != nil {
		return err
	}
	if reply.Step == "charge" && reply.Phase == saga.PhaseTry {
		race := r.s.raceOfTransaction(reply.Transaction)
		if race.replyLost {
			return nil
		}
		pause(ctx, race.reply)
	}
	m := d.Message
	_, participant, shard, err := wire.ParseReplySubject(m.Subject)
	if err != nil {
		return err
	}
	m.Subject = wire.ReplySubject(bus.DefaultPrefix, participant, shard)
	return publish(ctx, r.from, m)
}

// carryFence lets a fence through, and after it copies of the try, which must not take effect any more.
func (r *road) carryFence(ctx context.Context, m bus.Message, race *race) error {
	select {
	case <-race.arrived: // NATS may turn them round
	case <-ctx.Done():
		return nil
	}
	if !r.s.countFence(race) {
		race.fences.Add(1)
		return r.pass(ctx, m)
	}
	pause(ctx, race.fence)
	race.fences.Add(1)
	if err := r.pass(ctx, m); err != nil {
		return err
	}
	close(race.passed)
	for n, after := range race.copies {
		pause(ctx, after)
		duplicate := bus.Message{Subject: race.first.Subject, Header: maps.Clone(race.first.Header), Data: race.first.Data}
		duplicate.Header[wire.HeaderMsgID] = []string{fmt.Sprint(race.first.Header[wire.HeaderMsgID], " copy ", n)} // else NATS drops it
		race.tries.Add(1)
		if err := r.pass(ctx, duplicate); err != nil {
			return err
		}
	}
	return nil
}

// countFence counts a race whose fence is on the road, once.
func (s *shop) countFence(r *race) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.coming:
		return false
	default:
	}
	close(r.coming)
	s.fenced++
	return true
}

// pass publishes a command at the other end, to be answered there.
func (r *road) pass(ctx context.Context, m bus.Message) error {
	replyTo := m.Header[wire.HeaderReplyTo]
	if len(replyTo) != 1 {
		return fmt.Errorf("a command wants its reply at %q", replyTo)
	}
	_, participant, shard, err := wire.ParseReplySubject(replyTo[0])
	if err != nil {
		return err
	}
	m.Subject, m.Header = wire.CommandSubject(r.prefix(), r.s.name), maps.Clone(m.Header)
	m.Header[wire.HeaderReplyTo] = []string{wire.ReplySubject(r.prefix(), participant, shard)}
	return publish(ctx, r.to, m)
}

// publish returns when JetStream has the message.
func publish(ctx context.Context, b *bus.Bus, m bus.Message) error {
	answer := make(chan error, 1)
	b.Publish(ctx, []bus.Message{m}, func(_ int, err error) { answer <- err })
	return <-answer
}

// empty reports whether nothing is under way: on the road, before it, and at its end, where everything is acknowledged once
// it is answered.
func (r *road) empty(t *testing.T) bool {
	t.Helper()
	for _, queue := range []struct {
		bus    *bus.Bus
		stream bus.Stream
	}{{r.from, bus.Commands}, {r.to, bus.Commands}, {r.to, bus.Replies}} {
		n, err := queue.bus.Messages(t.Context(), queue.stream)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return false
		}
	}
	return r.under.Load() == 0
}
