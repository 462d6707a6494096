package dlq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// ErrNoJob says that there is no job of that id.
var ErrNoJob = errors.New("no such job")

// Selection says which open dead letters a job replays. At least one field is needed.
type Selection struct {
	Fingerprint string `json:"fingerprint,omitempty"`
	Participant string `json:"participant,omitempty"`
	Action      string `json:"action,omitempty"`
	Cause       string `json:"cause,omitempty"`
	Transaction string `json:"transaction,omitempty"`
}

// Empty reports whether it would select everything.
func (s *Selection) Empty() bool { return *s == Selection{} }

// Job is a bulk replay.
type Job struct {
	ID           uuid.UUID
	Version      int64 // of the state: the ETag of operators' commands
	State        saga.JobState
	Why          string // it has paused itself
	Tenant       string
	Actor        string
	Reason       string
	Selection    Selection
	Canary       int // items that go first
	CanaryPassed bool
	Rate         int // replays per second
	PlanSHA256   []byte
	NextAt       time.Time
	CreatedAt    time.Time
	UpdatedAt    time.Time
	FinishedAt   time.Time // zero until it has ended
}

// JobItem is one dead letter of a job.
type JobItem struct {
	Seq          int
	DeadLetter   uuid.UUID
	Version      int64 // of the dead letter, as selected
	State        saga.JobItemState
	Code         string // of a refused or skipped one
	Effect       saga.ReplayEffect
	DispatchedAt time.Time
	EndedAt      time.Time
}

const (
	sqlSelectLetters = `
SELECT id, version FROM dead_letters
 WHERE kind = 'operation' AND status = 'open'
   AND ($1::text = '' OR fingerprint = $1)
   AND ($2::text = '' OR participant = $2)
   AND ($3::text = '' OR action = $3)
   AND ($4::text = '' OR cause = $4)
   AND ($5::uuid IS NULL OR transaction_id = $5)
   AND ($6::text = '' OR tenant = $6)
 ORDER BY id LIMIT $7`

	sqlInsertJob = `
INSERT INTO jobs (id, state, tenant, actor, reason, selection, canary, rate, plan_sha256) VALUES ($1, 'planning', $2, $3, $4, $5, $6, $7, $8)`

	sqlInsertJobItems = `
INSERT INTO job_items (job_id, seq, dead_letter_id, letter_version)
SELECT $1, u.seq, u.id, u.version FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS u (id, version, seq)`

	jobColumns = `id, version, state, why, tenant, actor, reason, selection, canary, canary_passed, rate, plan_sha256, next_at, created_at, updated_at, finished_at`

	sqlGetJob = `SELECT ` + jobColumns + ` FROM jobs WHERE id = $1`

	sqlLockJob = `SELECT ` + jobColumns + ` FROM jobs WHERE id = $1 FOR UPDATE`

	sqlListJobs = `
SELECT ` + jobColumns + ` FROM jobs
 WHERE ($1::uuid IS NULL OR id < $1) AND ($2::text = '' OR state = $2) AND ($3::text = '' OR tenant = $3)
 ORDER BY id DESC LIMIT $4`

	sqlMoveJob = `
UPDATE jobs SET state = $2, why = $3, canary_passed = canary_passed OR $4, version = version + 1, updated_at = clock_timestamp(),
       next_at = clock_timestamp(), step_at = clock_timestamp(),
       finished_at = CASE WHEN $2 IN ('finished', 'aborted') THEN clock_timestamp() END
 WHERE id = $1 RETURNING ` + jobColumns

	sqlAbortItems = `
UPDATE job_items SET state = 'skipped', code = 'aborted', ended_at = clock_timestamp()
 WHERE job_id = $1 AND state = 'pending'`

	sqlListJobItems = `
SELECT seq, dead_letter_id, letter_version, state, code, effect, dispatched_at, ended_at
  FROM job_items
 WHERE job_id = $1 AND seq > $2 AND ($3::text = '' OR state = $3)
 ORDER BY seq LIMIT $4`
)

