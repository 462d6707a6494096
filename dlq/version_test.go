package dlq_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// An operator's action names the version that the operator saw. A dead letter that was replayed and has opened again
// since then is another one, although it is open: the whole batch is refused (D2).
func TestStaleVersion(t *testing.T) {
	t.Parallel()
	for _, to := range []saga.DeadLetterStatus{saga.DeadLetterReplaying, saga.DeadLetterDiscarded} {
		pool := testdb.New(t, schema)
		c := buried(saga.ID(newID(t)), 1, "no answer")
		seen := func(version int64, to saga.DeadLetterStatus) dlq.Change {
			change := moved(c, to)
			change.Version = version
			return change
		}
		for _, change := range []dlq.Change{c, seen(1, saga.DeadLetterReplaying), c} { // now it is open, at version 3
			if err := queue(t, pool, change); err != nil {
				t.Fatal(err)
			}
		}
		other := buried(saga.ID(newID(t)), 1, "stored with it or not at all")
		for _, version := range []int64{1, 2, 4} {
			if err := queue(t, pool, other, seen(version, to)); pg.Code(err) != dlq.CodeMoved {
				t.Errorf("%s at version %d of 3: %v", to, version, err)
			}
		}
		if letters := list(t, pool, dlq.Filter{}); len(letters) != 1 || letters[0].Version != 3 || letters[0].Status != saga.DeadLetterOpen {
			t.Errorf("refused actions have left %+v", letters)
		}
		if err := queue(t, pool, other, seen(3, to)); err != nil {
			t.Errorf("%s at the version that was seen: %v", to, err)
		}
	}
}
