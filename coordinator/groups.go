package coordinator

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// groupSample is how many dead letters of a group are shown with it, and asked about together.
const groupSample = 20

// actionNote is what the audit calls a note on a group.
const actionNote = "note"

// Groups lists groups of dead letters of equal cause, the one seen first last.
func (a Admin) Groups(ctx context.Context, f dlq.GroupFilter) ([]dlq.Group, error) {
	return dlq.ListGroups(ctx, a.c.cfg.Pool, f)
}

// GroupDetail is a group with what operators wrote about it, and what replays of some of its dead letters would do.
type GroupDetail struct {
	dlq.Group
	Notes     []dlq.Note
	Sample    []PredictedLetter         // open ones, the newest first, at most 20
	Predicted map[saga.ReplayEffect]int // of the sample
}

// Group returns a group of dead letters, or dlq.ErrNotFound.
func (a Admin) Group(ctx context.Context, fingerprint, tenant string) (GroupDetail, error) {
	group, err := dlq.GetGroup(ctx, a.c.cfg.Pool, fingerprint, tenant)
	if err != nil {
		return GroupDetail{}, err
	}
	d := GroupDetail{Group: group, Predicted: map[saga.ReplayEffect]int{}}
	if d.Notes, err = dlq.Notes(ctx, a.c.cfg.Pool, fingerprint, tenant); err != nil {
		return d, err
	}
	sample, err := a.groupSample(ctx, fingerprint, tenant)
	if err != nil {
		return d, err
	}
	if d.Sample, err = a.c.predict(ctx, sample, nil); err != nil {
		return d, err
	}
	for i := range d.Sample {
		d.Predicted[d.Sample[i].Replay.Effect]++
	}
	return d, nil
}

func (a Admin) groupSample(ctx context.Context, fingerprint, tenant string) ([]dlq.DeadLetter, error) {
	return dlq.List(ctx, a.c.cfg.Pool, dlq.Filter{Fingerprint: fingerprint, Tenant: tenant, Status: saga.DeadLetterOpen, Limit: groupSample})
}

// GroupParams says who does something about which group; Text is a note.
type GroupParams struct {
	Actor       string
	Tenant      string // only its dead letters; "": all
	Fingerprint string
	Text        string
}

// InquireGroup asks about the dead letters that Group shows, as Inquire does. The error is dlq.ErrNotFound if there is no
// such group.
func (a Admin) InquireGroup(ctx context.Context, p GroupParams) error {
	entry := dlq.AuditEntry{Tenant: p.Tenant, Actor: p.Actor, Action: actionInquire, Object: p.Fingerprint, Allowed: true}
	_, err := dlq.GetGroup(ctx, a.c.cfg.Pool, p.Fingerprint, p.Tenant)
	var sample, open []dlq.DeadLetter
	if err == nil {
		sample, err = a.groupSample(ctx, p.Fingerprint, p.Tenant)
	}
	for i := range sample {
		if saga.JudgeInquiry(sample[i].Facts()) == nil {
			open = append(open, sample[i])
		}
	}
	if err == nil {
		err = a.c.inquire(ctx, open, entry)
	}
	return a.recordRefusal(ctx, entry, err)
}

// NoteGroup writes a note about a group, in one database transaction with its audit entry. Errors: dlq.ErrNotFound, and
// dlq.ErrTooManyNotes.
func (a Admin) NoteGroup(ctx context.Context, p GroupParams) (note dlq.Note, err error) {
	entry := dlq.AuditEntry{Tenant: p.Tenant, Actor: p.Actor, Action: actionNote, Object: p.Fingerprint, Allowed: true, Reason: p.Text}
	err = pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := dlq.GetGroup(ctx, tx, p.Fingerprint, p.Tenant); err != nil {
			return err
		}
		if note, err = dlq.AddNoteTx(ctx, tx, dlq.NoteParams{Tenant: p.Tenant, Fingerprint: p.Fingerprint, Actor: p.Actor, Text: p.Text}); err != nil {
			return err
		}
		return dlq.InsertAudit(ctx, tx, entry)
	})
	return note, a.recordRefusal(ctx, entry, writeError("noting on group "+p.Fingerprint, err))
}

// Audit lists what operators did and were not allowed to do, the newest first (D6).
func (a Admin) Audit(ctx context.Context, f dlq.AuditFilter) ([]dlq.AuditEntry, error) {
	return dlq.ListAudit(ctx, a.c.cfg.Pool, f)
}
