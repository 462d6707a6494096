package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Defaults of Consumer.
const (
	DefaultAckWait       = 30 * time.Second
	DefaultMaxAckPending = 1000
	DefaultMaxBatch      = 256
	DefaultDrainTimeout  = 10 * time.Second
)

const (
	pullHeartbeat  = time.Second     // two missing ones: the consumer is lost
	pullExpiry     = 4 * time.Second // so long a process that is paused goes on taking its share of what comes
	pullBytesMax   = 16 << 20        // of one pull; well below the client library's buffer of 64 MiB
	pullWaitingMax = 512             // pulls of all processes together
	retryFirst     = 100 * time.Millisecond
	retryMax       = 2 * time.Second
)

// Consumer is a durable pull consumer. Stream and Durable are required. All processes that consume under
// one durable name share its messages and should agree on the settings.
type Consumer struct {
	Stream         Stream
	Durable        string   // letters, digits, '-' and '_'
	FilterSubjects []string // empty: all of the stream; those of two consumers of a work queue must not overlap

	AckWait       time.Duration // after which an unsettled message comes again; zero: DefaultAckWait
	MaxAckPending int           // unsettled messages of all processes together, and of each; zero: DefaultMaxAckPending
	MaxBatch      int           // messages asked for at a time; zero: DefaultMaxBatch, at most MaxAckPending
	DrainTimeout  time.Duration // for what is in hand when Consume is asked to end; zero: DefaultDrainTimeout
}

func (c Consumer) withDefaults() Consumer {
	c.AckWait = cmp.Or(c.AckWait, DefaultAckWait)
	c.MaxAckPending = cmp.Or(c.MaxAckPending, DefaultMaxAckPending)
	c.MaxBatch = min(cmp.Or(c.MaxBatch, DefaultMaxBatch), c.MaxAckPending)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	return c
}

func (c Consumer) validate() error {
	switch {
	case c.Stream == "" || c.Durable == "":
		return errors.New("bus: a consumer needs a stream and a durable name")
	case strings.ContainsAny(c.Durable, ".*> \t\r\n\\/"):
		return fmt.Errorf("bus: the durable name %+q is not valid; use letters, digits, '-' and '_'", c.Durable)
	case c.AckWait < 0 || c.MaxAckPending < 1 || c.MaxBatch < 1 || c.DrainTimeout < 0:
		return errors.New("bus: a consumer's limit is negative; use 0 for the default")
	}
	return nil
}

// config returns the whole configuration of the consumer. Nothing is left to MaxDeliver or to backoff in
// the server: attempts belong to the database (C4).
func (c Consumer) config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:           c.Durable,
		Durable:        c.Durable,
		FilterSubjects: c.FilterSubjects,
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        c.AckWait,
		MaxDeliver:     -1,
		ReplayPolicy:   jetstream.ReplayInstantPolicy,
		MaxAckPending:  c.MaxAckPending,
		MaxWaiting:     pullWaitingMax,
	}
}

// Consume hands every message of the consumer to handler, one call at a time, until ctx ends. The handler
// may keep a delivery and settle it later; while MaxAckPending of this call are unsettled no more are
// handed over. The consumer is made when it does not exist and whenever it is lost.
//
// When ctx ends Consume takes no more, hands over what it already has, waits until all is settled or
// DrainTimeout is over, and returns nil. It returns an error when the settings are not valid, the server
// refuses them (*SettingError), or the connection was closed for good.
func (b *Bus) Consume(ctx context.Context, c Consumer, handler func(*Delivery)) error {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return err
	}
	k := &consumption{
		bus: b, cfg: c, handler: handler,
		handling: make(chan struct{}, 1), slots: make(chan struct{}, c.MaxAckPending),
		freed: make(chan struct{}, 1), abandon: make(chan struct{}),
	}
	defer close(k.abandon)
	var fatal error
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(retryFirst), backoff.WithMaxInterval(retryMax), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil && fatal == nil {
		started := time.Now()
		err := k.run(ctx)
		if fatal = fatalError(err); fatal != nil || ctx.Err() != nil {
			break
		}
		if time.Since(started) > 2*retryMax { // it worked for a while
			retry.Reset()
		}
		k.pause(ctx, retry.NextBackOff(), err)
	}
	k.drain(ctx)
	return fatal
}

