package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
)

// What coordinators do for bulk replays. All of them look after all jobs; what is decided is decided by saga.JobStep, and
// every replay goes the way of a single one, Admin.actFor, together with the note in its item. So a coordinator may die at
// any moment, and another may do the same at the same time: the version of the dead letter lets one of them win.

const (
	jobsIdle       = time.Second            // between looks for jobs while there are none
	jobsBusy       = 100 * time.Millisecond // while there are
	jobsAtOnce     = 4                      // that a coordinator looks after in one look
	jobItemLease   = 5 * time.Second        // after which what a coordinator has taken and not replayed goes to another
	jobItemsLook   = 500                    // items that are settled or predicted in one look
	jobReplays     = 16                     // replays of one job under way at one coordinator
	jobStepTimeout = 20 * time.Second
)

// lookAfterJobs lets a job begin at once.
func (c *Coordinator) lookAfterJobs() {
	select {
	case c.jobsDue <- struct{}{}:
	default:
	}
}

func (c *Coordinator) runJobs(ctx context.Context) error {
	for {
		pause := jobsIdle
		if c.stepJobs(ctx) {
			pause = jobsBusy
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-c.jobsDue:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// stepJobs does what is due for jobs, and reports whether there are any.
func (c *Coordinator) stepJobs(ctx context.Context) bool {
	ids, err := dlq.ClaimJobs(ctx, c.cfg.Pool, jobsBusy/2, jobsAtOnce)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("cannot look for jobs, trying again", "error", err)
	}
	for _, id := range ids {
		stepCtx, cancel := context.WithTimeout(ctx, jobStepTimeout)
		if err := c.stepJob(stepCtx, id); err != nil && ctx.Err() == nil {
			c.log.Warn("a job makes no progress, trying again", "job", id.String(), "error", err)
		}
		cancel()
	}
	return len(ids) > 0
}

// stepJob does what is due for one job.
func (c *Coordinator) stepJob(ctx context.Context, id uuid.UUID) error {
	ends, err := dlq.SettledJobItems(ctx, c.cfg.Pool, id, jobItemsLook)
	if err == nil {
		err = dlq.EndJobItems(ctx, c.cfg.Pool, id, saga.JobItemDispatched, ends)
	}
	if err != nil {
		return err
	}
	job, err := dlq.GetJob(ctx, c.cfg.Pool, id)
	if err != nil {
		return err
	}
	counts, err := dlq.CountJobItems(ctx, c.cfg.Pool, id, job.Canary)
	if err != nil {
		return err
	}
	var now time.Time
	if job.State == saga.JobPlanning {
		if now, err = dlq.CountJobPlan(ctx, c.cfg.Pool, id, &counts); err != nil {
			return err
		}
	}
	action, limit, why := saga.JobStep(job.State, job.Canary, job.CanaryPassed, counts, now)
	switch action {
	case saga.JobAsk:
		return c.askForJob(ctx, &job, counts.Unasked)
	case saga.JobPredict:
		return c.predictForJob(ctx, &job)
	case saga.JobDispatch:
		return c.dispatchForJob(ctx, &job, limit)
	case saga.JobPlan:
		return c.moveJob(ctx, &job, saga.JobPlanned, "", "")
	case saga.JobHalt:
		return c.moveJob(ctx, &job, saga.JobPaused, actionHaltJob, why)
	case saga.JobFinish:
		return c.moveJob(ctx, &job, saga.JobFinished, actionFinishJob, "")
	default:
		return nil
	}
}

// moveJob moves a job that is still as it was decided on.
func (c *Coordinator) moveJob(ctx context.Context, job *dlq.Job, to saga.JobState, action, why string) error {
	return pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		now, err := dlq.LockJobTx(ctx, tx, job.ID)
		if err != nil || now.Version != job.Version {
			return err
		}
		if err := moveJobTx(ctx, tx, &now, to, why, false); err != nil || action == "" {
			return err
		}
		return dlq.InsertAudit(ctx, tx, dlq.AuditEntry{
			Tenant: job.Tenant, Actor: actorJobs, Action: action, Object: job.ID.String(), Allowed: true, Reason: why,
		})
	})
}

// takeSlots gives out slots of a rate in a transaction that has locked the job, and returns how many; zero if the job has
// moved on since it was decided on.
func (c *Coordinator) takeSlots(ctx context.Context, tx pgx.Tx, job *dlq.Job, perSecond, wanted int) (int, error) {
	locked, err := dlq.LockJobTx(ctx, tx, job.ID)
	if err != nil || locked.Version != job.Version {
		return 0, err
	}
	n, next := saga.JobSlots(locked.NextAt, c.store.clock.now(), perSecond, wanted)
	if n == 0 {
		return 0, nil
	}
	return n, dlq.UseJobSlotsTx(ctx, tx, job.ID, next)
}

