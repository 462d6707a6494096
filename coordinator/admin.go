package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
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
	Inquiry     *saga.Inquiry // nil: the participant was not asked of late
	Replay      saga.Prediction
}

const auditShown = 100

// DeadLetter returns one dead letter with all that is known about it, or dlq.ErrNotFound.
func (a Admin) DeadLetter(ctx context.Context, id uuid.UUID) (DeadLetterDetail, error) {
	letter, err := dlq.Get(ctx, a.c.cfg.Pool, id)
	if err == nil {
		err = dlq.Propose(ctx, a.c.cfg.Pool, &letter)
	}
	if err != nil {
		return DeadLetterDetail{}, err
	}
	d := DeadLetterDetail{DeadLetter: letter}
	objects := []string{id.String()}
	if letter.Kind == dlq.KindOperation {
		objects = append(objects, letter.TransactionID.String()) // what resolved it
	}
	if d.Audit, err = dlq.ListAudit(ctx, a.c.cfg.Pool, dlq.AuditFilter{Objects: objects, Limit: auditShown}); err != nil || letter.Kind != dlq.KindOperation {
		d.Replay = saga.PredictReplay(saga.ReplayFacts{Letter: letter.Facts()}, a.c.store.clock.now())
		return d, err
	}
	if d.Attempts, err = a.c.attempts(ctx, letter.TransactionID, letter.Step, letter.Phase); err != nil {
		return d, err
	}
	found, err := a.c.store.load(ctx, []saga.ID{letter.TransactionID})
	if err != nil {
		return d, err
	}
	if r := found[letter.TransactionID]; r != nil {
		view := r.view()
		d.Transaction = &view
	}
	predicted, err := a.c.predict(ctx, []dlq.DeadLetter{letter}, found)
	if err != nil {
		return d, err
	}
	d.Inquiry, d.Replay = predicted[0].Inquiry, predicted[0].Replay
	return d, nil
}

// LetterParams says who replays or discards which dead letter, and why.
type LetterParams struct {
	Actor      string
	DeadLetter uuid.UUID
	Version    int64 // of the dead letter that the operator saw; zero: whatever it is now
	Reason     string
	Approval   uuid.UUID // that a replay uses (D4); zero: none
	BreakGlass bool      // a replay approves itself, because no second person is there (E3)
	input      saga.Payload
	Tenant     string // only one of this tenant; "": of any
}

// ResolveParams says who resolves which transaction, and why.
type ResolveParams struct {
	Actor       string
	Transaction saga.ID
	Version     int64 // of the transaction that the operator saw; zero: whatever it is now
	Reason      string
	Tenant      string // only one of this tenant; "": of any
}

// What operators do, as the audit calls it.
const (
	actionResolve = "resolve"
	actionCancel  = "cancel"
)

// Replay sends a dead letter's operation again, with the same identity, once (D2). What is unknown or in conflict needs
// an approval of somebody else, or BreakGlass (D4). Errors: dlq.ErrNotFound, ErrStale, and *saga.StateError: obsolete
// after the decision (D3), not_a_dead_letter for a second click, approval_… for what is wrong with the approval;
// *saga.InvalidError break_glass_reason.
func (a Admin) Replay(ctx context.Context, p LetterParams) error {
	if err := checkApproving(p); err != nil {
		return err
	}
	_, err := a.act(ctx, saga.LetterReplay, p)
	return err
}

// Discard gives a dead letter up (S2.13): a saga or tcc try cancels its transaction, a pivot's try is fenced, and
// a confirm, cancel or retriable try is never done. The returned view is the transaction after that, nil for a
// message. Errors: as of Replay, and a *saga.StateError with the code fence.
func (a Admin) Discard(ctx context.Context, p LetterParams) (*View, error) {
	return a.act(ctx, saga.LetterDiscard, p)
}

// staleMax bounds how often an action is judged because the dead letter, or the approval, has just changed.
const staleMax = 3

