package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// repliesAckWait is after which time the replies that a killed coordinator had taken go to another one (P10). What
// a living one could not store by then comes to it twice, which changes nothing.
const repliesAckWait = 4 * time.Second

// shardsShared is how long a coordinator that has just started takes the replies of all shards: the others that it sees
// may be its own predecessor, which was killed a moment ago.
const shardsShared = goneAfter + presenceInterval

// shards divides the replies among the coordinators that run: each names a shard of its own in its commands, so that the
// replies come to the one that has the transaction in memory, and takes those that nobody names any more, too. It is for
// speed only: any coordinator may take any reply (C9).
type shards struct {
	n       int
	part    atomic.Pointer[part]
	changed chan struct{}
}

// part is the place of a coordinator among those that run.
type part struct{ place, of int }

func newShards(n int) *shards {
	s := &shards{n: n, changed: make(chan struct{}, 1)}
	s.part.Store(&part{of: 1})
	return s
}

// divide takes the place of the coordinator me among the others, in the order of their ids.
func (s *shards) divide(me uuid.UUID, others []uuid.UUID) {
	now := part{of: len(others) + 1}
	for _, other := range others {
		if bytes.Compare(other[:], me[:]) < 0 {
			now.place++
		}
	}
	if *s.part.Swap(&now) == now {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// own is the shard that replies to this coordinator's commands are to come through. When there are more coordinators than
// shards, some share one.
func (s *shards) own() int { return s.part.Load().place % s.n }

// takes reports whether the replies of a shard fall to this coordinator.
func (s *shards) takes(shard int) bool {
	p := s.part.Load()
	parts := min(p.of, s.n)
	return shard%parts == p.place%parts
}

// consumeReplies takes the replies of the shards that fall to this coordinator, until ctx ends.
func (c *Coordinator) consumeReplies(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	taken := make([]context.CancelFunc, c.shards.n)
	shared := time.NewTimer(shardsShared)
	defer shared.Stop()
	for all := true; ctx.Err() == nil; {
		for i := range taken {
			switch take := all || c.shards.takes(i); {
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
		case <-c.shards.changed:
		case <-shared.C:
			all = false
		}
	}
	return g.Wait()
}

func (c *Coordinator) consumeShard(ctx context.Context, shard int) error {
	consumer := bus.Consumer{
		Stream: bus.Replies, Durable: fmt.Sprintf("coordinator-%d", shard),
		FilterSubjects: []string{wire.ReplySubject(c.cfg.Bus.Prefix(), "*", shard)},
		AckWait:        repliesAckWait, MaxAckPending: c.cfg.RepliesInFlight, MaxBatch: 512,
		DrainTimeout: c.cfg.StopTimeout / 2,
	}
	return c.cfg.Bus.Consume(ctx, consumer, func(d *bus.Delivery) { c.takeReply(ctx, d) })
}
