package coordinator

import (
	"context"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Deliver judges a reply at this coordinator, past NATS.
func (c *Coordinator) Deliver(ctx context.Context, r saga.Reply) error {
	_, err := c.ask(ctx, &item{id: r.Transaction, event: saga.Replied{Reply: r}})
	return err
}

// Wake lets this coordinator look at what is due of a transaction.
func (c *Coordinator) Wake(ctx context.Context, id saga.ID) error {
	_, err := c.ask(ctx, &item{id: id, event: saga.Woken{Heard: c.heard.snapshot()}})
	return err
}

// Cached reports the version of the transaction that the coordinator has in memory, or 0. Only for a
// coordinator that is idle.
func (c *Coordinator) Cached(id saga.ID) int64 {
	if r, ok := c.lane(id).cache.get(id); ok {
		return r.tx.Version
	}
	return 0
}

// Now is the coordinator's idea of the database's clock.
func (c *Coordinator) Now() time.Time { return c.store.clock.now() }

// Queued returns how many events wait for a lane.
func (c *Coordinator) Queued() (n int) {
	for _, l := range c.lanes {
		n += len(l.queue)
	}
	return n
}

// SubmissionBytes returns what submissions hold that are queued or being decided.
func (c *Coordinator) SubmissionBytes() int {
	c.entrance.mu.Lock()
	defer c.entrance.mu.Unlock()
	return c.entrance.rules.HeldBytes()
}

// SQLFloor is what looks for the oldest transaction that has not ended.
const SQLFloor = sqlFloor

// RaiseFloor looks for the floor now, and returns it.
func (c *Coordinator) RaiseFloor(ctx context.Context) (saga.ID, error) {
	err := c.raiseFloor(ctx)
	return *c.encoder.floor.Load(), err
}
