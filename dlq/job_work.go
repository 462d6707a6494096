package dlq

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/saga"
)

// What coordinators do for jobs. Rows are locked in this order: the job, then its items by their number, then inquiries.

const (
	// sqlClaimJobs takes jobs that are due to be looked after, each by one coordinator at a time, for a moment.
	sqlClaimJobs = `
UPDATE jobs SET step_at = clock_timestamp() + $1::interval
 WHERE id = ANY (ARRAY(SELECT id FROM jobs WHERE state IN ('planning', 'running') AND step_at <= clock_timestamp()
                        ORDER BY step_at LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id`

	// sqlCountItems counts; the canary is the first items that are replayed: one that is refused or
	// skipped tells nothing, and the next takes its place.
	sqlCountItems = `
SELECT state, count(*)::integer, 0 FROM job_items WHERE job_id = $1 GROUP BY state
UNION ALL
SELECT state, 0, count(*)::integer
  FROM (SELECT state FROM job_items WHERE job_id = $1 AND state NOT IN ('refused', 'skipped') ORDER BY seq LIMIT $2) AS first
 GROUP BY state`

	sqlCountEffects = `SELECT effect, count(*)::integer FROM job_items WHERE job_id = $1 GROUP BY effect`

	sqlCountPlan = `
SELECT count(*) FILTER (WHERE i.asked_at IS NULL)::integer, count(*) FILTER (WHERE i.effect = '')::integer, max(i.asked_at), clock_timestamp(),
       count(*) FILTER (WHERE i.effect = '' AND q.asked_at IS NOT NULL AND q.answered_at IS NULL)::integer
  FROM job_items i
  LEFT JOIN dead_letters d ON d.id = i.dead_letter_id
  LEFT JOIN inquiries q ON q.transaction_id = d.transaction_id AND q.step = d.step AND q.phase = d.phase
 WHERE i.job_id = $1 AND i.state = 'pending'`

	sqlSettledItems = `
SELECT i.seq, i.letter_version, COALESCE(d.status, ''), COALESCE(d.version, 0)
  FROM job_items i
  LEFT JOIN dead_letters d ON d.id = i.dead_letter_id
 WHERE i.job_id = $1 AND i.state = 'dispatched' AND (d.id IS NULL OR d.version > i.letter_version + 1)
 ORDER BY i.seq LIMIT $2`

	// sqlEndItems writes only what is still where it was decided on.
	sqlEndItems = `
WITH locked AS (
    SELECT i.seq, u.state, u.code, u.effect
      FROM unnest($2::integer[], $3::text[], $4::text[], $5::text[]) AS u (seq, state, code, effect)
      JOIN job_items i ON i.job_id = $1 AND i.seq = u.seq AND i.state = $6
     ORDER BY i.seq FOR UPDATE OF i
)
UPDATE job_items i
   SET state = l.state, code = l.code, effect = CASE WHEN l.effect = '' THEN i.effect ELSE l.effect END,
       ended_at = CASE WHEN l.state NOT IN ('pending', 'dispatched') THEN clock_timestamp() END
  FROM locked l WHERE i.job_id = $1 AND i.seq = l.seq`

	sqlUnaskedItems = `
SELECT seq, dead_letter_id, letter_version FROM job_items
 WHERE job_id = $1 AND state = 'pending' AND asked_at IS NULL ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED`

	sqlMarkAsked = `UPDATE job_items SET asked_at = clock_timestamp() WHERE job_id = $1 AND seq = ANY ($2::integer[])`

	sqlUnpredictedItems = `
SELECT seq, dead_letter_id, letter_version FROM job_items
 WHERE job_id = $1 AND state = 'pending' AND effect = '' ORDER BY seq LIMIT $2`

	// sqlClaimItems takes up to so many items, in their order. They are an array: a subquery of IN may be run once for each
	// row of a nested loop, and then its LIMIT means nothing.
	sqlClaimItems = `
UPDATE job_items SET claimed_until = clock_timestamp() + $3::interval
 WHERE job_id = $1 AND seq = ANY (ARRAY(
       SELECT seq FROM job_items
        WHERE job_id = $1 AND state = 'pending' AND (claimed_until IS NULL OR claimed_until < clock_timestamp())
        ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING seq, dead_letter_id, letter_version`

	sqlUseSlots = `UPDATE jobs SET next_at = $2 WHERE id = $1`

	sqlReleaseItem = `UPDATE job_items SET claimed_until = NULL WHERE job_id = $1 AND seq = $2 AND state = 'pending'`

	// sqlDispatched belongs to the write that replays the dead letter: a job that was paused or aborted meanwhile makes it
	// fail as a whole.
	sqlDispatched = `
WITH written AS (
    UPDATE job_items i SET state = 'dispatched', dispatched_at = clock_timestamp()
     WHERE i.job_id = $1 AND i.seq = $2 AND i.state = 'pending' AND EXISTS (SELECT FROM jobs j WHERE j.id = $1 AND j.state = 'running')
    RETURNING 1
)
SELECT expect_rows((SELECT count(*) FROM written), 1, 'SG404')`
)

