package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

// What operators do about approvals, as the audit calls it.
const (
	actionRevoke     = "revoke"
	actionBreakGlass = "break_glass"
)

// ApproveParams says who approves one replay of which dead letter, and why.
type ApproveParams struct {
	Actor      string
	DeadLetter uuid.UUID
	Version    int64 // of the dead letter that the approver saw; zero: whatever it is now
	Reason     string
	ExpiresIn  time.Duration // zero: as the coordinator is configured; at most 24h
	Tenant     string        // only a dead letter of this tenant; "": of any
}

// RevokeParams says who revokes which approval, and why.
type RevokeParams struct {
	Actor  string
	ID     uuid.UUID
	Reason string
	Tenant string // only one for a dead letter of this tenant; "": of any
}

// checkApproving refuses what cannot be meant.
func checkApproving(p LetterParams) error {
	switch {
	case p.BreakGlass && p.Approval != uuid.Nil:
		return &saga.InvalidError{
			Code: "invalid_value", Field: "break_glass", Problem: "is given together with an approval", Fix: "give one of them",
		}
	case p.BreakGlass:
		return saga.CheckBreakGlass(p.Reason)
	}
	return nil
}

// Approve allows somebody else one replay of an open dead letter as it is now (D4). Errors: dlq.ErrNotFound, ErrStale,
// *saga.StateError: obsolete, not_a_dead_letter; *saga.InvalidError invalid_duration.
func (a Admin) Approve(ctx context.Context, p ApproveParams) (dlq.Approval, error) {
	expiry, err := saga.ApprovalExpiry(p.ExpiresIn, a.c.cfg.ApprovalExpiry)
	if err != nil {
		return dlq.Approval{}, err
	}
	entry := dlq.AuditEntry{
		Actor: p.Actor, Action: string(saga.LetterApprove), Object: p.DeadLetter.String(), Allowed: true, Reason: p.Reason,
	}
	l, err := a.judge(ctx, saga.LetterApprove, LetterParams{Actor: p.Actor, DeadLetter: p.DeadLetter, Version: p.Version, Tenant: p.Tenant})
	entry.Tenant = cmp.Or(p.Tenant, l.Tenant)
	if err != nil {
		return dlq.Approval{}, a.recordRefusal(ctx, entry, err)
	}
	approval, err := dlq.NewApproval(&l.DeadLetter, p.Actor, p.Reason)
	if err != nil {
		return dlq.Approval{}, err
	}
	err = pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) (err error) {
		if approval, err = dlq.InsertApproval(ctx, tx, approval, expiry); err != nil {
			return err
		}
		entry.Detail = fmt.Sprintf("approval %s of version %d, until %s", approval.ID, approval.LetterVersion, approval.ExpiresAt.Format(time.RFC3339))
		return dlq.InsertAudit(ctx, tx, entry)
	})
	return approval, writeError("approving "+entry.Object, err)
}

// Approvals lists approvals, the newest first.
func (a Admin) Approvals(ctx context.Context, f dlq.ApprovalFilter) ([]dlq.Approval, error) {
	return dlq.ListApprovals(ctx, a.c.cfg.Pool, f)
}

// RevokeApproval ends an approval that was not used. Errors: dlq.ErrNoApproval, and *saga.StateError: approval_used,
// approval_revoked, approval_expired.
func (a Admin) RevokeApproval(ctx context.Context, p RevokeParams) (approval dlq.Approval, err error) {
	entry := dlq.AuditEntry{Tenant: p.Tenant, Actor: p.Actor, Action: actionRevoke, Object: p.ID.String(), Allowed: true, Reason: p.Reason}
	err = pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) (err error) {
		approval, err = dlq.RevokeApproval(ctx, tx, dlq.RevokeParams{ID: p.ID, Actor: p.Actor, Tenant: p.Tenant})
		if approval.ID != uuid.Nil { // beside what else was done about the dead letter
			entry.Tenant, entry.Object, entry.Detail = approval.Tenant, approval.DeadLetter.String(), "approval "+p.ID.String()
		}
		if err != nil {
			return err
		}
		return dlq.InsertAudit(ctx, tx, entry)
	})
	if err != nil {
		return dlq.Approval{}, a.recordRefusal(ctx, entry, writeError("revoking "+p.ID.String(), err))
	}
	return approval, nil
}

// readApproval adds what is known of the approval that a replay names, and how it is to be used. It returns the
// database's clock.
func (a Admin) readApproval(ctx context.Context, l *judged, r *saga.LetterRequest) (now time.Time, err error) {
	now = a.c.store.clock.now()
	switch {
	case l.params.BreakGlass:
		own, err := dlq.NewApproval(&l.DeadLetter, l.params.Actor, l.params.Reason)
		l.use = &approvalUse{approval: own, actor: l.params.Actor, own: true, letter: l.DeadLetter}
		return now, err
	case l.params.Approval == uuid.Nil:
		return now, nil
	}
	approval, now, err := dlq.GetApproval(ctx, a.c.cfg.Pool, l.params.Approval)
	switch {
	case errors.Is(err, dlq.ErrNoApproval):
		r.Approval = &saga.Approval{}
		return now, nil
	case err != nil:
		return now, err
	}
	facts := approval.Facts()
	r.Approval, l.use = &facts, &approvalUse{approval: approval, actor: l.params.Actor}
	return now, nil
}

// approvalUse is the approval that a replay uses up, in the write that carries it out.
type approvalUse struct {
	approval dlq.Approval
	actor    string
	own      bool // break-glass: it is made and used at once
	letter   dlq.DeadLetter
}

// queue adds the use to the batch that carries the replay out. Of a broken glass everybody is told (E3).
func (u *approvalUse) queue(batch *pgx.Batch) error {
	if !u.own {
		dlq.QueueUse(batch, u.approval.ID, u.actor)
		return nil
	}
	dlq.QueueBreakGlass(batch, &u.approval)
	dlq.QueueAudit(batch, dlq.AuditEntry{
		Tenant: u.approval.Tenant, Actor: u.actor, Action: actionBreakGlass, Object: u.approval.DeadLetter.String(), Allowed: true,
		Reason: u.approval.Reason, Detail: "replayed with nobody else's approval: " + u.detail(),
	})
	return notify.Queue(batch, breakGlassNotice(&u.letter, u.approval.Approver))
}

// detail is what the audit says of a replay with the approval.
func (u *approvalUse) detail() string {
	if u.own {
		return "approval " + u.approval.ID.String() + ", break-glass"
	}
	return "approval " + u.approval.ID.String() + " of " + u.approval.Approver
}

// logGlassBroken says in the log that somebody has replayed what nobody else approved (E3).
func (a Admin) logGlassBroken(l *judged) {
	a.c.log.Warn("break-glass: a dead letter is replayed with nobody else's approval", "dead_letter", l.ID.String(),
		"transaction", l.TransactionID.String(), "step", l.Step, "phase", l.Phase, "actor", dlq.ActorText(l.params.Actor), "reason", text(l.params.Reason))
}
