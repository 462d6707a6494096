package coordinatortest

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// What the HTTP API calls for operators (api.Admin): dead letters and the audit.

var _ api.Admin = (*engine)(nil)

// record keeps an entry of the audit.
func (e *engine) record(entry dlq.AuditEntry) {
	entry.ID, entry.At = uuid.Must(uuid.NewV7()), e.now
	e.audit = append(e.audit, entry)
}

// refuse records that an action was not carried out, and returns why.
func (e *engine) refuse(entry dlq.AuditEntry, err error) error {
	entry.Allowed, entry.Detail = false, err.Error()
	e.record(entry)
	return err
}

// letter returns the dead letter of an operation. There is at most one (D1).
func (e *engine) letter(id saga.ID, step string, phase saga.Phase) *dlq.DeadLetter {
	for _, l := range e.letters {
		if l.TransactionID == id && l.Step == step && l.Phase == phase {
			return l
		}
	}
	return nil
}

// changeLetter moves a dead letter to another state.
func (e *engine) changeLetter(k *kept, change *saga.DeadLetterChange) {
	l := e.letter(k.Tx.ID, change.Step, change.Phase)
	ended := l != nil && l.Status != saga.DeadLetterOpen && l.Status != saga.DeadLetterReplaying
	switch change.To {
	case saga.DeadLetterOpen:
		e.openLetter(k, l, change)
		return
	case saga.DeadLetterReplaying, saga.DeadLetterDiscarded:
		l.Attempt = change.Attempt
	default:
		if l == nil || ended {
			return
		}
	}
	l.Status, l.UpdatedAt = change.To, e.now
	l.Version++
	e.note("%s dead letter %s/%s is %s", short(k.Tx.ID), l.Step, l.Phase, l.Status)
}

// openLetter sets an operation aside, with what was sent last.
func (e *engine) openLetter(k *kept, l *dlq.DeadLetter, change *saga.DeadLetterChange) {
	cmd := change.Command
	message, _, err := transmit(&cmd)
	if err != nil {
		e.mistake("a command cannot be set aside: " + err.Error())
	}
	if l == nil {
		l = &dlq.DeadLetter{
			ID: uuid.Must(uuid.NewV7()), Kind: dlq.KindOperation, Tenant: k.Tx.Tenant, TransactionID: k.Tx.ID, Step: change.Step,
			Phase: change.Phase, Participant: cmd.Participant, Action: cmd.Action, Traceparent: cmd.Traceparent, BuriedAt: e.now,
		}
		e.letters = append(e.letters, l)
	}
	l.Status, l.UpdatedAt = saga.DeadLetterOpen, e.now
	l.Version++
	l.BuriedCount++
	l.Cause, l.Reason = saga.CleanText(change.Cause, saga.CodeBytesMax), saga.CleanText(change.Reason, saga.ReasonBytesMax)
	l.Fingerprint = dlq.Fingerprint(cmd.Participant, cmd.Action, string(change.Phase), l.Cause, l.Reason)
	l.Outcome, l.Attempt, l.Revision, l.ContentSHA256, l.Message = change.Outcome, change.Attempt, cmd.Revision, cmd.ContentSHA256[:], message
	e.note("%s dead letter %s/%s is open: %s %+q", short(k.Tx.ID), l.Step, l.Phase, l.Cause, l.Reason)
}

// DeadLetters lists dead letters, the newest first.
func (e *engine) DeadLetters(_ context.Context, f dlq.Filter) ([]dlq.DeadLetter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []dlq.DeadLetter
	for _, l := range slices.Backward(e.letters) {
		if len(list) == f.Limit {
			break
		}
		if (f.Before == uuid.Nil || l.ID.String() < f.Before.String()) && (f.Status == "" || l.Status == f.Status) &&
			(f.Participant == "" || l.Participant == f.Participant) && (f.Cause == "" || l.Cause == f.Cause) &&
			(f.TransactionID.IsZero() || l.TransactionID == f.TransactionID) && (f.Fingerprint == "" || l.Fingerprint == f.Fingerprint) {
			list = append(list, *l)
		}
	}
	return list, nil
}

// DeadLetter returns one dead letter with all that is known about it.
func (e *engine) DeadLetter(_ context.Context, id uuid.UUID) (coordinator.DeadLetterDetail, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.letterByID(id)
	if l == nil {
		return coordinator.DeadLetterDetail{}, dlq.ErrNotFound
	}
	k := e.transactions[l.TransactionID]
	view := k.View()
	d := coordinator.DeadLetterDetail{DeadLetter: *l, Transaction: &view}
	for _, a := range k.attempts {
		if a.Step == l.Step && a.Phase == l.Phase && len(d.Attempts) < attemptsShown {
			d.Attempts = append(d.Attempts, a)
		}
	}
	for _, entry := range slices.Backward(e.audit) {
		if entry.Object == id.String() || entry.Object == l.TransactionID.String() {
			d.Audit = append(d.Audit, entry)
		}
	}
	return d, nil
}

func (e *engine) letterByID(id uuid.UUID) *dlq.DeadLetter {
	for _, l := range e.letters {
		if l.ID == id {
			return l
		}
	}
	return nil
}

// Replay sends a dead letter's operation again (D2).
func (e *engine) Replay(_ context.Context, p coordinator.LetterParams) error {
	if p.BreakGlass {
		if err := saga.CheckBreakGlass(p.Reason); err != nil {
			return err
		}
	}
	_, err := e.act(saga.LetterReplay, p)
	return err
}

// Discard gives a dead letter up (S2.13).
func (e *engine) Discard(_ context.Context, p coordinator.LetterParams) (*coordinator.View, error) {
	return e.act(saga.LetterDiscard, p)
}

func (e *engine) act(action saga.LetterAction, p coordinator.LetterParams) (*coordinator.View, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := dlq.AuditEntry{Actor: p.Actor, Action: string(action), Object: p.DeadLetter.String(), Allowed: true, Reason: p.Reason}
	l := e.letterByID(p.DeadLetter)
	if l == nil {
		return nil, e.refuse(entry, fmt.Errorf("%w: %s", dlq.ErrNotFound, p.DeadLetter))
	}
	k := e.transactions[l.TransactionID]
	e.tick()
	r, approval := e.approving(action, p)
	before := *l
	err := saga.JudgeLetter(l.Facts(), r, e.now)
	if err == nil {
		err = e.do(k, l.Facts().Event(action), &entry, 0)
	}
	if err == nil {
		err = e.used(&before, approval, p)
	}
	if err != nil {
		return nil, e.refuse(entry, err)
	}
	view := k.View()
	return &view, nil
}

// Resolve gives up all open dead letters of a transaction (S2.13).
func (e *engine) Resolve(_ context.Context, p coordinator.ResolveParams) (coordinator.View, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := dlq.AuditEntry{Actor: p.Actor, Action: "resolve", Object: p.Transaction.String(), Allowed: true, Reason: p.Reason}
	k := e.transactions[p.Transaction]
	if k == nil {
		return coordinator.View{}, e.refuse(entry, coordinator.ErrNotFound)
	}
	if err := e.do(k, saga.ResolveRequested{}, &entry, p.Version); err != nil {
		return coordinator.View{}, e.refuse(entry, err)
	}
	return k.View(), nil
}
