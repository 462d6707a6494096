package coordinator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

// Coordinator runs transactions. Make one with New and run it with Run; its other methods may be called from
// any goroutine while it runs.
type Coordinator struct {
	cfg     Config
	log     *slog.Logger
	store   *store
	encoder *encoder
	lanes   []*lane
	heard   *heard
	gate    *gate
	waiters waiters
	silent  map[string]bool // participants whose breaker was open when it was looked at last
	sender  *notify.Sender

	entrance *entrance
	recall   *recall
	jobsDue  chan struct{} // a job was made or started here
	shards   *shards

	stopping chan struct{}
	stopOnce sync.Once
}

// New makes a coordinator. It does nothing until Run.
func New(cfg Config) (*Coordinator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	enc := &encoder{prefix: cfg.Bus.Prefix(), shards: newShards(cfg.ReplyShards)}
	c := &Coordinator{
		cfg: cfg, log: cfg.Log, encoder: enc, heard: &heard{}, gate: newGate(cfg.Flow, cfg.AutoPause),
		store:    &store{pool: cfg.Pool, clock: newClock(), encoder: enc, definitions: newDefinitions(cfg.Pool), events: cfg.Events},
		entrance: newEntrance(cfg.Admission), stopping: make(chan struct{}), jobsDue: make(chan struct{}, 1),
		shards: enc.shards,
	}
	hooks := cfg.Webhooks
	hooks.Pool, hooks.Log = cfg.Pool, cfg.Log
	c.sender = notify.NewSender(hooks)
	c.recall = &recall{find: c.store.findRequests, bytesMax: cfg.Admission.WithDefaults().BytesMax / 4}
	for range cfg.Lanes {
		c.lanes = append(c.lanes, &lane{
			store: c.store, log: cfg.Log, queue: make(chan *item, cfg.QueueMax), batchMax: cfg.BatchMax,
			cache: newCache(cfg.CacheMax, cfg.CacheBytesMax), gate: c.gate, rnd: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
			handOff: cfg.Relay.HandOff, changed: c.waiters.notify,
			stopping: c.stopping, stopped: make(chan struct{}),
		})
	}
	return c, nil
}

// Run works until ctx ends, and then stops in order: it takes no new events, finishes those it has, and
// returns. It returns an error if something failed that no retry can repair.
func (c *Coordinator) Run(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		c.refuseAll()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var lanes sync.WaitGroup
	for _, l := range c.lanes {
		lanes.Go(func() { l.run(work) })
	}
	sources, sourcesCtx := errgroup.WithContext(ctx)
	sources.Go(func() error { return c.consumeReplies(sourcesCtx) })
	sources.Go(func() error { return c.consumeSubmissions(sourcesCtx) })
	sources.Go(func() error { return c.runTimers(sourcesCtx) })
	sources.Go(func() error { return c.runMaintenance(sourcesCtx) })
	sources.Go(func() error { return c.runPresence(sourcesCtx) })
	sources.Go(func() error { return c.sender.Run(sourcesCtx) })
	sources.Go(func() error { return c.runRetention(sourcesCtx) })
	sources.Go(func() error { return c.runJobs(sourcesCtx) })
	err := sources.Wait()
	c.stopOnce.Do(func() { close(c.stopping) })
	c.finishLanes(&lanes, abandon)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// refuseAll answers those who ask a coordinator that will not run.
func (c *Coordinator) refuseAll() {
	c.stopOnce.Do(func() { close(c.stopping) })
	for _, l := range c.lanes {
		l.refuseRest()
		close(l.stopped)
	}
}

// finishLanes waits until the lanes have finished what they hold. When the database does not answer they give up
// after half of the time to stop; the sources before them had the other half.
func (c *Coordinator) finishLanes(lanes *sync.WaitGroup, abandon context.CancelFunc) {
	timer := time.AfterFunc(c.cfg.StopTimeout/2, abandon)
	defer timer.Stop()
	lanes.Wait()
}

func (c *Coordinator) lane(id saga.ID) *lane {
	return c.lanes[binary.BigEndian.Uint64(id[8:])%uint64(len(c.lanes))]
}

// ask takes an event through its lane and waits for what becomes of it. When ctx ends first the outcome is
// unknown: the event is not taken back. What the item's own done is for, it is called for as well, if the event was
// queued.
func (c *Coordinator) ask(ctx context.Context, it *item) (outcome, error) {
	answer := make(chan outcome, 1)
	done := it.done
	it.done = func(o outcome) {
		if done != nil {
			done(o)
		}
		answer <- o
	}
	l := c.lane(it.id)
	if err := l.tryOffer(it); err != nil {
		return outcome{}, err
	}
	select {
	case o := <-answer:
		return o, o.err
	case <-ctx.Done():
		return outcome{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	case <-l.stopped:
	}
	select {
	case o := <-answer: // its last batch
		return o, o.err
	default:
		return outcome{}, fmt.Errorf("%w: the coordinator has stopped", ErrOutcomeUnknown)
	}
}
