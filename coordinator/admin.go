package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Admin is the one door for operators' actions. Every action is recorded in the audit, in the database
// transaction that carries it out; refused ones too.
type Admin struct{ c *Coordinator }

// Admin returns the door for operators.
func (c *Coordinator) Admin() Admin { return Admin{c: c} }

// DeadLetters lists dead letters, the newest first.
func (a Admin) DeadLetters(ctx context.Context, f dlq.Filter) ([]dlq.DeadLetter, error) {
	return dlq.List(ctx, a.c.cfg.Pool, f)
}

// DeadLetterDetail is a dead letter with the history of its operation (D1).
type DeadLetterDetail struct {
	dlq.DeadLetter
	Attempts    []saga.AttemptEnd
	Transaction *View // nil for a message
	Audit       []dlq.AuditEntry
}

const auditShown = 100

// DeadLetter returns one dead letter with all that is known about it, or dlq.ErrNotFound.
func (a Admin) DeadLetter(ctx context.Context, id uuid.UUID) (DeadLetterDetail, error) {
	letter, err := dlq.Get(ctx, a.c.cfg.Pool, id)
	if err != nil {
		return DeadLetterDetail{}, err
	}
	d := DeadLetterDetail{DeadLetter: letter}
	if d.Audit, err = dlq.ListAudit(ctx, a.c.cfg.Pool, id.String(), auditShown); err != nil || letter.Kind != dlq.KindOperation {
		return d, err
	}
	if d.Attempts, err = a.c.attempts(ctx, letter.TransactionID, letter.Step, letter.Phase); err != nil {
		return d, err
	}
	found, err := a.c.store.load(ctx, []saga.ID{letter.TransactionID})
	if r := found[letter.TransactionID]; r != nil {
		view := r.view()
		d.Transaction = &view
	}
	return d, err
}

// ReplayParams says who replays what, and why.
type ReplayParams struct {
	Actor      string
	DeadLetter uuid.UUID
	Version    int64 // of the dead letter that the operator saw; zero: whatever it is now
	Reason     string
}

// Replay sends a dead letter's operation again, with the same identity, once (D2). Errors: dlq.ErrNotFound,
// ErrStale, and *saga.StateError: obsolete after the decision (D3), not_a_dead_letter for a second click.
func (a Admin) Replay(ctx context.Context, p ReplayParams) error {
	letter, err := dlq.Get(ctx, a.c.cfg.Pool, p.DeadLetter)
	entry := dlq.AuditEntry{Actor: p.Actor, Action: "replay", Object: p.DeadLetter.String(), Allowed: true, Reason: p.Reason}
	switch {
	case err != nil:
	case letter.Kind != dlq.KindOperation:
		err = &saga.StateError{Code: saga.CodeNotDeadLetter, Event: "replay", Problem: "bytes that nobody understood cannot be sent again"}
	case letter.Status == saga.DeadLetterObsolete:
		err = &saga.StateError{Code: saga.CodeObsolete, Event: "replay", Operation: letter.Step + "/" + string(letter.Phase),
			Problem: "the transaction has been decided without it"}
	case p.Version != 0 && p.Version != letter.Version:
		err = fmt.Errorf("%w: version %d is now %d", ErrStale, p.Version, letter.Version)
	default:
		_, err = a.c.ask(ctx, &item{
			id: letter.TransactionID, audit: &entry, letter: p.Version,
			event: saga.ReplayRequested{Step: letter.Step, Phase: letter.Phase},
		})
	}
	return a.recordRefusal(ctx, entry, err)
}

// recordRefusal records an action that was not carried out, and returns why.
func (a Admin) recordRefusal(ctx context.Context, entry dlq.AuditEntry, err error) error {
	if err == nil || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrOverloaded) {
		return err
	}
	entry.Allowed, entry.Detail = false, err.Error()
	if auditErr := dlq.InsertAudit(ctx, a.c.cfg.Pool, entry); auditErr != nil {
		return errors.Join(err, auditErr)
	}
	return err
}
