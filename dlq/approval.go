package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// ErrNoApproval says that there is no approval of that id.
var ErrNoApproval = errors.New("no such approval")

// ApprovalStatus is where an approval stands.
type ApprovalStatus string

// The states of an approval.
const (
	ApprovalOpen    ApprovalStatus = "open"
	ApprovalUsed    ApprovalStatus = "used"
	ApprovalRevoked ApprovalStatus = "revoked"
	ApprovalExpired ApprovalStatus = "expired"
)

// Approval is a second person's consent to one replay of a dead letter, as it was then (D4). With BreakGlass it is
// that of the person who replayed it, alone (E3).
type Approval struct {
	ID            uuid.UUID
	Tenant        string // of the dead letter
	DeadLetter    uuid.UUID
	LetterVersion int64
	Revision      int
	ContentSHA256 []byte
	Approver      string
	Reason        string
	BreakGlass    bool
	CreatedAt     time.Time
	ExpiresAt     time.Time
	UsedAt        time.Time // zero: not used
	UsedBy        string
	RevokedAt     time.Time // zero: not revoked
	RevokedBy     string
}

// Facts is what decides about a replay that names it (saga.JudgeLetter).
func (a *Approval) Facts() saga.Approval {
	facts := saga.Approval{
		DeadLetter: a.DeadLetter, Version: a.LetterVersion, Revision: a.Revision, Approver: a.Approver, ExpiresAt: a.ExpiresAt,
		Used: !a.UsedAt.IsZero(), Revoked: !a.RevokedAt.IsZero(),
	}
	copy(facts.ContentSHA256[:], a.ContentSHA256)
	return facts
}

// Status is where the approval stands at an instant.
func (a *Approval) Status(now time.Time) ApprovalStatus {
	switch {
	case !a.UsedAt.IsZero():
		return ApprovalUsed
	case !a.RevokedAt.IsZero():
		return ApprovalRevoked
	case !now.Before(a.ExpiresAt):
		return ApprovalExpired
	}
	return ApprovalOpen
}

// NewApproval makes the approval of a dead letter as it is now.
func NewApproval(l *DeadLetter, approver, reason string) (Approval, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Approval{}, fmt.Errorf("dlq: make an id: %w", err)
	}
	is := l.Facts().Binding()
	return Approval{
		ID: id, Tenant: l.Tenant, DeadLetter: l.ID, LetterVersion: is.Version, Revision: is.Revision,
		ContentSHA256: is.ContentSHA256[:], Approver: ActorText(approver), Reason: pg.Text(reason, saga.ReasonBytesMax),
	}, nil
}

const actorBytesMax = 256

// ActorText returns an actor's name as it is stored: whoever compares it with a stored one compares this.
func ActorText(actor string) string { return pg.Text(actor, actorBytesMax) }

// InsertApproval stores an approval that lasts so long from now on, by the database's clock, and returns it as stored.
func InsertApproval(ctx context.Context, db Querier, a Approval, expiry time.Duration) (Approval, error) {
	stored, err := oneApproval(ctx, db, sqlInsertApproval, append(a.args(), expiry)...)
	if err != nil {
		return Approval{}, fmt.Errorf("dlq: approve %s: %w", a.DeadLetter, err)
	}
	return stored, nil
}

func (a *Approval) args() []any {
	return []any{a.ID, a.Tenant, a.DeadLetter, a.LetterVersion, a.Revision, a.ContentSHA256, a.Approver, a.Reason}
}

// QueueUse adds the use of an approval to a batch that carries the replay out. The batch fails with CodeMoved if the
// approval was used or revoked, or has expired.
func QueueUse(batch *pgx.Batch, id uuid.UUID, actor string) {
	batch.Queue(sqlUseApproval, id, ActorText(actor))
}

// QueueBreakGlass adds an approval that its approver uses at once to a batch that carries the replay out.
func QueueBreakGlass(batch *pgx.Batch, a *Approval) { batch.Queue(sqlBreakGlass, a.args()...) }

