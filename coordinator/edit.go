package coordinator

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// EditParams says who wants to replay which dead letter with which input, and why.
type EditParams struct {
	Actor      string
	DeadLetter uuid.UUID
	Version    int64 // of the dead letter that the operator saw; zero: whatever it is now
	Reason     string
	Input      []byte // JSON, at most saga.InputBytesMax
	Tenant     string // only a dead letter of this tenant; "": of any
}

// Edit proposes another input for a dead letter's operation, and asks its participant to reserve the next revision: from
// then on only that revision can run (S1.5). Once the participant has recorded it, Replay sends the proposal, with an
// approval of it. Editing again changes the proposal, and asks again if nothing is recorded. Errors: as of Replay, and
// *saga.StateError edit_disabled; *saga.InvalidError for what is no input.
func (a Admin) Edit(ctx context.Context, p EditParams) error {
	if err := saga.CheckInput(p.Input); err != nil {
		return err
	}
	if !a.c.cfg.AllowEdit {
		return a.refuseEdit(ctx, p)
	}
	_, err := a.act(ctx, saga.LetterEdit, LetterParams{
		Actor: p.Actor, DeadLetter: p.DeadLetter, Version: p.Version, Reason: p.Reason, Tenant: p.Tenant, input: saga.Payload{Data: p.Input},
	})
	return err
}

// refuseEdit says that edits are off, to whom the dead letter is anything.
func (a Admin) refuseEdit(ctx context.Context, p EditParams) error {
	letter, err := dlq.Get(ctx, a.c.cfg.Pool, p.DeadLetter)
	switch {
	case err != nil:
	case !inScope(p.Tenant, letter.Tenant):
		err = dlq.ErrNotFound
	default:
		err = &saga.StateError{Code: saga.CodeEditDisabled, Event: string(saga.LetterEdit), Problem: "the coordinator runs without --allow-edit"}
	}
	return a.recordRefusal(ctx, dlq.AuditEntry{
		Tenant: cmp.Or(p.Tenant, letter.Tenant), Actor: p.Actor, Action: string(saga.LetterEdit), Object: p.DeadLetter.String(), Reason: p.Reason,
	}, err)
}