// JobParams is a job to be made.
type JobParams struct {
	Tenant    string // only dead letters of the tenant; "": of all
	Actor     string
	Reason    string
	Selection Selection
	Canary    int
	Rate      int
}

// Reasons why nothing can be made of a selection.
var (
	ErrNothingSelected = errors.New("no open dead letter is selected")
	ErrTooManySelected = errors.New("more dead letters are selected than a job may have")
)

// CreateJobTx freezes a selection in the caller's transaction: the dead letters that are open now, at their versions. Errors:
// ErrNothingSelected, ErrTooManySelected.
func CreateJobTx(ctx context.Context, tx pgx.Tx, p JobParams) (Job, error) {
	ids, versions, err := selectLetters(ctx, tx, p)
	if err != nil {
		return Job{}, err
	}
	selection, err := json.Marshal(p.Selection)
	if err != nil {
		return Job{}, fmt.Errorf("dlq: make a job: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Job{}, fmt.Errorf("dlq: make an id: %w", err)
	}
	var batch pgx.Batch
	batch.Queue(sqlInsertJob, id, p.Tenant, pg.Text(p.Actor, 256), pg.Text(p.Reason, saga.ReasonBytesMax), selection, p.Canary, p.Rate,
		planSHA256(ids, versions, p))
	batch.Queue(sqlInsertJobItems, id, ids, versions)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return Job{}, fmt.Errorf("dlq: make a job: %w", err)
	}
	return oneJob(ctx, tx, sqlGetJob, id)
}

func selectLetters(ctx context.Context, tx pgx.Tx, p JobParams) (ids []uuid.UUID, versions []int64, err error) {
	var transaction *uuid.UUID
	if p.Selection.Transaction != "" {
		id, err := uuid.Parse(p.Selection.Transaction)
		if err != nil {
			return nil, nil, fmt.Errorf("dlq: select: %w", err)
		}
		transaction = &id
	}
	s := &p.Selection
	rows, err := tx.Query(ctx, sqlSelectLetters, s.Fingerprint, s.Participant, s.Action, s.Cause, transaction, p.Tenant, saga.JobItemsMax+1) //nolint:rowserrcheck // ForEachRow checks it
	if err != nil {
		return nil, nil, fmt.Errorf("dlq: select: %w", err)
	}
	var id uuid.UUID
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&id, &version}, func() error {
		ids, versions = append(ids, id), append(versions, version)
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("dlq: select: %w", err)
	case len(ids) == 0:
		return nil, nil, ErrNothingSelected
	case len(ids) > saga.JobItemsMax:
		return nil, nil, ErrTooManySelected
	}
	return ids, versions, nil
}

// planSHA256 is the hash of what a job will do: its dead letters, their versions, and how they go.
func planSHA256(ids []uuid.UUID, versions []int64, p JobParams) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "replay\ncanary %d\nrate %d\n", p.Canary, p.Rate) // a hash takes everything
	var version [8]byte
	for i, id := range ids {
		binary.BigEndian.PutUint64(version[:], uint64(versions[i]))
		_, _ = h.Write(id[:])
		_, _ = h.Write(version[:])
	}
	return h.Sum(nil)
}

// GetJob returns a job, or ErrNoJob.
func GetJob(ctx context.Context, db Querier, id uuid.UUID) (Job, error) {
	return oneJob(ctx, db, sqlGetJob, id)
}

// LockJobTx returns a job that nobody else changes until the caller's transaction ends, or ErrNoJob.
func LockJobTx(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Job, error) {
	return oneJob(ctx, tx, sqlLockJob, id)
}

