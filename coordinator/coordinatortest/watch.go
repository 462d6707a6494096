package coordinatortest

import (
	"context"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// watch follows a transaction.
type watch struct {
	e    *engine
	id   saga.ID
	last int64
}

// Watch begins to follow a transaction.
func (e *engine) Watch(_ coordinator.Caller, id saga.ID) coordinator.Watcher {
	return &watch{e: e, id: id, last: -1}
}

// Next returns the transaction as it is, and from then on each time it has changed.
func (w *watch) Next(ctx context.Context) (coordinator.View, error) {
	k, err := w.e.find(w.id)
	if err != nil {
		return coordinator.View{}, err
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	for {
		switch {
		case k.Tx.Version > w.last:
			w.last = k.Tx.Version
			return k.View(), nil
		case w.e.stopped:
			return coordinator.View{}, coordinator.ErrOverloaded
		case ctx.Err() != nil:
			return coordinator.View{}, ctx.Err()
		}
		changed := w.e.changed
		w.e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		w.e.mu.Lock()
	}
}

// Close ends it.
func (w *watch) Close() {}