// act is the one path of what is done about a dead letter.
func (a Admin) act(ctx context.Context, action saga.LetterAction, p LetterParams) (*View, error) {
	return a.actFor(ctx, action, p, nil)
}

// actFor is act, for an item of a job or for none.
func (a Admin) actFor(ctx context.Context, action saga.LetterAction, p LetterParams, job *dlq.JobItemRef) (view *View, err error) {
	entry := dlq.AuditEntry{Actor: p.Actor, Action: string(action), Object: p.DeadLetter.String(), Allowed: true, Reason: p.Reason}
	for range staleMax {
		var l judged
		l, err = a.judge(ctx, action, p)
		entry.Tenant = cmp.Or(p.Tenant, l.Tenant)
		if err != nil {
			break
		}
		l.job = job
		if view, err = a.carryOutLetter(ctx, l, entry); !errors.Is(err, ErrStale) {
			break
		}
	}
	return view, a.recordRefusal(ctx, entry, err)
}

// judged is a dead letter about which an action has been judged to go on.
type judged struct {
	dlq.DeadLetter
	action saga.LetterAction
	params LetterParams
	use    *approvalUse    // nil: none
	job    *dlq.JobItemRef // nil: none
}

// judge reads the dead letter, and the approval if one is named, and decides on what they are now.
func (a Admin) judge(ctx context.Context, action saga.LetterAction, p LetterParams) (l judged, err error) {
	l.action, l.params = action, p
	if l.DeadLetter, err = dlq.Get(ctx, a.c.cfg.Pool, p.DeadLetter); err != nil {
		return l, err
	}
	if !inScope(p.Tenant, l.Tenant) {
		return l, dlq.ErrNotFound
	}
	if err := dlq.Propose(ctx, a.c.cfg.Pool, &l.DeadLetter); err != nil { // after the dead letter, whose version the action names
		return l, err
	}
	r := saga.LetterRequest{
		Action: action, Actor: dlq.ActorText(p.Actor), Seen: p.Version, BreakGlass: p.BreakGlass, ApproveAll: a.c.cfg.ApproveAll,
	}
	now, err := a.readApproval(ctx, &l, &r)
	if err != nil {
		return l, err
	}
	return l, saga.JudgeLetter(l.Facts(), r, now)
}

// carryOutLetter does what was judged, on the dead letter as it was then: ErrStale if it, or the approval, has changed.
func (a Admin) carryOutLetter(ctx context.Context, l judged, entry dlq.AuditEntry) (*View, error) {
	facts := l.Facts()
	if facts.Message {
		return nil, a.discardMessage(ctx, &l.DeadLetter, entry)
	}
	if l.use != nil {
		entry.Detail = l.use.detail()
	}
	event := facts.Event(l.action)
	if l.action == saga.LetterEdit {
		event = saga.EditRequested{Step: l.Step, Phase: l.Phase, Input: l.params.input}
	}
	view, err := a.carryOut(ctx, &item{id: l.TransactionID, audit: &entry, letter: l.Version, approval: l.use, event: event, job: l.job})
	if err == nil && l.params.BreakGlass {
		a.logGlassBroken(&l)
	}
	return view, err
}

