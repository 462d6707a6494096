package coordinator

import (
	"slices"
	"sync"

	"github.com/sagacity-tx/sagacity/saga"
)

// waiters tells those who wait for a transaction how it ended. Each gets one record at most; records are not
// changed once they are stored, so they may be shared.
type waiters struct {
	mu sync.Mutex
	by map[saga.ID][]chan *record
}

// add registers interest. Call remove when done.
func (w *waiters) add(id saga.ID) chan *record {
	ch := make(chan *record, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = make(map[saga.ID][]chan *record)
	}
	w.by[id] = append(w.by[id], ch)
	return ch
}

func (w *waiters) remove(id saga.ID, ch chan *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.DeleteFunc(w.by[id], func(other chan *record) bool { return other == ch })
	if w.by[id] = list; len(list) == 0 {
		delete(w.by, id)
	}
}

func (w *waiters) notify(r *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range w.by[r.tx.ID] {
		ch <- r
	}
	delete(w.by, r.tx.ID)
}

// ids returns what is waited for.
func (w *waiters) ids() []saga.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]saga.ID, 0, len(w.by))
	for id := range w.by {
		list = append(list, id)
	}
	return list
}