// MoveJobTx puts a locked job into a state, with why; passed lifts the canary. What an aborted one has not replayed is
// skipped.
func MoveJobTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, to saga.JobState, why string, passed bool) (Job, error) {
	if to == saga.JobAborted {
		if _, err := tx.Exec(ctx, sqlAbortItems, id); err != nil {
			return Job{}, fmt.Errorf("dlq: abort job %s: %w", id, err)
		}
	}
	return oneJob(ctx, tx, sqlMoveJob, id, string(to), why, passed)
}

func oneJob(ctx context.Context, db Querier, sql string, id uuid.UUID, more ...any) (Job, error) {
	rows, err := db.Query(ctx, sql, append([]any{id}, more...)...)
	if err != nil {
		return Job{}, fmt.Errorf("dlq: job %s: %w", id, err)
	}
	job, err := pgx.CollectExactlyOneRow(rows, scanJob)
	if errors.Is(err, pgx.ErrNoRows) {
		return Job{}, fmt.Errorf("dlq: job %s: %w", id, ErrNoJob)
	}
	if err != nil {
		return Job{}, fmt.Errorf("dlq: job %s: %w", id, err)
	}
	return job, nil
}

func scanJob(row pgx.CollectableRow) (j Job, err error) {
	var selection []byte
	var finishedAt *time.Time
	err = row.Scan(&j.ID, &j.Version, (*string)(&j.State), &j.Why, &j.Tenant, &j.Actor, &j.Reason, &selection, &j.Canary, &j.CanaryPassed,
		&j.Rate, &j.PlanSHA256, &j.NextAt, &j.CreatedAt, &j.UpdatedAt, &finishedAt)
	if err != nil {
		return j, err
	}
	if finishedAt != nil {
		j.FinishedAt = finishedAt.UTC()
	}
	j.NextAt, j.CreatedAt, j.UpdatedAt = j.NextAt.UTC(), j.CreatedAt.UTC(), j.UpdatedAt.UTC()
	return j, json.Unmarshal(selection, &j.Selection)
}

// JobFilter selects jobs; zero fields select all.
type JobFilter struct {
	Before uuid.UUID // only older ones: the id of the last one seen
	State  saga.JobState
	Tenant string
	Limit  int // zero: 50
}

// ListJobs returns jobs, the newest first.
func ListJobs(ctx context.Context, db Querier, f JobFilter) ([]Job, error) {
	rows, err := db.Query(ctx, sqlListJobs, nullID(f.Before), string(f.State), f.Tenant, cmp.Or(f.Limit, limitDefault))
	if err != nil {
		return nil, fmt.Errorf("dlq: list jobs: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, scanJob)
	if err != nil {
		return nil, fmt.Errorf("dlq: list jobs: %w", err)
	}
	return jobs, nil
}

// JobItemFilter selects items of a job; zero fields select all.
type JobItemFilter struct {
	After int // only those behind: the number of the last one seen
	State saga.JobItemState
	Limit int // zero: 50
}

// ListJobItems returns items of a job, in the order in which they go.
func ListJobItems(ctx context.Context, db Querier, id uuid.UUID, f JobItemFilter) ([]JobItem, error) {
	rows, err := db.Query(ctx, sqlListJobItems, id, f.After, string(f.State), cmp.Or(f.Limit, limitDefault))
	if err != nil {
		return nil, fmt.Errorf("dlq: list items of job %s: %w", id, err)
	}
	items, err := pgx.CollectRows(rows, scanJobItem)
	if err != nil {
		return nil, fmt.Errorf("dlq: list items of job %s: %w", id, err)
	}
	return items, nil
}

func scanJobItem(row pgx.CollectableRow) (i JobItem, err error) {
	var dispatchedAt, endedAt *time.Time
	err = row.Scan(&i.Seq, &i.DeadLetter, &i.Version, (*string)(&i.State), &i.Code, (*string)(&i.Effect), &dispatchedAt, &endedAt)
	if dispatchedAt != nil {
		i.DispatchedAt = dispatchedAt.UTC()
	}
	if endedAt != nil {
		i.EndedAt = endedAt.UTC()
	}
	return i, err
}