// GetApproval returns an approval and the database's clock, or ErrNoApproval.
func GetApproval(ctx context.Context, db Querier, id uuid.UUID) (a Approval, now time.Time, err error) {
	return getApproval(ctx, db, sqlGetApproval, id)
}

func getApproval(ctx context.Context, db Querier, sql string, id uuid.UUID) (a Approval, now time.Time, err error) {
	rows, err := db.Query(ctx, sql, id)
	if err == nil {
		a, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Approval, error) { return scanApproval(row, &now) })
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoApproval
	}
	if err != nil {
		return Approval{}, now, fmt.Errorf("dlq: get approval %s: %w", id, err)
	}
	return a, now, nil
}

// RevokeParams says who ends which approval.
type RevokeParams struct {
	ID     uuid.UUID
	Actor  string
	Tenant string // only one for a dead letter of the tenant; "": of any
}

// RevokeApproval ends an approval that was not used, and returns it. Errors: ErrNoApproval, and the *saga.StateError of
// saga.JudgeRevoke. Call it in a transaction, which keeps others from using it meanwhile.
func RevokeApproval(ctx context.Context, tx pgx.Tx, p RevokeParams) (Approval, error) {
	id := p.ID
	a, now, err := getApproval(ctx, tx, sqlLockApproval, id)
	if err != nil {
		return a, err
	}
	if p.Tenant != "" && p.Tenant != a.Tenant {
		return Approval{}, fmt.Errorf("dlq: get approval %s: %w", id, ErrNoApproval)
	}
	if err := saga.JudgeRevoke(a.Facts(), now); err != nil {
		return a, err
	}
	if a, err = oneApproval(ctx, tx, sqlRevokeApproval, id, ActorText(p.Actor)); err != nil {
		return a, fmt.Errorf("dlq: revoke approval %s: %w", id, err)
	}
	return a, nil
}

// ApprovalFilter selects approvals; zero fields select all.
type ApprovalFilter struct {
	Before     uuid.UUID // only older ones: the id of the last one seen
	DeadLetter uuid.UUID
	Approver   string
	Status     ApprovalStatus
	Tenant     string // only those for dead letters of the tenant
	Limit      int    // zero: 50
}

// ListApprovals returns approvals, the newest first.
func ListApprovals(ctx context.Context, db Querier, f ApprovalFilter) ([]Approval, error) {
	if f.Limit == 0 {
		f.Limit = 50
	}
	rows, err := db.Query(ctx, sqlListApprovals, nullID(f.Before), nullID(f.DeadLetter), f.Approver, string(f.Status), f.Tenant, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("dlq: list approvals: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Approval, error) { return scanApproval(row) })
	if err != nil {
		return nil, fmt.Errorf("dlq: list approvals: %w", err)
	}
	return list, nil
}

func oneApproval(ctx context.Context, db Querier, sql string, args ...any) (Approval, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return Approval{}, err
	}
	return pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Approval, error) { return scanApproval(row) })
}

// scanApproval reads approvalColumns, behind those that go elsewhere.
func scanApproval(row pgx.CollectableRow, before ...any) (a Approval, err error) {
	var used, revoked *time.Time
	err = row.Scan(append(before, &a.ID, &a.Tenant, &a.DeadLetter, &a.LetterVersion, &a.Revision, &a.ContentSHA256, &a.Approver,
		&a.Reason, &a.BreakGlass, &a.CreatedAt, &a.ExpiresAt, &used, &a.UsedBy, &revoked, &a.RevokedBy)...)
	a.CreatedAt, a.ExpiresAt = a.CreatedAt.UTC(), a.ExpiresAt.UTC()
	if used != nil {
		a.UsedAt = used.UTC()
	}
	if revoked != nil {
		a.RevokedAt = revoked.UTC()
	}
	return a, err
}
