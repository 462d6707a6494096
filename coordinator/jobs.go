package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

// Bulk replays (D5): what operators ask of them. What coordinators do for them is in job_run.go.

const (
	actionCreateJob = "create_job"
	actionFinishJob = "finish_job"
	actionHaltJob   = "halt_job"
	actorJobs       = "coordinator"
)

// Codes of *saga.InvalidError.
const (
	CodeEmptySelection = "empty_selection"
)

// JobDetail is a job with counts of its items.
type JobDetail struct {
	dlq.Job
	Items     map[saga.JobItemState]int
	CanaryNow map[saga.JobItemState]int // of the canary
	Predicted map[saga.ReplayEffect]int // by the dry run; "": not yet
}

// CreateJob freezes the open dead letters that are selected, and begins the dry run: participants are asked, and nothing is
// replayed. An empty selection is refused. Errors: *saga.InvalidError; dlq.ErrNothingSelected, dlq.ErrTooManySelected.
func (a Admin) CreateJob(ctx context.Context, p dlq.JobParams) (job JobDetail, err error) {
	entry := dlq.AuditEntry{Tenant: p.Tenant, Actor: p.Actor, Action: actionCreateJob, Object: "selection " + selectionText(&p.Selection), Allowed: true, Reason: p.Reason}
	if err := checkJob(&p); err != nil {
		return job, err
	}
	err = pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) error {
		if job.Job, err = dlq.CreateJobTx(ctx, tx, p); err != nil {
			return err
		}
		entry.Object, entry.Detail = job.ID.String(), entry.Object
		return dlq.InsertAudit(ctx, tx, entry)
	})
	if err := a.recordRefusal(ctx, entry, writeError("making a job", err)); err != nil {
		return JobDetail{}, err
	}
	a.c.lookAfterJobs()
	return a.Job(ctx, job.ID, p.Tenant)
}

func selectionText(s *dlq.Selection) string {
	var text string
	for _, part := range []struct{ name, value string }{
		{"fingerprint", s.Fingerprint}, {"participant", s.Participant}, {"action", s.Action}, {"cause", s.Cause}, {"transaction", s.Transaction},
	} {
		if part.value != "" {
			text += " " + part.name + "=" + part.value
		}
	}
	return text
}

func checkJob(p *dlq.JobParams) error {
	invalid := func(code, field, problem, fix string) error {
		return &saga.InvalidError{Code: code, Field: field, Problem: problem, Fix: fix}
	}
	switch {
	case p.Selection.Empty():
		return invalid(CodeEmptySelection, "selection", "is empty", "name a fingerprint, participant, action, cause or transaction: everything at once is nothing that anybody could look through")
	case p.Rate < 1 || p.Rate > saga.JobRateMax:
		return invalid("invalid_value", "rate", fmt.Sprintf("is %d", p.Rate), fmt.Sprintf("use 1 to %d per second", saga.JobRateMax))
	case p.Canary < 0 || p.Canary > saga.JobItemsMax:
		return invalid("invalid_value", "canary", fmt.Sprintf("is %d", p.Canary), fmt.Sprintf("use 0 to %d", saga.JobItemsMax))
	}
	return nil
}

// JobParams says who asks what of which job.
type JobParams struct {
	Actor      string
	ID         uuid.UUID
	Command    saga.JobCommand
	Version    int64 // of the job that the operator saw
	PlanSHA256 []byte
	Reason     string
	Tenant     string // only one that is the tenant's; "": any
}

