package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// probe speaks to participants as a coordinator does, but in any order and with any content, and has streams
// of its own for the replies.
type probe struct {
	commands *bus.Bus // the coordinator's streams
	replies  *bus.Bus
	stop     context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]chan saga.Reply // by operation, attempt
}

const probePrefix = "probe"

func newProbe(ctx context.Context, nc *nats.Conn, prefix string, log *slog.Logger) (*probe, error) {
	p := &probe{waiting: make(map[string]chan saga.Reply)}
	var err error
	if p.commands, err = bus.New(nc, bus.Config{Prefix: prefix, Logger: log}); err != nil {
		return nil, err
	}
	if p.replies, err = bus.New(nc, bus.Config{Prefix: probePrefix, Logger: log}); err != nil {
		return nil, err
	}
	if err := p.replies.EnsureStreams(ctx); err != nil {
		return nil, err
	}
	var run context.Context
	run, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.done.Go(func() {
		err := p.replies.Consume(run, bus.Consumer{Stream: bus.Replies, Durable: "probe"}, p.take)
		if err != nil {
			log.Error("the probe cannot read replies", "error", err)
		}
	})
	return p, nil
}

func (p *probe) close() {
	p.stop()
	p.done.Wait()
	p.replies.Close()
	p.commands.Close()
}

func (p *probe) take(d *bus.Delivery) {
	defer func() { _ = d.Ack() }()
	r, err := wire.DecodeReply(d.Message)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch := p.waiting[attemptKey(r.Key(), r.Attempt)]; ch != nil {
		select {
		case ch <- r:
		default: // a repetition
		}
	}
}

// send sends a command and waits for its reply.
func (p *probe) send(ctx context.Context, c saga.Command) (saga.Reply, error) {
	ch := make(chan saga.Reply, 1)
	key := attemptKey(c.Key(), c.Attempt)
	p.mu.Lock()
	p.waiting[key] = ch
	p.mu.Unlock()
	c.ReplyTo = wire.ReplySubject(probePrefix, c.Participant, 0)
	m, err := wire.EncodeCommand(p.commands.Prefix(), c)
	if err != nil {
		return saga.Reply{}, err
	}
	p.commands.Publish(ctx, []bus.Message{m}, func(int, error) {}) // the reply tells
	select {
	case r := <-ch:
		return r, nil
	case <-ctx.Done():
		return saga.Reply{}, fmt.Errorf("%s did not reply to %s", c.Participant, c.Key())
	}
}

func attemptKey(k saga.OperationKey, attempt int) string { return fmt.Sprintf("%s/%d", k, attempt) }

// command makes a command for a withdrawal of alice's as the coordinator would.
func command(b *Bank, id saga.ID, phase saga.Phase, attempt int, amount int64) (saga.Command, error) {
	input, err := json.Marshal(bank.Move{Account: alice, Cents: amount})
	if err != nil {
		return saga.Command{}, err
	}
	c := saga.Command{
		Verb: saga.VerbExecute, Tenant: tenant, Transaction: id, Step: "take", Phase: phase, Kind: saga.KindSaga,
		Participant: b.Name, Action: bank.ActionWithdraw, Attempt: attempt, Revision: 1, Timeout: time.Minute,
		Body: saga.TryBody(saga.Payload{Data: input}, nil),
	}
	if phase != saga.PhaseTry {
		c.Body = saga.SettleBody(saga.Payload{Data: input}, saga.Payload{})
	}
	c.ContentSHA256 = saga.ContentSHA256(c.Action, c.Body)
	return c, nil
}

func newID() (saga.ID, error) {
	id, err := uuid.NewV7()
	return saga.ID(id), err
}
