package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/saga"
)

// Forget deletes at most limit dead letters that were closed, obsolete or discarded before an instant, the oldest first,
// with their approvals, and returns how many. Open ones and those being replayed stay (I-10).
func Forget(ctx context.Context, db Querier, before time.Time, limit int) (int, error) {
	return forgotten(ctx, db, "dead letters", sqlForget, before, limit)
}

// ForgetJob deletes the oldest job that has ended, or was never started, before an instant, with its items, and returns
// how many it has deleted: 0 or 1.
func ForgetJob(ctx context.Context, db Querier, before time.Time) (int, error) {
	return forgotten(ctx, db, "a job", sqlForgetJob, before)
}

func forgotten(ctx context.Context, db Querier, what, sql string, before time.Time, more ...any) (int, error) {
	rows, err := db.Query(ctx, sql, append([]any{uuid.UUID(saga.FirstIDAt(before)), before}, more...)...)
	if err != nil {
		return 0, fmt.Errorf("dlq: forget %s: %w", what, err)
	}
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("dlq: forget %s: %w", what, err)
	}
	return n, nil
}

// ForgetNotes deletes at most limit notes that were written before an instant on groups that have no dead letters any
// more, and returns how many.
func ForgetNotes(ctx context.Context, db Execer, before time.Time, limit int) (int, error) {
	tag, err := db.Exec(ctx, sqlForgetNotes, uuid.UUID(saga.FirstIDAt(before)), before, limit)
	if err != nil {
		return 0, fmt.Errorf("dlq: forget notes: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
