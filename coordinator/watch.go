package coordinator

import (
	"context"
	"maps"
	"slices"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Watcher follows one transaction; *Watch is one.
type Watcher interface {
	Next(ctx context.Context) (View, error)
	Close()
}

// Watch follows one transaction. Close it when done; it is used by one goroutine.
type Watch struct {
	c      *Coordinator
	id     saga.ID
	caller Caller
	waiter *waiter
	last   int64 // the version that was returned last
	begun  bool
}

// Watch begins to follow a transaction of the caller. Next returns ErrNotFound if there is none.
func (c *Coordinator) Watch(caller Caller, id saga.ID) Watcher {
	return &Watch{c: c, id: id, caller: caller, waiter: c.waiters.add(id, true)}
}

// Next returns the transaction as it is, and from then on each time it has changed. Whatever coordinator changed it, it
// shows within a second. Versions only grow; who asks late misses those between. It waits until ctx ends, and returns
// ctx's error then, or one that wraps ErrOverloaded when the coordinator stops. After the end nothing comes any more.
func (w *Watch) Next(ctx context.Context) (View, error) {
	if !w.begun {
		r, err := w.c.find(ctx, w.caller, w.id)
		if err != nil {
			return View{}, err
		}
		w.begun, w.last = true, r.tx.Version
		w.c.waiters.saw(w.waiter, w.last)
		return r.view(), nil
	}
	for {
		select {
		case r := <-w.waiter.ch:
			if r.tx.Version > w.last { // else it was on its way when the first was read
				w.last = r.tx.Version
				return r.view(), nil
			}
		case <-ctx.Done():
			return View{}, ctx.Err()
		case <-w.c.stopping:
			return View{}, errStopping
		}
	}
}

// Close ends it.
func (w *Watch) Close() { w.c.waiters.remove(w.id, w.waiter) }

// changesBatch bounds how many transactions are read at a time for those who watch them.
const changesBatch = 100

const sqlChanged = `
SELECT t.id FROM unnest($1::uuid[], $2::bigint[]) AS u (id, version) JOIN transactions t ON t.id = u.id
 WHERE t.version > u.version`

// noticeChanges tells those who watch of what other coordinators have changed: one query for all of them.
func (c *Coordinator) noticeChanges(ctx context.Context, watched map[saga.ID]int64) error {
	if len(watched) == 0 {
		return nil
	}
	var param ids
	var versions longs
	for _, id := range slices.SortedFunc(maps.Keys(watched), func(a, b saga.ID) int { return slices.Compare(a[:], b[:]) }) {
		param, versions = append(param, pg.UUID(id)), append(versions, watched[id])
	}
	changed, err := c.store.queryIDs(ctx, sqlChanged, param, versions)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(changed, changesBatch) {
		found, err := c.store.load(ctx, batch)
		if err != nil {
			return err
		}
		for _, r := range found {
			c.waiters.notify(r)
		}
	}
	return nil
}
