package coordinator

import (
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
		return a.recordRefusal(ctx, dlq.AuditEntry{
			Actor: p.Actor, Action: string(saga.LetterEdit), Object: p.DeadLetter.String(), Reason: p.Reason,
		}, &saga.StateError{Code: saga.CodeEditDisabled, Event: string(saga.LetterEdit), Problem: "the coordinator runs without --allow-edit"})
	}
	_, err := a.act(ctx, saga.LetterEdit, LetterParams{
		Actor: p.Actor, DeadLetter: p.DeadLetter, Version: p.Version, Reason: p.Reason, input: saga.Payload{Data: p.Input},
	})
	return err
}