// askForJob sends inquiries about items that were not asked about, and notes that, in one transaction.
func (c *Coordinator) askForJob(ctx context.Context, job *dlq.Job, unasked int) error {
	var entries []outbox.Entry
	err := pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		n, err := c.takeSlots(ctx, tx, job, saga.JobAskRate, unasked)
		if err != nil || n == 0 {
			return err
		}
		items, err := dlq.UnaskedJobItemsTx(ctx, tx, job.ID, n)
		if err != nil {
			return err
		}
		letters, err := lettersOf(ctx, tx, items)
		if err != nil {
			return err
		}
		var open []dlq.DeadLetter
		for _, item := range items {
			if letter, found := letters[item.DeadLetter]; found && letter.Version == item.Version && saga.JudgeInquiry(letter.Facts()) == nil {
				open = append(open, letter)
			}
		}
		if len(open) > 0 {
			entries, err = c.sendInquiries(ctx, tx, &pgx.Batch{}, open, job.Actor)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("asking for job %s: %w", job.ID, err)
	}
	c.cfg.Relay.HandOff(entries...)
	return nil
}

func lettersOf(ctx context.Context, db dlq.Querier, items []dlq.TakenItem) (map[uuid.UUID]dlq.DeadLetter, error) {
	ids := make([]uuid.UUID, len(items))
	for i := range items {
		ids[i] = items[i].DeadLetter
	}
	return dlq.ByID(ctx, db, ids)
}

// predictForJob stores what the replays of items would do.
func (c *Coordinator) predictForJob(ctx context.Context, job *dlq.Job) error {
	items, err := dlq.UnpredictedJobItems(ctx, c.cfg.Pool, job.ID, jobItemsLook)
	if err != nil {
		return err
	}
	letters, err := lettersOf(ctx, c.cfg.Pool, items)
	if err != nil {
		return err
	}
	list := make([]dlq.DeadLetter, 0, len(letters))
	for _, letter := range letters {
		list = append(list, letter)
	}
	predicted, err := c.predict(ctx, list, nil)
	if err != nil {
		return err
	}
	effects := make(map[uuid.UUID]saga.ReplayEffect, len(predicted))
	for i := range predicted {
		effects[predicted[i].ID] = predicted[i].Replay.Effect
	}
	ends := make([]dlq.JobItemEnd, 0, len(items))
	for _, item := range items {
		letter, found := letters[item.DeadLetter]
		e := dlq.JobItemEnd{Seq: item.Seq, Effect: saga.ReplayNotOpen}
		if found {
			e.Effect = effects[item.DeadLetter]
		}
		asSelected := found && letter.Version == item.Version && letter.Status == saga.DeadLetterOpen
		e.State, e.Code = saga.JobItemPlanned(e.Effect, asSelected)
		ends = append(ends, e)
	}
	return dlq.EndJobItems(ctx, c.cfg.Pool, job.ID, saga.JobItemPending, ends)
}

// dispatchForJob replays items, as many as there are slots for.
func (c *Coordinator) dispatchForJob(ctx context.Context, job *dlq.Job, limit int) error {
	var items []dlq.TakenItem
	err := pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		n, err := c.takeSlots(ctx, tx, job, job.Rate, limit)
		if err == nil && n > 0 {
			items, err = dlq.ClaimJobItemsTx(ctx, tx, job.ID, n, jobItemLease)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("dispatching for job %s: %w", job.ID, err)
	}
	var group errgroup.Group
	group.SetLimit(jobReplays)
	for _, item := range items {
		group.Go(func() error { return c.replayForJob(ctx, job, item) })
	}
	return group.Wait()
}

// replayForJob replays one item, or notes why it was refused. What is not known to be done or refused is left: it is
// looked at again when the claim is over.
func (c *Coordinator) replayForJob(ctx context.Context, job *dlq.Job, item dlq.TakenItem) error {
	ref := dlq.JobItemRef{Job: job.ID, Seq: item.Seq}
	p := LetterParams{Actor: job.Actor, Tenant: job.Tenant, DeadLetter: item.DeadLetter, Version: item.Version, Reason: text("job " + job.ID.String() + ": " + job.Reason)}
	_, err := c.Admin().actFor(ctx, saga.LetterReplay, p, &ref)
	code := refusalCode(err)
	switch {
	case err == nil:
		return nil
	case code == "":
		return err
	case code == codeStale:
		now, lookErr := dlq.GetJob(ctx, c.cfg.Pool, job.ID)
		if lookErr != nil || now.State != saga.JobRunning { // paused meanwhile: it stays pending
			return errors.Join(lookErr, dlq.ReleaseJobItem(ctx, c.cfg.Pool, ref))
		}
	}
	return dlq.EndJobItems(ctx, c.cfg.Pool, job.ID, saga.JobItemPending, []dlq.JobItemEnd{{Seq: item.Seq, State: saga.JobItemRefused, Code: code}})
}

const codeStale = "stale"

// refusalCode returns the code of a replay that was refused for good; "" for what may pass.
func refusalCode(err error) string {
	state, refused := errors.AsType[*saga.StateError](err)
	switch {
	case refused:
		return state.Code
	case errors.Is(err, ErrStale):
		return codeStale
	case errors.Is(err, dlq.ErrNotFound), errors.Is(err, ErrNotFound):
		return "not_found"
	}
	return ""
}
