package coordinator

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sagacity-tx/sagacity/saga"
)

// waiters tells those who wait for a transaction how it ended, and those who watch it what it has become. Records are
// not changed once they are stored, so they may be shared.
type waiters struct {
	mu       sync.Mutex
	by       map[saga.ID][]*waiter
	watching atomic.Int64 // of these, those who want every change
}

// waiter is one who waits. Its channel holds the newest record that was not taken yet: who is slow misses those between.
type waiter struct {
	ch    chan *record
	every bool  // every change, not only the end
	seen  int64 // the version that was put into the channel last
}

// add registers interest in the end, or in every change. Call remove when done.
func (w *waiters) add(id saga.ID, every bool) *waiter {
	one := &waiter{ch: make(chan *record, 1), every: every}
	if every {
		w.watching.Add(1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = make(map[saga.ID][]*waiter)
	}
	w.by[id] = append(w.by[id], one)
	return one
}

func (w *waiters) remove(id saga.ID, one *waiter) {
	if one.every {
		w.watching.Add(-1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.DeleteFunc(w.by[id], func(other *waiter) bool { return other == one })
	if w.by[id] = list; len(list) == 0 {
		delete(w.by, id)
	}
}

// saw notes what the waiter has read by itself.
func (w *waiters) saw(one *waiter, version int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.seen = max(one.seen, version)
}

// notify tells of a change that is stored. It never waits.
func (w *waiters) notify(r *record) {
	ended := r.tx.Status.Terminal()
	if !ended && w.watching.Load() == 0 {
		return // nearly always: this is the hot path
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.by[r.tx.ID] {
		if !ended && !one.every || r.tx.Version <= one.seen {
			continue
		}
		one.seen = r.tx.Version
		select {
		case <-one.ch: // the newer one takes its place
		default:
		}
		one.ch <- r
	}
}

// awaited returns what is waited for, and what is watched with the version that all its watchers know.
func (w *waiters) awaited() (ends []saga.ID, watched map[saga.ID]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched = map[saga.ID]int64{}
	for id, list := range w.by {
		for _, one := range list {
			if !one.every {
				continue
			}
			if known, ok := watched[id]; !ok || one.seen < known {
				watched[id] = one.seen
			}
		}
		if _, ok := watched[id]; !ok {
			ends = append(ends, id)
		}
	}
	return ends, watched
}