// pause waits before the consumer is made again. That there is no connection the bus has said already.
func (k *consumption) pause(ctx context.Context, wait time.Duration, err error) {
	level := slog.LevelWarn
	if errors.Is(err, ErrDisconnected) {
		level = slog.LevelDebug
	}
	k.bus.log.Log(ctx, level, "consumer lost, making it again",
		"consumer", k.cfg.Durable, "stream", k.bus.StreamName(k.cfg.Stream), "error", err, "wait", wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// fatalError returns what no retry can repair.
func fatalError(err error) error {
	var se *SettingError
	if errors.As(err, &se) || errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// consumption is one call of Consume.
type consumption struct {
	bus     *Bus
	cfg     Consumer
	handler func(*Delivery)

	handling chan struct{} // full while the handler runs: one call at a time, also while a lost consumer winds down
	slots    chan struct{} // one per unsettled delivery
	freed    chan struct{} // a place was given back
	abandon  chan struct{} // closed: hand over no more
	drainBy  time.Time     // zero until it begins to end
}

// run makes the consumer and consumes until it is lost or ctx ends.
func (k *consumption) run(ctx context.Context) error {
	cons, err := k.ensure(ctx)
	if err != nil {
		return err
	}
	lost := make(chan error, 1)
	cc, err := cons.Consume(k.deliver,
		jetstream.PullMaxMessagesWithBytesLimit(k.cfg.MaxBatch, pullBytesMax),
		jetstream.PullExpiry(pullExpiry),
		jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { k.consumeError(lost, err) }),
	)
	if err != nil {
		return fmt.Errorf("bus: consume: %w", err)
	}
	select {
	case err := <-lost:
		// Nothing is lost by dropping the buffer: what the server says about a lost consumer comes after
		// its messages, and a heartbeat is missed only while none wait.
		cc.Stop()
		if k.bus.nc.IsClosed() {
			return errors.Join(ErrClosed, err)
		}
		return err
	case <-k.bus.ctx.Done():
		cc.Stop()
		return ErrClosed
	case <-ctx.Done():
		k.stop(ctx, cc)
		return nil
	}
}

// ensure makes the consumer with its settings, and its stream if that is missing.
func (k *consumption) ensure(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	b := k.bus
	switch {
	case b.ctx.Err() != nil || b.nc.IsClosed():
		return nil, ErrClosed
	case !b.nc.IsConnected():
		return nil, ErrDisconnected
	}
	stream := b.StreamName(k.cfg.Stream)
	cons, err := b.js.CreateOrUpdateConsumer(ctx, stream, k.cfg.config())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := b.ensureStream(ctx, k.cfg.Stream); err != nil {
			return nil, err
		}
		cons, err = b.js.CreateOrUpdateConsumer(ctx, stream, k.cfg.config())
	}
	if err != nil {
		return nil, settingError(fmt.Sprintf("consumer %s of stream %s", k.cfg.Durable, stream), err)
	}
	return cons, nil
}

// consumeError learns from the client library that the consumer is, or may be, lost.
func (k *consumption) consumeError(lost chan<- error, err error) {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoHeartbeat),
		errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrConsumerNotFound),
		errors.Is(err, jetstream.ErrBadRequest), errors.Is(err, jetstream.ErrConnectionClosed):
		select {
		case lost <- err:
		default: // known already
		}
	default:
		k.bus.log.Debug("consumer status", "consumer", k.cfg.Durable, "error", err)
	}
}

// deliver hands one message over, as soon as there is a place for it.
func (k *consumption) deliver(msg jetstream.Msg) {
	if k.cfg.Stream != Submissions && IsAnchor(msg.Subject(), msg.Data()) { // to a consumer of all subjects
		_ = msg.Ack() // or it comes again, which is no matter
		return
	}
	select {
	case k.handling <- struct{}{}:
		defer func() { <-k.handling }()
	case <-k.abandon:
		return
	}
	select {
	case k.slots <- struct{}{}:
	case <-k.abandon:
		return
	}
	k.handler(&Delivery{
		Message: Message{Subject: msg.Subject(), Header: msg.Headers(), Data: msg.Data()},
		msg:     msg, free: k.free,
	})
}

func (k *consumption) free() {
	<-k.slots
	select {
	case k.freed <- struct{}{}:
	default:
	}
}

// drainContext bounds stop and drain together.
func (k *consumption) drainContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.drainBy.IsZero() {
		k.drainBy = time.Now().Add(k.cfg.DrainTimeout)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), k.drainBy)
}

// stop takes no more and hands over what the client has.
func (k *consumption) stop(ctx context.Context, cc jetstream.ConsumeContext) {
	ctx, cancel := k.drainContext(ctx)
	defer cancel()
	if !k.bus.nc.IsConnected() {
		cc.Stop() // Drain would wait for the server
		return
	}
	cc.Drain()
	select {
	case <-cc.Closed():
	case <-ctx.Done():
		cc.Stop()
	}
}

// drain waits until all that was handed over is settled. What is not when the time is over comes again
// after AckWait.
func (k *consumption) drain(ctx context.Context) {
	ctx, cancel := k.drainContext(ctx)
	defer cancel()
	select { // the handler has returned, and is not called again
	case k.handling <- struct{}{}:
	case <-ctx.Done():
	}
	for len(k.slots) > 0 {
		select {
		case <-k.freed:
		case <-ctx.Done():
			k.bus.log.Warn("messages were still in hand when the time to drain was over: they will come again",
				"consumer", k.cfg.Durable, "messages", len(k.slots))
			return
		}
	}
}
