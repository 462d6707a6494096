package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Notices: what people have to know of, stored with what they tell of (E5).

// noticesOf adds those of a write: only dead letters suspend transactions, so a write without one has none.
func noticesOf(to []notify.Notice, w *write) []notify.Notice {
	for i := range w.letters {
		letter := &w.letters[i]
		if letter.To != saga.DeadLetterOpen {
			continue
		}
		fingerprint := letter.Fingerprint()
		to = append(to, notify.Notice{
			Kind: notify.KindDeadLetter, Group: fingerprint, Code: letter.Cause, Tenant: letter.Tenant,
			Object: "/v1/dead-letters?fingerprint=" + fingerprint,
			Summary: fmt.Sprintf("Dead letter: %s of action %s of participant %s, step %s, cause %s.",
				letter.Phase, letter.Command.Action, letter.Command.Participant, letter.Step, letter.Cause),
		})
	}
	if len(w.letters) == 0 || !w.rec.tx.Suspended() || w.before != nil && w.before.Suspended() {
		return to
	}
	id := w.rec.tx.ID.String()
	return append(to, notify.Notice{
		Kind: notify.KindSuspended, Group: w.rec.tx.Tenant + "/" + w.rec.def.Name, Tenant: w.rec.tx.Tenant,
		Object:  "/v1/transactions/" + id,
		Summary: fmt.Sprintf("Transaction %s of definition %s is suspended: it waits for a person.", id, w.rec.def.Name),
	})
}

// bury keeps a message that nobody understood, and tells of it.
func (c *Coordinator) bury(ctx context.Context, m wire.Message, participant string, cause error) error {
	return pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		if err := dlq.BuryMessage(ctx, tx, m, participant, saga.FaultUndecodable, cause.Error()); err != nil {
			return err
		}
		return notify.Insert(ctx, tx, notify.Notice{
			Kind: notify.KindDeadLetter, Group: "message/" + participant, Code: saga.FaultUndecodable,
			Object: "/v1/dead-letters?cause=" + saga.FaultUndecodable, Summary: "Dead letter: a message that nobody can understand.",
		})
	})
}

// pausedNotice tells of a pause.
func pausedNotice(what flow.Pause, actor string, automatic bool) notify.Notice {
	by := "by " + actor
	if automatic {
		by = "automatically: too many dead letters of one cause"
	}
	return notify.Notice{
		Kind: notify.KindPaused, Group: what.String(), Object: "/v1/pauses", Summary: fmt.Sprintf("Paused: %s, %s.", what.String(), by),
	}
}

// breakGlassNotice tells that somebody has replayed a dead letter with nobody else's approval (E3). It leads to the audit,
// which has the reason.
func breakGlassNotice(letter *dlq.DeadLetter, actor string) notify.Notice {
	id := letter.ID.String()
	return notify.Notice{
		Kind: notify.KindBreakGlass, Group: id, Tenant: letter.Tenant, Object: "/v1/audit?object=" + id,
		Summary: fmt.Sprintf("Break-glass: %s has replayed %s of action %s of participant %s, step %s, with nobody else's approval.",
			actor, letter.Phase, letter.Action, letter.Participant, letter.Step),
	}
}

// jobEndedNotice tells that a bulk replay has ended.
func jobEndedNotice(job *dlq.Job, to saga.JobState, items map[saga.JobItemState]int) notify.Notice {
	id := job.ID.String()
	return notify.Notice{
		Kind: notify.KindJobEnded, Group: id, Tenant: job.Tenant, Object: "/v1/jobs/" + id,
		Summary: fmt.Sprintf("Bulk replay %s is %s: %d verified, %d failed again, %d refused, %d skipped, %d without an answer yet.", id, to,
			items[saga.JobItemVerified], items[saga.JobItemFailedAgain], items[saga.JobItemRefused], items[saga.JobItemSkipped], items[saga.JobItemDispatched]),
	}
}

// jobHaltedNotice tells that a bulk replay has paused itself, and waits for a person.
func jobHaltedNotice(job *dlq.Job, why string) notify.Notice {
	id := job.ID.String()
	return notify.Notice{
		Kind: notify.KindPaused, Group: "job/" + id, Tenant: job.Tenant, Object: "/v1/jobs/" + id,
		Summary: fmt.Sprintf("Bulk replay %s has paused itself: %s.", id, why),
	}
}

// tellBreakers tells of participants that have become silent since it was called last. What cannot be stored now is tried
// again.
func (c *Coordinator) tellBreakers(ctx context.Context) error {
	var errs []error
	open := map[string]bool{}
	for name, f := range c.Flows() {
		if f.Breaker == flow.BreakerClosed {
			continue
		}
		open[name] = true
		if c.silent[name] {
			continue
		}
		err := notify.Insert(ctx, c.cfg.Pool, notify.Notice{
			Kind: notify.KindBreakerOpen, Group: name, Object: "/v1/participants",
			Summary: fmt.Sprintf("Participant %s is silent: its breaker is open, and what is for it waits.", name),
		})
		if err != nil {
			delete(open, name)
			errs = append(errs, err)
		}
	}
	c.silent = open
	return errors.Join(errs...)
}
