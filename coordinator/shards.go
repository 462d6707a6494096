package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// repliesAckWait is after which time the replies that a killed coordinator had taken go to another one (P10). What
// a living one could not store by then comes to it twice, which changes nothing.
const repliesAckWait = 4 * time.Second

// shardsShared is how long a coordinator that has just started takes the replies of all shards: the others that it sees
// may be its own predecessor, which was killed a moment ago.
const shardsShared = goneAfter + presenceInterval

// shards divides the replies of transactions among the coordinators that run, so that the replies of a transaction come to
// the one that has it in memory. It is for speed only: any coordinator may take any reply (C9).
type shards struct {
	n       int
	own     atomic.Pointer[[]bool] // by shard: transactions of these begin here
	changed chan struct{}
}

func newShards(n int) *shards {
	s := &shards{n: n, changed: make(chan struct{}, 1)}
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	s.own.Store(&all)
	return s
}

// divide takes the shards that fall to the coordinator me beside the others. Each has a range of its own, in the order of
// their ids; when there are more coordinators than shards, some share one.
func (s *shards) divide(me uuid.UUID, others []uuid.UUID) {
	place := 0
	for _, other := range others {
		if bytes.Compare(other[:], me[:]) < 0 {
			place++
		}
	}
	parts := min(len(others)+1, s.n)
	own := make([]bool, s.n)
	for i := range own {
		own[i] = i*parts/s.n == place%parts
	}
	if slices.Equal(own, *s.own.Load()) {
		return
	}
	s.own.Store(&own)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// newID makes the id of a transaction whose replies come to this coordinator.
func (s *shards) newID() (saga.ID, error) {
	own := *s.own.Load()
	for {
		id, err := newID()
		if err != nil || own[wire.Shard(id, s.n)] {
			return id, err
		}
	}
}

// consumeReplies takes the replies of the shards that fall to this coordinator, until ctx ends.
func (c *Coordinator) consumeReplies(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	taken := make([]context.CancelFunc, c.shards.n)
	shared := time.NewTimer(shardsShared)
	defer shared.Stop()
	g.Go(func() error {
		all := true
		for {
			own := *c.shards.own.Load()
			for i := range taken {
				switch take := all || own[i]; {
				case take && taken[i] == nil:
					shardCtx, cancel := context.WithCancel(ctx)
					taken[i] = cancel
					g.Go(func() error {
						defer cancel()
						return c.consumeShard(shardCtx, i)
					})
				case !take && taken[i] != nil:
					taken[i]()
					taken[i] = nil
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-c.shards.changed:
			case <-shared.C:
				all = false
			}
		}
	})
	return g.Wait()
}

func (c *Coordinator) consumeShard(ctx context.Context, shard int) error {
	consumer := bus.Consumer{
		Stream: bus.Replies, Durable: fmt.Sprintf("coordinator-%d", shard),
		FilterSubjects: []string{wire.ReplySubject(c.cfg.Bus.Prefix(), "*", shard)},
		AckWait:        repliesAckWait, MaxAckPending: max(c.cfg.RepliesInFlight/c.shards.n, 1), MaxBatch: 512,
		DrainTimeout: c.cfg.StopTimeout / 2,
	}
	return c.cfg.Bus.Consume(ctx, consumer, func(d *bus.Delivery) { c.takeReply(ctx, d) })
}
