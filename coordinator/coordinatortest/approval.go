package coordinatortest

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Approve allows somebody else one replay (D4).
func (e *engine) Approve(_ context.Context, p coordinator.ApproveParams) (dlq.Approval, error) {
	expiry, err := saga.ApprovalExpiry(p.ExpiresIn, 0)
	if err != nil {
		return dlq.Approval{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	entry := dlq.AuditEntry{
		Actor: p.Actor, Action: string(saga.LetterApprove), Object: p.DeadLetter.String(), Allowed: true, Reason: p.Reason,
	}
	l := e.letterByID(p.DeadLetter)
	if l == nil {
		return dlq.Approval{}, e.refuse(entry, dlq.ErrNotFound)
	}
	if err := saga.JudgeLetter(l.Facts(), saga.LetterRequest{Action: saga.LetterApprove, Seen: p.Version}, e.now); err != nil {
		return dlq.Approval{}, e.refuse(entry, err)
	}
	a, err := dlq.NewApproval(l, p.Actor, p.Reason)
	if err != nil {
		return a, err
	}
	a.CreatedAt, a.ExpiresAt = e.now, e.now.Add(expiry)
	e.approvals = append(e.approvals, &a)
	e.record(entry)
	e.note("dead letter %s/%s is approved by %+q", l.Step, l.Phase, a.Approver)
	return a, nil
}

// Edit is refused: nothing is edited in memory.
func (e *engine) Edit(_ context.Context, p coordinator.EditParams) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	entry := dlq.AuditEntry{Actor: p.Actor, Action: string(saga.LetterEdit), Object: p.DeadLetter.String(), Reason: p.Reason}
	return e.refuse(entry, &saga.StateError{
		Code: saga.CodeEditDisabled, Event: string(saga.LetterEdit), Problem: "the coordinator in memory does not edit",
	})
}

// Approvals lists approvals, the newest first.
func (e *engine) Approvals(_ context.Context, f dlq.ApprovalFilter) ([]dlq.Approval, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	var list []dlq.Approval
	for _, a := range slices.Backward(e.approvals) {
		if len(list) == f.Limit {
			break
		}
		if (f.Before == uuid.Nil || a.ID.String() < f.Before.String()) && (f.DeadLetter == uuid.Nil || a.DeadLetter == f.DeadLetter) &&
			(f.Approver == "" || a.Approver == f.Approver) && (f.Status == "" || a.Status(e.now) == f.Status) {
			list = append(list, *a)
		}
	}
	return list, nil
}

// RevokeApproval ends an approval that was not used.
func (e *engine) RevokeApproval(_ context.Context, p coordinator.RevokeParams) (dlq.Approval, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	entry := dlq.AuditEntry{Actor: p.Actor, Action: "revoke", Object: p.ID.String(), Allowed: true, Reason: p.Reason}
	a := e.approvalByID(p.ID)
	if a == nil {
		return dlq.Approval{}, e.refuse(entry, dlq.ErrNoApproval)
	}
	entry.Object = a.DeadLetter.String()
	if err := saga.JudgeRevoke(a.Facts(), e.now); err != nil {
		return dlq.Approval{}, e.refuse(entry, err)
	}
	a.RevokedAt, a.RevokedBy = e.now, dlq.ActorText(p.Actor)
	e.record(entry)
	return *a, nil
}

func (e *engine) approvalByID(id uuid.UUID) *dlq.Approval {
	for _, a := range e.approvals {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// approving returns the action with what is known of the approval that it names, and the approval to be used, if any.
func (e *engine) approving(action saga.LetterAction, p coordinator.LetterParams) (saga.LetterRequest, *dlq.Approval) {
	r := saga.LetterRequest{Action: action, Actor: dlq.ActorText(p.Actor), Seen: p.Version, BreakGlass: p.BreakGlass}
	if p.Approval == uuid.Nil {
		return r, nil
	}
	a := e.approvalByID(p.Approval)
	r.Approval = &saga.Approval{}
	if a != nil {
		*r.Approval = a.Facts()
	}
	return r, a
}

// used keeps that an approval was used, or that nobody else has approved (E3).
func (e *engine) used(l *dlq.DeadLetter, a *dlq.Approval, p coordinator.LetterParams) error {
	switch {
	case a != nil:
		a.UsedAt, a.UsedBy = e.now, dlq.ActorText(p.Actor)
	case p.BreakGlass:
		own, err := dlq.NewApproval(l, p.Actor, p.Reason)
		if err != nil {
			return err
		}
		own.BreakGlass, own.CreatedAt, own.ExpiresAt, own.UsedAt, own.UsedBy = true, e.now, e.now, e.now, own.Approver
		e.approvals = append(e.approvals, &own)
		e.record(dlq.AuditEntry{Actor: p.Actor, Action: "break_glass", Object: l.ID.String(), Allowed: true, Reason: p.Reason})
		e.note("dead letter %s/%s is replayed with nobody else's approval by %+q", l.Step, l.Phase, own.Approver)
	}
	return nil
}
