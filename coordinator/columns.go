package coordinator

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Columns are the parallel arrays that one statement unnests into many rows.

type (
	ids   = pg.Array[pgtype.UUID]
	texts = pgtype.FlatArray[string]
	ints  = pgtype.FlatArray[int32]
	longs = pgtype.FlatArray[int64]
	bools = pgtype.FlatArray[bool]
	blobs = pgtype.FlatArray[[]byte]
	times = pg.Array[pgtype.Timestamptz]
)

// timeOf writes the zero time as NULL.
func timeOf(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// wakeOf is when something may be due: NULL once the transaction has ended, infinity if only a person can go
// on, so that "wake_at is set" means "has not ended".
func wakeOf(tx *saga.Transaction, wake time.Time) pgtype.Timestamptz {
	switch {
	case tx.Status.Terminal():
		return pgtype.Timestamptz{}
	case wake.IsZero():
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return timeOf(wake)
}

// text makes what participants and users wrote fit for a text column.
func text(s string) string { return pg.Text(s, saga.ReasonBytesMax) }

// updateColumns are those of sqlUpdate.
type updateColumns struct {
	id                               ids
	version                          longs
	status                           texts
	suspended                        bools
	why, whyStep, whyCode, whyReason texts
	decidedAt, finishedAt, wakeAt    times
	woken                            bools
}

func (c *updateColumns) add(w *write) {
	tx := &w.rec.tx
	c.id = append(c.id, pg.UUID(tx.ID))
	c.version = append(c.version, w.before.Version)
	c.status = append(c.status, string(tx.Status))
	c.suspended = append(c.suspended, tx.Suspended())
	c.why = append(c.why, string(tx.Cause.Why))
	c.whyStep = append(c.whyStep, tx.Cause.Step)
	c.whyCode = append(c.whyCode, text(tx.Cause.Code))
	c.whyReason = append(c.whyReason, text(tx.Cause.Reason))
	c.decidedAt = append(c.decidedAt, timeOf(tx.DecidedAt))
	c.finishedAt = append(c.finishedAt, timeOf(tx.FinishedAt))
	c.wakeAt = append(c.wakeAt, wakeOf(tx, w.wake))
	c.woken = append(c.woken, w.woken)
}

func (c *updateColumns) args() []any {
	return []any{
		c.id, c.version, c.status, c.suspended, c.why, c.whyStep, c.whyCode, c.whyReason,
		c.decidedAt, c.finishedAt, c.wakeAt, c.woken,
	}
}

// insertColumns are those of sqlInsertTransactions and sqlInsertSubmissions.
type insertColumns struct {
	id                                                          ids
	status, tenant, client, requestID                           texts
	definition                                                  blobs
	definitionName, why, whyReason                              texts
	createdAt, startAt, deadline, decidedAt, finishedAt, wakeAt times
	traceparent, tracestate                                     texts
	contentSHA256, body                                         blobs
}

func (c *insertColumns) add(w *write) {
	r, tx := w.rec, &w.rec.tx
	c.id = append(c.id, pg.UUID(tx.ID))
	c.status = append(c.status, string(tx.Status))
	c.tenant = append(c.tenant, tx.Tenant)
	c.client = append(c.client, r.client)
	c.requestID = append(c.requestID, r.requestID)
	c.definition = append(c.definition, r.defSHA256[:])
	c.definitionName = append(c.definitionName, r.def.Name)
	c.why = append(c.why, string(tx.Cause.Why))
	c.whyReason = append(c.whyReason, text(tx.Cause.Reason))
	c.createdAt = append(c.createdAt, timeOf(tx.CreatedAt))
	c.startAt = append(c.startAt, timeOf(tx.StartAt))
	c.deadline = append(c.deadline, timeOf(tx.Deadline))
	c.decidedAt = append(c.decidedAt, timeOf(tx.DecidedAt))
	c.finishedAt = append(c.finishedAt, timeOf(tx.FinishedAt))
	c.wakeAt = append(c.wakeAt, wakeOf(tx, w.wake))
	c.traceparent = append(c.traceparent, tx.Traceparent)
	c.tracestate = append(c.tracestate, tx.Tracestate)
	c.contentSHA256 = append(c.contentSHA256, r.contentSHA256[:])
	c.body = append(c.body, w.body)
}

func (c *insertColumns) args() []any {
	return []any{
		c.id, c.status, c.tenant, c.client, c.requestID, c.definition, c.definitionName, c.why, c.whyReason,
		c.createdAt, c.startAt, c.deadline, c.decidedAt, c.finishedAt, c.wakeAt, c.traceparent, c.tracestate,
	}
}

// requestColumns are those of sqlInsertRequests.
type requestColumns struct {
	tenant, client, requestID texts
	id                        ids
	contentSHA256, answer     blobs
}

func (c *requestColumns) add(w *write) {
	c.tenant = append(c.tenant, w.rec.tx.Tenant)
	c.client = append(c.client, w.rec.client)
	c.requestID = append(c.requestID, w.rec.requestID)
	c.id = append(c.id, pg.UUID(w.rec.tx.ID))
	c.contentSHA256 = append(c.contentSHA256, w.rec.contentSHA256[:])
	c.answer = append(c.answer, w.answer)
}

func (c *requestColumns) args() []any {
	return []any{c.tenant, c.client, c.requestID, c.id, c.contentSHA256, c.answer}
}

// operationColumns are those of sqlWriteOperations.
type operationColumns struct {
	id                                           ids
	step, phase, state, wait                     texts
	replaying                                    bools
	attempt, counted, countedTo, floor, revision ints
	contentSHA256                                blobs
	sentAt, nextAt                               times
	outcome, code, reason                        texts
	result                                       blobs
	resultType                                   texts
}

func (c *operationColumns) add(id saga.ID, step string, op *saga.Operation) {
	c.id = append(c.id, pg.UUID(id))
	c.step = append(c.step, step)
	c.phase = append(c.phase, string(op.Phase))
	c.state = append(c.state, string(op.State))
	c.wait = append(c.wait, string(op.Wait))
	c.replaying = append(c.replaying, op.Replaying)
	c.attempt = append(c.attempt, int32(op.Attempt))
	c.counted = append(c.counted, int32(op.Counted))
	c.countedTo = append(c.countedTo, int32(op.CountedTo))
	c.floor = append(c.floor, int32(op.Floor))
	c.revision = append(c.revision, int32(op.Revision))
	c.contentSHA256 = append(c.contentSHA256, op.ContentSHA256[:])
	c.sentAt = append(c.sentAt, timeOf(op.SentAt))
	c.nextAt = append(c.nextAt, timeOf(op.NextAt))
	c.outcome = append(c.outcome, string(op.LastOutcome))
	c.code = append(c.code, text(op.LastCode))
	c.reason = append(c.reason, text(op.LastReason))
	c.result = append(c.result, op.Result.Data)
	c.resultType = append(c.resultType, text(op.Result.Type))
}

func (c *operationColumns) args() []any {
	return []any{
		c.id, c.step, c.phase, c.state, c.wait, c.replaying, c.attempt, c.counted, c.countedTo, c.floor,
		c.revision, c.contentSHA256, c.sentAt, c.nextAt, c.outcome, c.code, c.reason, c.result, c.resultType,
	}
}

// attemptColumns are those of sqlInsertAttempts.
type attemptColumns struct {
	id                    ids
	step, phase           texts
	attempt               ints
	sentAt, endedAt       times
	outcome, code, reason texts
}

func (c *attemptColumns) add(id saga.ID, a *saga.AttemptEnd) {
	c.id = append(c.id, pg.UUID(id))
	c.step = append(c.step, a.Step)
	c.phase = append(c.phase, string(a.Phase))
	c.attempt = append(c.attempt, int32(a.Attempt))
	c.sentAt = append(c.sentAt, timeOf(a.SentAt))
	c.endedAt = append(c.endedAt, timeOf(a.EndedAt))
	c.outcome = append(c.outcome, string(a.Outcome))
	c.code = append(c.code, text(a.Code))
	c.reason = append(c.reason, text(a.Reason))
}

func (c *attemptColumns) args() []any {
	return []any{c.id, c.step, c.phase, c.attempt, c.sentAt, c.endedAt, c.outcome, c.code, c.reason}
}
