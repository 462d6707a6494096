package participant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Commands whose handlers queue their statements are carried out without asking in between: BEGIN, the barrier, the
// statements of all, what the barrier has to keep and COMMIT are one round trip; two if callbacks have a say before the
// commit. All of it succeeds or nothing has happened, and then the commands take the way of all others. So this way
// knows two ends of a command only: it is done, or its handler refused it before anything was queued. See
// docs/adr/0017-batch-handlers.md.

// queued is what a command's handler has queued.
type queued struct {
	*member
	batch      pgx.Batch
	statements int                          // that were queued
	refuse     error                        // what the handler returned instead of queueing; nil: nothing
	result     func() (saga.Payload, error) // after the callbacks; nil with refuse
}

// batchable reports whether a command's handler queues its statements.
func (p *Participant) batchable(j *job) bool {
	h, ok := p.handler(j.cmd.Action)
	return ok && h.queue != nil
}

// executeBatch carries out commands of different steps whose handlers queue, in one local transaction. A command that it
// leaves unanswered has to be carried out otherwise. So have all after an error, which says that none is committed, or
// that nobody knows.
func (p *Participant) executeBatch(ctx context.Context, members []*member) (err error) {
	sortMembers(members)
	defer func() { endSpans(members, err) }()
	limit, lock := p.cfg.HandlerTimeout, p.barrier.lockTimeout
	if len(members) > 1 {
		limit, lock = min(limit, p.groups.handler), min(lock, p.groups.lock)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	work := make([]*queued, 0, len(members))
	for _, m := range members {
		p.hooks.reach(pointTaken, m.job.cmd)
		if q := p.queue(ctx, m, limit); q != nil {
			work = append(work, q)
		}
	}
	if len(work) == 0 {
		return nil
	}
	if err := p.commitBatch(ctx, work, limit, lock); err != nil {
		for _, q := range work {
			q.has = false
			q.apart = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errGivenUp) // with others it takes too long
		}
		return err
	}
	for _, q := range work {
		q.answer()
	}
	return nil
}

// queue lets the handler of a command queue its statements. It returns nil if there is anything to be said against the
// command: it is found again, and answered, where the command is carried out by itself.
func (p *Participant) queue(ctx context.Context, m *member, limit time.Duration) *queued {
	cmd := m.job.cmd
	ctx, m.span = p.span(ctx, cmd)
	h, body, wrong := p.check(&Entry{Verdict: saga.Verdict{Do: saga.DoRun}}, cmd)
	if wrong.Outcome != "" {
		return nil
	}
	q := &queued{member: m}
	op := operationOf(cmd)
	r, given := p.userCode(ctx, op, grace(limit), func(context.Context) (r returned) {
		var result func() (saga.Payload, error)
		if result, r.err = h.queue(&q.batch, op, body); r.err != nil {
			return r
		}
		if r.err = checkQueued(&q.batch); r.err != nil {
			return r
		}
		if q.result = result; !q.callbacks() {
			r.result, r.err = result()
		}
		return r
	}, noMisuse)
	var no *refusal
	switch {
	case given != nil:
		m.apart = true
		return nil
	case errors.As(r.err, &no) && op.CanRefuse():
		q.refuse, q.batch, q.result = r.err, pgx.Batch{}, nil
	case r.err != nil:
		return nil
	}
	if q.result != nil && !q.callbacks() {
		q.result = func() (saga.Payload, error) { return r.result, nil } // no user code is called later
	}
	guardCallbacks(&q.batch)
	q.statements = q.batch.Len()
	return q
}

func noMisuse() error { return nil }

// callbacks reports whether the handler wants to see results before the commit.
func (q *queued) callbacks() bool {
	return slices.ContainsFunc(q.batch.QueuedQueries, func(statement *pgx.QueuedQuery) bool { return statement.Fn != nil })
}

// commitBatch runs what was queued, and stores what has become of it.
func (p *Participant) commitBatch(ctx context.Context, work []*queued, limit, lockTimeout time.Duration) error {
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	batch.Queue(sqlEnterAll, enterAllArgs(work, lockTimeout)...)
	callbacks := false
	for _, q := range work {
		callbacks = callbacks || q.callbacks()
		batch.QueuedQueries = append(batch.QueuedQueries, q.batch.QueuedQueries...)
	}
	conn, err := p.barrier.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("participant: begin a batch: %w", err)
	}
	e := &Entry{conn: conn, cmd: work[0].job.cmd}
	defer func() { e.Abandon(ctx) }()
	if conn.Conn().Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return errSimpleProtocol // a statement could be several
	}
	if callbacks {
		// Without a transaction this fails, and takes back what ran behind a statement that ended ours.
		batch.Queue(sqlSavepointBatch)
		if err := p.sendBatch(ctx, e, &batch, work, limit); err != nil {
			return fmt.Errorf("participant: run a batch of %d commands: %w", len(work), err)
		}
		batch = pgx.Batch{}
	}
	for _, q := range work {
		if err := q.conclude(); err != nil {
			return err
		}
		p.hooks.reach(pointRan, q.job.cmd)
	}
	batch.Queue(sqlLeaveAll, leaveAllArgs(work)...)
	if callbacks {
		return e.commit(ctx, &batch)
	}
	return e.flush(ctx, &batch)
}