// CommandJob starts, pauses, resumes or aborts a job, in one database transaction with its audit entry. A job is started by
// its plan. Errors: dlq.ErrNoJob, ErrStale, saga.ErrPlanChanged, *saga.StateError with the code job_state.
func (a Admin) CommandJob(ctx context.Context, p JobParams) (JobDetail, error) {
	entry := dlq.AuditEntry{Tenant: p.Tenant, Actor: p.Actor, Action: string(p.Command) + "_job", Object: p.ID.String(), Allowed: true, Reason: p.Reason}
	err := pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) error {
		job, err := dlq.LockJobTx(ctx, tx, p.ID)
		if err == nil && !inScope(p.Tenant, job.Tenant) {
			err = dlq.ErrNoJob
		}
		if err != nil {
			return err
		}
		entry.Tenant = job.Tenant
		to, err := saga.JudgeJob(job.State, job.Version, p.Command, p.Version, bytes.Equal(p.PlanSHA256, job.PlanSHA256))
		if err != nil {
			return err
		}
		canaryDone := p.Command == saga.JobCommandResume && job.Why != "" // halted for its canary: somebody has looked at it
		if err := moveJobTx(ctx, tx, &job, to, "", canaryDone); err != nil {
			return err
		}
		return dlq.InsertAudit(ctx, tx, entry)
	})
	if err := a.recordRefusal(ctx, entry, writeError(string(p.Command)+" job "+p.ID.String(), err)); err != nil {
		return JobDetail{}, err
	}
	a.c.lookAfterJobs()
	return a.Job(ctx, p.ID, p.Tenant)
}

// moveJobTx moves a locked job. When it ends, or pauses by itself, people are told.
func moveJobTx(ctx context.Context, tx pgx.Tx, job *dlq.Job, to saga.JobState, why string, canaryDone bool) error {
	if _, err := dlq.MoveJobTx(ctx, tx, job.ID, to, why, canaryDone); err != nil {
		return err
	}
	switch {
	case to == saga.JobPaused && why != "":
		return notify.Insert(ctx, tx, jobHaltedNotice(job, why))
	case to != saga.JobFinished && to != saga.JobAborted:
		return nil
	}
	counts, err := dlq.CountJobItems(ctx, tx, job.ID, job.Canary)
	if err != nil {
		return err
	}
	return notify.Insert(ctx, tx, jobEndedNotice(job, to, counts.Items))
}

// jobRefusal reports whether an error says that nothing was done about a job.
func jobRefusal(err error) bool {
	_, state := errors.AsType[*saga.StateError](err)
	for _, refusal := range []error{dlq.ErrNoJob, dlq.ErrNothingSelected, dlq.ErrTooManySelected, saga.ErrPlanChanged, ErrStale} {
		state = state || errors.Is(err, refusal)
	}
	return state
}

// Jobs lists bulk replays, the newest first.
func (a Admin) Jobs(ctx context.Context, f dlq.JobFilter) ([]dlq.Job, error) {
	return dlq.ListJobs(ctx, a.c.cfg.Pool, f)
}

// job returns a bulk replay that an operator of the tenant scope, "" for all, may see, or dlq.ErrNoJob.
func (a Admin) job(ctx context.Context, id uuid.UUID, scope string) (dlq.Job, error) {
	job, err := dlq.GetJob(ctx, a.c.cfg.Pool, id)
	if err == nil && !inScope(scope, job.Tenant) {
		return dlq.Job{}, dlq.ErrNoJob
	}
	return job, err
}

// Job returns a bulk replay, one of the tenant's if one is named, with counts of its items, or dlq.ErrNoJob.
func (a Admin) Job(ctx context.Context, id uuid.UUID, tenant string) (d JobDetail, err error) {
	if d.Job, err = a.job(ctx, id, tenant); err != nil {
		return d, err
	}
	counts, err := dlq.CountJobItems(ctx, a.c.cfg.Pool, id, d.Canary)
	if err != nil {
		return d, err
	}
	d.Items, d.CanaryNow = counts.Items, counts.Canary
	d.Predicted, err = dlq.JobEffects(ctx, a.c.cfg.Pool, id)
	return d, err
}

// JobItems lists items of a job, one of the tenant's if one is named, in the order in which they go.
func (a Admin) JobItems(ctx context.Context, id uuid.UUID, tenant string, f dlq.JobItemFilter) ([]dlq.JobItem, error) {
	if _, err := a.job(ctx, id, tenant); err != nil {
		return nil, err
	}
	return dlq.ListJobItems(ctx, a.c.cfg.Pool, id, f)
}
