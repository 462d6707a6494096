package bus

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
)

// pendingMap finds the callback of a message without an answer. The library may report a message twice
// (a failed write and a lost connection), so the first to take it out calls back.
type pendingMap struct {
	mu sync.Mutex
	m  map[*nats.Msg]pendingPublish
}

type pendingPublish struct {
	index int
	done  func(i int, err error)
}

func (p *pendingMap) init() { p.m = map[*nats.Msg]pendingPublish{} }

func (p *pendingMap) put(m *nats.Msg, pub pendingPublish) {
	p.mu.Lock()
	p.m[m] = pub
	p.mu.Unlock()
}

func (p *pendingMap) take(m *nats.Msg) (pendingPublish, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pub, ok := p.m[m]
	delete(p.m, m)
	return pub, ok
}

// Publish sends messages without waiting for their PubAcks, and calls done(i, err) exactly once for each
// msgs[i], in any order, from other goroutines, possibly before Publish returns. A nil error means that
// the PubAck came. Publish waits while PublishInFlightMax messages are without an answer; what is not
// sent when ctx ends gets its error.
//
// done must return soon and must not call the bus: it runs where the answers of all messages arrive.
// Headers and data must not change until done is called.
func (b *Bus) Publish(ctx context.Context, msgs []Message, done func(i int, err error)) {
	outgoing := make([]nats.Msg, len(msgs))
	for i := range msgs {
		if err := b.acquire(ctx); err != nil {
			for ; i < len(msgs); i++ {
				done(i, err)
			}
			return
		}
		m := &outgoing[i]
		m.Subject, m.Header, m.Data = msgs[i].Subject, nats.Header(msgs[i].Header), msgs[i].Data
		b.pending.put(m, pendingPublish{index: i, done: done})
		if err := b.send(m); err != nil {
			b.complete(m, err)
		}
	}
}

// acquire waits for a free place among the messages without an answer.
func (b *Bus) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case b.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case b.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.ctx.Done():
		return ErrClosed
	}
}

func (b *Bus) send(m *nats.Msg) error {
	b.publishing.RLock()
	defer b.publishing.RUnlock()
	switch {
	case b.closed || b.nc.IsClosed():
		return ErrClosed
	case !b.nc.IsConnected():
		return ErrDisconnected // not into the connection's buffer, where it would wait and then time out
	}
	if _, err := b.js.PublishMsgAsync(m); err != nil {
		return err
	}
	b.leaveAnchor(m)
	return nil
}

// complete calls back for a message, once.
func (b *Bus) complete(m *nats.Msg, err error) {
	pub, ok := b.pending.take(m)
	if !ok {
		return
	}
	<-b.slots
	err = publishError(err)
	if errors.Is(err, ErrNoStream) {
		b.ensureSoon()
	}
	pub.done(pub.index, err)
}