// ClaimJobs returns up to limit jobs that somebody has to look after now, and leaves them alone for a while.
func ClaimJobs(ctx context.Context, db Querier, until time.Duration, limit int) ([]uuid.UUID, error) {
	rows, err := db.Query(ctx, sqlClaimJobs, until, limit)
	if err != nil {
		return nil, fmt.Errorf("dlq: look for jobs: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("dlq: look for jobs: %w", err)
	}
	return ids, nil
}

// CountJobItems counts a job's items by state, all of them and those of the canary.
func CountJobItems(ctx context.Context, db Querier, id uuid.UUID, canary int) (c saga.JobCounts, err error) {
	c.Items, c.Canary = map[saga.JobItemState]int{}, map[saga.JobItemState]int{}
	rows, err := db.Query(ctx, sqlCountItems, id, canary) //nolint:rowserrcheck // ForEachRow checks it
	if err != nil {
		return c, fmt.Errorf("dlq: count items of job %s: %w", id, err)
	}
	var state saga.JobItemState
	var all, first int
	_, err = pgx.ForEachRow(rows, []any{(*string)(&state), &all, &first}, func() error {
		c.Items[state] += all
		c.Canary[state] += first
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("dlq: count items of job %s: %w", id, err)
	}
	return c, nil
}

// CountJobPlan adds what is known of a dry run, and returns the database's clock.
func CountJobPlan(ctx context.Context, db Querier, id uuid.UUID, c *saga.JobCounts) (now time.Time, err error) {
	rows, err := db.Query(ctx, sqlCountPlan, id) //nolint:rowserrcheck // ForEachRow checks it
	if err != nil {
		return now, fmt.Errorf("dlq: count the plan of job %s: %w", id, err)
	}
	var lastAsked *time.Time
	_, err = pgx.ForEachRow(rows, []any{&c.Unasked, &c.Unknown, &lastAsked, &now, &c.Unanswered}, func() error { return nil })
	if err != nil {
		return now, fmt.Errorf("dlq: count the plan of job %s: %w", id, err)
	}
	if lastAsked != nil {
		c.LastAsked = *lastAsked
	}
	return now, nil
}

// JobEffects counts a job's items by what the dry run has predicted; those without a prediction are under "".
func JobEffects(ctx context.Context, db Querier, id uuid.UUID) (map[saga.ReplayEffect]int, error) {
	rows, err := db.Query(ctx, sqlCountEffects, id) //nolint:rowserrcheck // ForEachRow checks it
	if err != nil {
		return nil, fmt.Errorf("dlq: count effects of job %s: %w", id, err)
	}
	counts := map[saga.ReplayEffect]int{}
	var effect saga.ReplayEffect
	var n int
	if _, err = pgx.ForEachRow(rows, []any{(*string)(&effect), &n}, func() error { counts[effect] = n; return nil }); err != nil {
		return nil, fmt.Errorf("dlq: count effects of job %s: %w", id, err)
	}
	return counts, nil
}

// JobItemEnd is what becomes of an item.
type JobItemEnd struct {
	Seq    int
	State  saga.JobItemState
	Code   string
	Effect saga.ReplayEffect // "": as it was
}

// EndJobItems moves items that are in a state still.
func EndJobItems(ctx context.Context, db Execer, id uuid.UUID, from saga.JobItemState, ends []JobItemEnd) error {
	if len(ends) == 0 {
		return nil
	}
	seqs, states := make([]int, len(ends)), make([]string, len(ends))
	codes, effects := make([]string, len(ends)), make([]string, len(ends))
	for i, e := range ends {
		seqs[i], states[i], codes[i], effects[i] = e.Seq, string(e.State), e.Code, string(e.Effect)
	}
	if _, err := db.Exec(ctx, sqlEndItems, id, seqs, states, codes, effects, string(from)); err != nil {
		return fmt.Errorf("dlq: items of job %s: %w", id, err)
	}
	return nil
}

// SettledJobItems says what has become of dispatched items whose dead letters have changed since.
func SettledJobItems(ctx context.Context, db Querier, id uuid.UUID, limit int) ([]JobItemEnd, error) {
	rows, err := db.Query(ctx, sqlSettledItems, id, limit) //nolint:rowserrcheck // ForEachRow checks it
	if err != nil {
		return nil, fmt.Errorf("dlq: settled items of job %s: %w", id, err)
	}
	var ends []JobItemEnd
	var seq int
	var dispatched, version int64
	var status saga.DeadLetterStatus
	_, err = pgx.ForEachRow(rows, []any{&seq, &dispatched, (*string)(&status), &version}, func() error {
		e := JobItemEnd{Seq: seq, State: saga.JobItemSkipped, Code: "gone"}
		if status != "" {
			e.State, e.Code = saga.JobItemOutcome(dispatched, status, version)
		}
		ends = append(ends, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("dlq: settled items of job %s: %w", id, err)
	}
	return ends, nil
}

// TakenItem is an item that is to be asked about, predicted or replayed.
type TakenItem struct {
	Seq        int
	DeadLetter uuid.UUID
	Version    int64
}

// UnpredictedJobItems returns items of a dry run that have no prediction.
func UnpredictedJobItems(ctx context.Context, db Querier, id uuid.UUID, limit int) ([]TakenItem, error) {
	return takenItems(ctx, db, sqlUnpredictedItems, id, limit)
}

// UnaskedJobItemsTx returns items of a dry run that nobody else asks about, and marks them as asked about.
func UnaskedJobItemsTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, limit int) ([]TakenItem, error) {
	items, err := takenItems(ctx, tx, sqlUnaskedItems, id, limit)
	if err != nil {
		return nil, err
	}
	seqs := make([]int, len(items))
	for i := range items {
		seqs[i] = items[i].Seq
	}
	if _, err := tx.Exec(ctx, sqlMarkAsked, id, seqs); err != nil {
		return nil, fmt.Errorf("dlq: items of job %s: %w", id, err)
	}
	return items, nil
}

// ClaimJobItemsTx takes pending items for a while: should this process end, another takes them later.
func ClaimJobItemsTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, limit int, lease time.Duration) ([]TakenItem, error) {
	return takenItems(ctx, tx, sqlClaimItems, id, limit, lease)
}

func takenItems(ctx context.Context, db Querier, sql string, id uuid.UUID, limit int, more ...any) ([]TakenItem, error) {
	rows, err := db.Query(ctx, sql, append([]any{id, limit}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("dlq: items of job %s: %w", id, err)
	}
	items, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TakenItem])
	if err != nil {
		return nil, fmt.Errorf("dlq: items of job %s: %w", id, err)
	}
	return items, nil
}

// UseJobSlotsTx stores when the next slot of a locked job is due.
func UseJobSlotsTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, next time.Time) error {
	if _, err := tx.Exec(ctx, sqlUseSlots, id, next); err != nil {
		return fmt.Errorf("dlq: slots of job %s: %w", id, err)
	}
	return nil
}

