package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// AuditEntry records what an operator did or was not allowed to do (D6). Entries are only ever added.
type AuditEntry struct {
	ID      uuid.UUID
	At      time.Time
	Actor   string
	Action  string // replay, discard, cancel …
	Object  string // the dead letter's or transaction's id
	Allowed bool
	Reason  string // why the operator did it
	Detail  string // why it was refused; of a discard or resolve: the operations whose effect is not known
}

// QueueAudit adds the entry to a batch that carries the action out.
func QueueAudit(batch *pgx.Batch, e AuditEntry) {
	batch.Queue(sqlInsertAudit, e.args()...)
}

// InsertAudit records an action that changed nothing, such as one that was refused.
func InsertAudit(ctx context.Context, db Execer, e AuditEntry) error {
	if _, err := db.Exec(ctx, sqlInsertAudit, e.args()...); err != nil {
		return fmt.Errorf("dlq: record %s of %s by %s: %w", e.Action, e.Object, e.Actor, err)
	}
	return nil
}

func (e AuditEntry) args() []any {
	return []any{
		uuid.Must(uuid.NewV7()), pg.Text(e.Actor, 256), e.Action, e.Object, e.Allowed,
		pg.Text(e.Reason, saga.ReasonBytesMax), pg.Text(e.Detail, saga.ReasonBytesMax),
	}
}

// ListAudit returns the newest entries about some objects; nil selects all.
func ListAudit(ctx context.Context, db Querier, objects []string, limit int) ([]AuditEntry, error) {
	rows, err := db.Query(ctx, sqlListAudit, objects, limit)
	if err != nil {
		return nil, fmt.Errorf("dlq: list the audit: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AuditEntry])
	if err != nil {
		return nil, fmt.Errorf("dlq: list the audit: %w", err)
	}
	return entries, nil
}
