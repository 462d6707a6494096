package coordinator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// The floor is the oldest transaction that has not ended, and moves on when that one ends; it is never above what may still
// begin (B7). As long as it stays where it is, it is found by its key, however many wait.
func TestFloor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.unstarted()
	now := time.Now()
	old, older, young := saga.FirstIDAt(now.Add(-time.Hour)), saga.FirstIDAt(now.Add(-2*time.Hour)), saga.FirstIDAt(now.Add(-time.Minute))
	w.fill(1000) // that have ended, between the old ones and now
	for _, id := range []saga.ID{young, old, older} {
		w.exec(`INSERT INTO transactions (id, version, status, tenant, client, definition, definition_name, created_at, wake_at)
			VALUES ($1, 1, 'running', 'acme', 'shop', '\x00', 'order', now(), 'infinity')`, id.String())
	}
	raised := func() saga.ID {
		t.Helper()
		floor, err := c.RaiseFloor(w.ctx(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return floor
	}
	end := func(id saga.ID) {
		t.Helper()
		w.exec(`UPDATE transactions SET wake_at = NULL, finished_at = now() WHERE id = $1`, id.String())
	}
	for range 2 {
		if got := raised(); got != older {
			t.Errorf("the floor is %s, want the oldest, %s", got, older)
		}
	}
	if lines := w.aggregates(strings.ReplaceAll(coordinator.SQLFloor, "$1", "'"+older.String()+"'")); len(lines) != 1 || !strings.Contains(lines[0], "never executed") {
		t.Errorf("all that wait are read for a floor that stays: %q", lines)
	}
	end(older)
	if got := raised(); got != old {
		t.Errorf("the floor is %s, want the next one, %s", got, old)
	}
	end(old)
	if got := raised(); got == young || !got.Before(young) || got.Before(saga.FirstIDAt(now.Add(-11*time.Minute))) {
		t.Errorf("the floor is %s while only %s has not ended: want what began ten minutes ago", got, young)
	}
}

// aggregates runs a query and returns the lines of its plan that put rows together.
func (w *world) aggregates(sql string) []string {
	w.t.Helper()
	rows, err := w.pool.Query(w.ctx(10*time.Second), `EXPLAIN (ANALYZE) `+sql)
	if err != nil {
		w.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "Aggregate") })
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.ctx(10*time.Second), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}