// ReleaseJobItem lets others take an item that could not be replayed now.
func ReleaseJobItem(ctx context.Context, db Execer, ref JobItemRef) error {
	if _, err := db.Exec(ctx, sqlReleaseItem, ref.Job, ref.Seq); err != nil {
		return fmt.Errorf("dlq: item %d of job %s: %w", ref.Seq, ref.Job, err)
	}
	return nil
}

// JobItemRef names an item.
type JobItemRef struct {
	Job uuid.UUID
	Seq int
}

// QueueDispatched adds to a batch that replays the dead letters of items that it does. The batch fails with CodeMoved if
// one is not pending any more, or its job not running.
func QueueDispatched(batch *pgx.Batch, refs []JobItemRef) {
	slices.SortFunc(refs, func(a, b JobItemRef) int {
		return cmp.Or(bytes.Compare(a.Job[:], b.Job[:]), cmp.Compare(a.Seq, b.Seq))
	})
	for _, ref := range refs {
		batch.Queue(sqlDispatched, ref.Job, ref.Seq)
	}
}

// ByID returns those of some dead letters that there are.
func ByID(ctx context.Context, db Querier, ids []uuid.UUID) (map[uuid.UUID]DeadLetter, error) {
	rows, err := db.Query(ctx, sqlLettersByID, ids)
	if err != nil {
		return nil, fmt.Errorf("dlq: read dead letters: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("dlq: read dead letters: %w", err)
	}
	letters := make(map[uuid.UUID]DeadLetter, len(list))
	for i := range list {
		letters[list[i].ID] = list[i]
	}
	return letters, nil
}