// discardMessage gives a message up, at the version that was read just now.
func (a Admin) discardMessage(ctx context.Context, letter *dlq.DeadLetter, entry dlq.AuditEntry) error {
	err := dlq.DiscardMessage(ctx, a.c.cfg.Pool, letter.ID, letter.Version, entry)
	switch {
	case pg.Code(err) == dlq.CodeMoved:
		return ErrStale // somebody else was faster
	case pg.CommitUnknown(err):
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// Resolve gives up all open dead letters of a transaction in one write (S2.13). What waited for them goes on, and
// then the transaction ends as resolved. Errors: ErrNotFound, ErrStale, and *saga.StateError: outstanding while it
// is undecided or operations without a dead letter are under way, obsolete once it has ended, not_a_dead_letter if
// nothing is to be given up.
func (a Admin) Resolve(ctx context.Context, p ResolveParams) (View, error) {
	entry := dlq.AuditEntry{Actor: p.Actor, Action: actionResolve, Object: p.Transaction.String(), Allowed: true, Reason: p.Reason}
	found, err := a.c.store.load(ctx, []saga.ID{p.Transaction}) // a lane would wait for a database that is away
	var view *View
	switch {
	case err != nil:
	case found[p.Transaction] == nil || !inScope(p.Tenant, found[p.Transaction].tx.Tenant):
		entry.Tenant, err = p.Tenant, ErrNotFound
	default:
		entry.Tenant = found[p.Transaction].tx.Tenant
		view, err = a.carryOut(ctx, &item{id: p.Transaction, audit: &entry, version: p.Version, event: saga.ResolveRequested{}})
	}
	if err := a.recordRefusal(ctx, entry, err); err != nil {
		return View{}, err
	}
	return *view, nil
}

// inScope reports whether an operator of the tenant scope, "" for all, may act on what is the tenant's.
func inScope(scope, tenant string) bool { return scope == "" || scope == tenant }

// RecordDenied records a call that was not let in, or that asked for what is not the caller's (D6).
func (a Admin) RecordDenied(ctx context.Context, e dlq.AuditEntry) error {
	return dlq.InsertAudit(ctx, a.c.cfg.Pool, e)
}

// carryOut judges an operator's event in its lane, and stores it with its audit entry.
func (a Admin) carryOut(ctx context.Context, it *item) (*View, error) {
	o, err := a.c.ask(ctx, it)
	if err != nil {
		return nil, err
	}
	view := o.rec.view()
	return &view, nil
}

// auditOf completes the entry of an action that is carried out: it names every operation whose effect is not known
// from now on (S2.13).
func auditOf(entry dlq.AuditEntry, effectUnknown []string) dlq.AuditEntry {
	if len(effectUnknown) > 0 {
		entry.Detail = "effect not known: " + strings.Join(effectUnknown, ", ")
	}
	return entry
}

// lateAudit makes the entry of a definitive reply to an operation that was given up: it changes nothing, and those
// who gave it up may want to know (S2.13).
func lateAudit(r saga.Reply) dlq.AuditEntry {
	return dlq.AuditEntry{
		Tenant: r.Tenant, Actor: "participant " + r.Participant, Action: "late_reply", Object: r.Transaction.String(), Allowed: true,
		Detail: fmt.Sprintf("%s/%s was given up, and is %s after all", r.Step, r.Phase, r.Outcome),
	}
}

// recordedError is why an action was not carried out, which the audit has.
type recordedError struct{ error }

func (e recordedError) Unwrap() error { return e.error }

// Recorded reports whether the audit has the refusal that the error of an action is: nobody has to record it again.
func Recorded(err error) bool {
	_, recorded := errors.AsType[recordedError](err)
	return recorded
}

// recordRefusal records an action that was not carried out, and returns why.
func (a Admin) recordRefusal(ctx context.Context, entry dlq.AuditEntry, err error) error {
	_, notAllowed := errors.AsType[*saga.StateError](err)
	if !notAllowed && !errors.Is(err, ErrStale) && !errors.Is(err, ErrDefinitionTaken) && !errors.Is(err, ErrNotFound) && !errors.Is(err, dlq.ErrNotFound) &&
		!errors.Is(err, dlq.ErrTooManyNotes) && !errors.Is(err, dlq.ErrNoJob) && !errors.Is(err, saga.ErrPlanChanged) &&
		!errors.Is(err, dlq.ErrNothingSelected) && !errors.Is(err, dlq.ErrTooManySelected) && !errors.Is(err, dlq.ErrNoApproval) {
		return err // carried out, or not judged at all
	}
	entry.Allowed, entry.Detail = false, err.Error()
	if auditErr := dlq.InsertAudit(ctx, a.c.cfg.Pool, entry); auditErr != nil {
		return errors.Join(err, auditErr)
	}
	return recordedError{err}
}
