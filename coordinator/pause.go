package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// Paused is something that is paused (E2): nothing of it is sent. Replies are merged, deadlines go on, and what may be
// cancelled without sending anything is.
type Paused struct {
	flow.Pause
	ID        uuid.UUID
	Reason    string
	Actor     string
	Automatic bool // by a coordinator: too many dead letters of one cause
	CreatedAt time.Time
}

// PauseParams says who pauses what, and why.
type PauseParams struct {
	Actor  string
	What   flow.Pause
	Reason string
}

// ResumeParams says who ends which pause, and why.
type ResumeParams struct {
	Actor  string
	ID     uuid.UUID
	Reason string
}

// CodeTooManyPauses is the code of a *saga.InvalidError.
const CodeTooManyPauses = "too_many_pauses"

// PausesMax bounds the pauses: each command that is sent is compared with all of them.
const PausesMax = 200

const (
	actionPause  = "pause"
	actionResume = "resume"
)

const pauseColumns = `id, scope, definition, participant, action, reason, actor, automatic, created_at`

const (
	// The lock makes the count exact: of two pauses at one time the second counts the first.
	sqlLockPauses = `SELECT pg_advisory_xact_lock(hashtext('sagacity.pauses'))`

	sqlInsertPause = `
INSERT INTO pauses (id, scope, definition, participant, action, reason, actor, automatic)
SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE (SELECT count(*) FROM pauses) < $9
    ON CONFLICT (scope, definition, participant, action) DO NOTHING`

	sqlGetPause = `
SELECT ` + pauseColumns + ` FROM pauses WHERE scope = $1 AND definition = $2 AND participant = $3 AND action = $4`

	sqlListPauses = `SELECT ` + pauseColumns + ` FROM pauses ORDER BY id`

	sqlDeletePause = `DELETE FROM pauses WHERE id = $1 RETURNING ` + pauseColumns
)

func scanPause(row pgx.CollectableRow) (p Paused, err error) {
	err = row.Scan(&p.ID, (*string)(&p.Scope), &p.Definition, &p.Participant, &p.Action, &p.Reason, &p.Actor, &p.Automatic, &p.CreatedAt)
	p.CreatedAt = p.CreatedAt.UTC()
	return p, err
}

// Pause holds what is in a scope back: this coordinator sends nothing of it from now on, the others within about a second.
// What was sent before is carried out. Pausing the same again changes nothing: the answer is the pause that there is, with
// its reason, and created is false. Errors: *saga.InvalidError, also with CodeTooManyPauses.
func (a Admin) Pause(ctx context.Context, p PauseParams) (paused Paused, created bool, err error) {
	return a.c.pause(ctx, p, false)
}

func (c *Coordinator) pause(ctx context.Context, p PauseParams, automatic bool) (paused Paused, created bool, err error) {
	if err := p.What.Check(); err != nil {
		return paused, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return paused, false, errNoID
	}
	entry := dlq.AuditEntry{Actor: p.Actor, Action: actionPause, Object: p.What.String(), Allowed: true, Reason: p.Reason}
	err = pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlLockPauses); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlInsertPause, id, string(p.What.Scope), p.What.Definition, p.What.Participant, p.What.Action,
			text(p.Reason), text(p.Actor), automatic, PausesMax)
		if err != nil {
			return err
		}
		if created = tag.RowsAffected() == 1; created {
			if err := dlq.InsertAudit(ctx, tx, entry); err != nil {
				return err
			}
			if err := notify.Insert(ctx, tx, pausedNotice(p.What, p.Actor, automatic)); err != nil {
				return err
			}
		}
		paused, err = onePause(ctx, tx, sqlGetPause, string(p.What.Scope), p.What.Definition, p.What.Participant, p.What.Action)
		return err
	})
	if errors.Is(err, ErrNotFound) { // neither added nor there
		err = &saga.InvalidError{
			Code: CodeTooManyPauses, Field: "scope", Problem: fmt.Sprintf("is one more than the %d that may be paused", PausesMax),
			Fix: "resume something, or pause a larger scope",
		}
		return Paused{}, false, err
	}
	if err != nil {
		return Paused{}, false, writeError("pausing "+entry.Object, err)
	}
	c.applyPauses(ctx)
	return paused, created, nil
}

// Resume ends a pause, and returns it. What it held goes within about five seconds; a large backlog at the rate at which
// what waits may ask again. The error is ErrNotFound if there is no such pause, or no more.
func (a Admin) Resume(ctx context.Context, p ResumeParams) (paused Paused, err error) {
	entry := dlq.AuditEntry{Actor: p.Actor, Action: actionResume, Object: p.ID.String(), Allowed: true, Reason: p.Reason}
	err = pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) (err error) {
		if paused, err = onePause(ctx, tx, sqlDeletePause, p.ID); err != nil {
			return err
		}
		entry.Object = paused.String()
		return dlq.InsertAudit(ctx, tx, entry)
	})
	if err := a.recordRefusal(ctx, entry, writeError("resuming "+entry.Object, err)); err != nil {
		return Paused{}, err
	}
	a.c.applyPauses(ctx)
	return paused, nil
}

// Pauses lists what is paused, the oldest first.
func (a Admin) Pauses(ctx context.Context) ([]Paused, error) { return a.c.pauses(ctx) }

func (c *Coordinator) pauses(ctx context.Context) ([]Paused, error) {
	rows, err := c.cfg.Pool.Query(ctx, sqlListPauses)
	if err != nil {
		return nil, fmt.Errorf("listing pauses: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanPause)
	if err != nil {
		return nil, fmt.Errorf("listing pauses: %w", err)
	}
	return list, nil
}

func onePause(ctx context.Context, tx pgx.Tx, sql string, args ...any) (Paused, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return Paused{}, err
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPause)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, ErrNotFound
	}
	return p, err
}

// loadPauses lets the gate know what is paused.
func (c *Coordinator) loadPauses(ctx context.Context) error {
	c.gate.loading.Lock() // so that what was read first does not come last
	defer c.gate.loading.Unlock()
	list, err := c.pauses(ctx)
	if err == nil {
		c.gate.pause(list)
	}
	return err
}

// applyPauses lets a change show at once. If it cannot, it shows within a second, when they are read again.
func (c *Coordinator) applyPauses(ctx context.Context) {
	if err := c.loadPauses(ctx); err != nil {
		c.log.Warn("what is paused could not be read again yet, trying again", "error", err)
	}
}
