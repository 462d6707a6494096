package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

// Defaults of Config.
const (
	DefaultGrace           = 2 * time.Second
	DefaultPollInterval    = time.Second
	DefaultPollBatch       = 500
	DefaultClaimTime       = 30 * time.Second
	DefaultHandOffMax      = 20_000
	DefaultHandOffBytesMax = 64 << 20
	DefaultDrainTimeout    = 5 * time.Second
)

const (
	publishBatch  = 256 // messages given to the publisher at a time
	settleBatch   = 1000
	settleTimeout = 10 * time.Second
	settleGather  = 10 * time.Millisecond // far below DefaultGrace, after which another relay publishes a row that is still there
	pollTimeout   = 30 * time.Second
)

// Publisher is what a relay needs of the bus. The module's own publishes to JetStream.
type Publisher interface {
	// Publish calls done exactly once per message, with nil when it is acknowledged. done returns soon.
	Publish(ctx context.Context, msgs []bus.Message, done func(i int, err error))
	// Connected reports whether publishing makes sense now.
	Connected() bool
}

// Config of a Relay. Pool is required, and one of NATS and Publisher.
type Config struct {
	Pool *pgxpool.Pool
	// NATS is the service's connection; it stays the service's. The streams of its subjects must exist,
	// or rows wait until they do.
	NATS      *nats.Conn
	Publisher Publisher

	Grace           time.Duration // age at which the poll takes a row that nobody published; zero: DefaultGrace
	PollInterval    time.Duration // while there is nothing to recover; zero: DefaultPollInterval
	PollBatch       int           // rows per poll; zero: DefaultPollBatch
	ClaimTime       time.Duration // after which another relay may take a claimed row; zero: DefaultClaimTime
	HandOffMax      int           // rows in memory; zero: DefaultHandOffMax
	HandOffBytesMax int           // bytes of their messages; zero: DefaultHandOffBytesMax, at least 2 MiB
	DrainTimeout    time.Duration // for PubAcks when Run ends; zero: DefaultDrainTimeout
	Logger          *slog.Logger  // nil: slog.Default
}

func (c Config) withDefaults() Config {
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.PollInterval = cmp.Or(c.PollInterval, DefaultPollInterval)
	c.PollBatch = cmp.Or(c.PollBatch, DefaultPollBatch)
	c.ClaimTime = cmp.Or(c.ClaimTime, DefaultClaimTime)
	c.HandOffMax = cmp.Or(c.HandOffMax, DefaultHandOffMax)
	c.HandOffBytesMax = cmp.Or(c.HandOffBytesMax, DefaultHandOffBytesMax)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Pool == nil:
		return errors.New("outbox: a relay needs a Pool")
	case (c.NATS == nil) == (c.Publisher == nil):
		return errors.New("outbox: a relay needs either NATS or a Publisher")
	case c.Grace < 0 || c.PollInterval < 0 || c.DrainTimeout < 0:
		return errors.New("outbox: a time is negative; use 0 for the default")
	case c.ClaimTime < time.Second:
		return fmt.Errorf("outbox: the claim time is %s; use at least 1s", c.ClaimTime)
	case c.PollBatch < 1 || c.HandOffMax < 2:
		return errors.New("outbox: use a poll batch of at least 1 and a hand-off limit of at least 2")
	case c.HandOffBytesMax < 2*DefaultMessageBytesMax:
		return fmt.Errorf("outbox: hand-off bytes max is %d; use at least %d", c.HandOffBytesMax, 2*DefaultMessageBytesMax)
	}
	return nil
}

// Relay publishes the rows of one outbox table. Any number of relays, in any number of processes, may
// work on one table.
type Relay struct {
	cfg       Config
	log       *slog.Logger
	connected func() bool
	publisher Publisher // set by Run

	memory  *memory
	settler settler
	queued  signal // there is something to publish
	room    signal // rows were settled
	failing atomic.Bool
	ran     atomic.Bool
	stats   counters
}

// NewRelay makes a relay. It does nothing before Run; hand-offs made until then wait in memory.
func NewRelay(c Config) (*Relay, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &Relay{
		cfg: c, log: c.Logger.With("component", "outbox"),
		memory: newMemory(relay.Usage{Count: c.HandOffMax, Bytes: c.HandOffBytesMax}),
		queued: newSignal(), room: newSignal(), settler: settler{wake: newSignal()},
	}
	if c.NATS != nil {
		r.connected = c.NATS.IsConnected
	} else {
		r.connected = c.Publisher.Connected
	}
	return r, nil
}