var (
	errSimpleProtocol = errors.New("participant: the pool uses the simple protocol, in which a statement may be several")
	errGivenUp        = errors.New("participant: a callback does not return")
)

// sendBatch sends a batch whose callbacks are user code, and then asks the handlers for their results. It gives up on
// those that do not return, as on any handler: the connection is closed under them.
func (p *Participant) sendBatch(ctx context.Context, e *Entry, batch *pgx.Batch, work []*queued, limit time.Duration) error {
	conn := e.conn
	r, given := p.userCode(ctx, operationOf(e.cmd), grace(limit), func(ctx context.Context) (r returned) {
		if r.err = conn.SendBatch(ctx, batch).Close(); r.err != nil {
			return r
		}
		for _, q := range work {
			if q.batch.Len() != q.statements {
				r.err = errQueuedLate
				return r
			}
			if q.result == nil {
				continue
			}
			result, err := q.result()
			if err != nil {
				r.err = err
				return r
			}
			q.result = func() (saga.Payload, error) { return result, nil }
		}
		return r
	}, noMisuse)
	if given != nil {
		p.giveUp(e, conn.Conn(), given)
		return errGivenUp
	}
	return r.err
}

// conclude makes the reply of a command. It calls no user code.
func (q *queued) conclude() error {
	var result saga.Payload
	err := q.refuse
	if err == nil {
		if result, err = q.result(); err != nil {
			return err
		}
	}
	verdict, _ := saga.Conclude(saga.BarrierRow{}, q.job.cmd, ranOf(result, err))
	if !verdict.Store {
		return fmt.Errorf("participant: %s is answered %s", q.job.cmd.Key(), verdict.Reply.Outcome)
	}
	q.reply, q.has = verdict.Reply, true
	return nil
}

// enterAllArgs are those of saga.barrier_enter_all.
func enterAllArgs(work []*queued, lockTimeout time.Duration) []any {
	n := len(work)
	tenants, steps, phases, kinds := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	transactions, hashes := make(pg.Array[pgtype.UUID], n), make([][]byte, n)
	revisions, deadlines := make([]int32, n), make(pg.Array[pgtype.Timestamptz], n)
	for i, q := range work {
		cmd := &q.job.cmd
		tenants[i], transactions[i], steps[i] = cmd.Tenant, uuid(cmd.Transaction), cmd.Step
		phases[i], kinds[i] = string(cmd.Phase), string(cmd.Kind)
		hashes[i], revisions[i] = cmd.ContentSHA256[:], int32(cmd.Revision)
		deadlines[i] = pgtype.Timestamptz{Time: cmd.Deadline, Valid: !cmd.Deadline.IsZero()}
	}
	return []any{tenants, transactions, steps, phases, kinds, hashes, revisions, deadlines, int(lockTimeout.Milliseconds())}
}

// leaveAllArgs are those of saga.barrier_leave_all. See leaveArgs for the texts.
func leaveAllArgs(work []*queued) []any {
	n := len(work)
	tenants, steps, phases, types := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	outcomes, codes, reasons := make([]string, n), make([]string, n), make([]string, n)
	transactions, hashes, results := make(pg.Array[pgtype.UUID], n), make([][]byte, n), make([][]byte, n)
	revisions := make([]int32, n)
	for i, q := range work {
		r := &q.reply
		tenants[i], transactions[i], steps[i], phases[i] = r.Tenant, uuid(r.Transaction), r.Step, string(r.Phase)
		hashes[i], revisions[i] = r.ContentSHA256[:], int32(r.Revision)
		outcomes[i], codes[i], reasons[i] = string(r.Outcome), r.Code, r.Reason
		results[i], types[i] = r.Result.Data, saga.CleanText(r.Result.Type, saga.ReasonBytesMax)
	}
	return []any{tenants, transactions, steps, phases, hashes, revisions, outcomes, codes, reasons, results, types}
}
