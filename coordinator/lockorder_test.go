package coordinator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Rows are locked in the order of their ids, whatever order they are named in: while the smallest is held by somebody
// else, none of the others is. So two batches never wait for each other in a circle (C9).
func TestLocksInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	var ids []uuid.UUID
	for range 8 {
		ids = append(ids, uuid.UUID(w.submit(c, define(saga.KindSaga, 1), "")))
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	holder, err := w.pool.Begin(w.ctx(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(t.Context())
	const lockOne = `SELECT id FROM transactions WHERE id = $1 FOR UPDATE NOWAIT`
	if _, err := holder.Exec(t.Context(), lockOne, ids[0]); err != nil {
		t.Fatal(err)
	}
	backwards := slices.Clone(ids)
	slices.Reverse(backwards)
	batch, err := w.pool.Begin(w.ctx(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Rollback(t.Context())
	sql := coordinatorStatements(t)
	if _, err := batch.Exec(t.Context(), sql["sqlSettings"]); err != nil {
		t.Fatal(err) // as a lane begins its batch: the plan is the one that it gets
	}
	locked := make(chan error, 1)
	go func() {
		_, err := batch.Exec(w.ctx(20*time.Second), sql["sqlLock"], backwards)
		locked <- err
	}()
	w.until("the batch waits", func() bool {
		return w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	for _, id := range ids[1:] {
		if _, err := w.pool.Exec(w.ctx(5*time.Second), lockOne, id); err != nil {
			t.Errorf("%s is locked before %s: %v", id, ids[0], pg.Code(err))
		}
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Error(err)
	}
}