// HandOff gives committed entries to the publisher, in memory. It never waits: what does not fit, or
// comes while NATS is away, is left to the poll. Hand off nothing whose commit is not known.
func (r *Relay) HandOff(entries ...Entry) {
	if len(entries) == 0 {
		return
	}
	r.stats.handedOff.Add(uint64(len(entries)))
	dropped := len(entries)
	if r.connected() {
		dropped = r.memory.offer(entries)
	}
	r.stats.dropped.Add(uint64(dropped))
	r.queued.set()
}

// Run publishes until ctx ends; then it waits for the PubAcks that are due and deletes their rows, each
// for at most DrainTimeout. It may be called once. It returns an error when the table is missing.
func (r *Relay) Run(ctx context.Context) error {
	if !r.ran.CompareAndSwap(false, true) {
		return errors.New("outbox: Run was called twice")
	}
	if err := r.probe(ctx); err != nil {
		r.memory.close()
		return err
	}
	closeBus, err := r.openPublisher()
	if err != nil {
		r.memory.close()
		return err
	}
	settleCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	answersEnd := make(chan struct{})
	var loops, settling sync.WaitGroup
	loops.Go(func() { r.publishLoop(ctx) })
	loops.Go(func() { r.pollLoop(ctx) })
	settling.Go(func() { r.settleLoop(settleCtx, answersEnd) })

	<-ctx.Done()
	loops.Wait()
	r.drain()
	closeBus()
	close(answersEnd)
	defer time.AfterFunc(r.cfg.DrainTimeout, giveUp).Stop()
	settling.Wait()
	return nil
}

// openPublisher sets the publisher: the caller's, or one on the caller's connection. The streams are not
// the relay's to make.
func (r *Relay) openPublisher() (closeBus func(), err error) {
	if r.publisher = r.cfg.Publisher; r.publisher != nil {
		return func() {}, nil
	}
	b, err := bus.New(r.cfg.NATS, bus.Config{Manage: bus.ManageNone, Logger: r.cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	r.publisher = b
	return b.Close, nil
}

// probe checks the table, and waits for a database that cannot be reached.
func (r *Relay) probe(ctx context.Context) error {
	retry := newBackoff()
	for ctx.Err() == nil {
		_, err := r.cfg.Pool.Exec(ctx, sqlProbe)
		if err == nil {
			break
		}
		if code := pg.Code(err); code == pg.CodeUndefinedTable || code == pg.CodeUndefinedColumn {
			return fmt.Errorf("outbox: the table is missing or of another version, apply the migrations of "+
				"migrations/outbox: %w", err)
		}
		wait := retry.NextBackOff()
		r.log.Warn("the outbox cannot be read, will try again", "error", err, "wait", wait)
		sleep(ctx, wait, nil)
	}
	return nil
}

// drain waits for what is in flight.
func (r *Relay) drain() {
	idle := r.memory.close()
	timer := time.NewTimer(r.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		r.log.Warn("messages were not acknowledged in time: they will be published again")
	}
}

// publishLoop gives what is queued to the publisher. While it waits for a free place in flight, more
// gathers.
func (r *Relay) publishLoop(ctx context.Context) {
	for {
		items := r.memory.take(publishBatch)
		if len(items) > 0 {
			r.publish(ctx, items, time.Now())
			continue
		}
		select {
		case <-r.queued:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// publish sends the items whose time is not over.
func (r *Relay) publish(ctx context.Context, items []*item, now time.Time) {
	sent := make([]*item, 0, len(items))
	msgs := make([]bus.Message, 0, len(items))
	for _, it := range items {
		if relay.IsExpired(it.expiry, now) {
			r.answered(it, relay.Expired, nil)
			continue
		}
		sent = append(sent, it)
		msgs = append(msgs, it.msg)
	}
	r.publisher.Publish(ctx, msgs, func(i int, err error) { r.answered(sent[i], resultOf(err), err) })
}

// answered counts the answer and passes the row on to be settled. It runs where the PubAcks arrive.
func (r *Relay) answered(it *item, res relay.Result, err error) {
	if failing, told := relay.Failing(res); told {
		r.failing.Store(failing)
	}
	switch res {
	case relay.Acknowledged:
		r.stats.published.Add(1)
	case relay.Expired:
		r.stats.expired.Add(1)
	case relay.Permanent:
		r.stats.refused.Add(1)
		fallthrough
	case relay.Blocked, relay.Transient:
		r.stats.errors.Add(1)
	}
	r.settler.add(settlement{item: it, result: res, err: err})
	r.memory.answered(it) // last: when nothing is in flight, everything has been passed on
}
