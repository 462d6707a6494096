package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga"
)

// Forget deletes at most limit dead letters that were closed, obsolete or discarded before an instant, the oldest first,
// and returns how many. Open ones and those being replayed stay (I-10).
func Forget(ctx context.Context, db Execer, before time.Time, limit int) (int, error) {
	tag, err := db.Exec(ctx, sqlForget, uuid.UUID(saga.FirstIDAt(before)), before, limit)
	if err != nil {
		return 0, fmt.Errorf("dlq: forget dead letters: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
