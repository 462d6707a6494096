package dlq

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// AuditEntry records what an operator did or was not allowed to do (D6). Entries are only ever added: the database refuses
// to change or remove one.
type AuditEntry struct {
	ID      uuid.UUID
	At      time.Time
	Tenant  string // whose the object is; "" if it belongs to none, or was not found
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
		uuid.Must(uuid.NewV7()), e.Tenant, ActorText(e.Actor), e.Action, e.Object, e.Allowed,
		pg.Text(e.Reason, saga.ReasonBytesMax), pg.Text(e.Detail, saga.ReasonBytesMax),
	}
}

// AuditFilter selects entries of the audit; zero fields select all.
type AuditFilter struct {
	Before  uuid.UUID // only older ones: the id of the last one seen
	Objects []string  // about one of them
	Tenant  string
	Actor   string
	Action  string
	Allowed *bool
	Since   time.Time
	Limit   int // zero: 50
}

// ListAudit returns entries, the newest first.
func ListAudit(ctx context.Context, db Querier, f AuditFilter) ([]AuditEntry, error) {
	var since *time.Time
	if !f.Since.IsZero() {
		since = &f.Since
	}
	rows, err := db.Query(ctx, sqlListAudit, nullID(f.Before), f.Objects, f.Tenant, f.Actor, f.Action, f.Allowed, since, cmp.Or(f.Limit, limitDefault))
	if err != nil {
		return nil, fmt.Errorf("dlq: list the audit: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AuditEntry])
	if err != nil {
		return nil, fmt.Errorf("dlq: list the audit: %w", err)
	}
	for i := range entries {
		entries[i].At = entries[i].At.UTC()
	}
	return entries, nil
}
