package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
)

// store is the coordinator's PostgreSQL. It decides nothing.
type store struct {
	pool        *pgxpool.Pool
	clock       *clock
	encoder     *encoder
	definitions *definitions
	events      EventsMode // that are published
}

// errVersionConflict says that a transaction was not at the version that the write was decided on.
var errVersionConflict = errors.New("a transaction has moved on since it was loaded")

// Raised by expect_rows.
const (
	codeVersionConflict = "SG409"
	codeForgottenKey    = "SG410"
)

// commit stores the writes in one transaction and one round trip, with the messages that follow from them,
// and returns the outbox entries to hand off. When the error is pg.CommitUnknown, all or nothing was stored.
func (s *store) commit(ctx context.Context, writes []*write, extra func(*pgx.Batch) error) ([]outbox.Entry, error) {
	var batch pgx.Batch
	var entries []outbox.Entry
	s.queueSettings(&batch)
	messages, err := s.queue(&batch, writes)
	if err != nil {
		return nil, err
	}
	if extra != nil {
		if err := extra(&batch); err != nil {
			return nil, err
		}
	}
	if len(messages) > 0 {
		if entries, err = outbox.Queue(&batch, messages...); err != nil {
			return nil, err
		}
	}
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		if pg.Code(err) == codeVersionConflict {
			return nil, errVersionConflict
		}
		return nil, fmt.Errorf("storing %d transactions: %w", len(writes), err)
	}
	return entries, nil
}

// queueSettings begins a batch: it pins plans and reads the clock.
func (s *store) queueSettings(batch *pgx.Batch) {
	asked := time.Now()
	batch.Queue(sqlSettings).QueryRow(func(row pgx.Row) error {
		var now time.Time
		if err := row.Scan(&now, nil, nil, nil, nil, nil); err != nil {
			return err
		}
		s.clock.observe(asked, now)
		return nil
	})
}

// queue adds the statements of the writes to the batch and returns their messages.
func (s *store) queue(batch *pgx.Batch, writes []*write) ([]outbox.Message, error) {
	var (
		update     updateColumns
		insert     insertColumns
		request    requestColumns
		operations operationColumns
		attempts   attemptColumns
		rearm      updateColumns
		messages   []outbox.Message
		letters    pgx.Batch
		notices    []notify.Notice
		keyed      []*write
	)
	for _, w := range writes {
		switch {
		case w.before == nil:
			insert.add(w)
			if w.rec.requestID != "" {
				keyed = append(keyed, w)
			}
		case w.changed:
			update.add(w)
		case w.woken:
			rearm.add(w)
		}
		w.eachChanged(func(step string, op *saga.Operation) { operations.add(w.rec.tx.ID, step, op) })
		for i := range w.attempts {
			attempts.add(w.rec.tx.ID, &w.attempts[i])
		}
		for i := range w.commands {
			m, err := s.encoder.outboxMessage(&w.commands[i])
			if err != nil {
				return nil, err
			}
			messages = append(messages, m)
		}
		var err error
		if messages, err = s.eventMessages(messages, w); err != nil {
			return nil, err
		}
		if err := s.encoder.queueSetAside(&letters, w); err != nil {
			return nil, err
		}
		notices = noticesOf(notices, w)
	}
	if len(update.id)+len(rearm.id) > 1 { // a single one has no order
		batch.Queue(sqlLock, append(append(ids{}, update.id...), rearm.id...))
	}
	if len(update.id) > 0 {
		batch.Queue(sqlUpdate, update.args()...)
	}
	if len(rearm.id) > 0 {
		batch.Queue(sqlRearm, rearm.id, rearm.version, rearm.wakeAt)
	}
	slices.SortFunc(keyed, compareKeys) // so that batches with the same keys never wait for each other in a circle
	for _, w := range keyed {
		request.add(w)
	}
	if len(request.id) > 0 {
		batch.Queue(sqlInsertRequests, request.args()...)
		batch.Queue(sqlCheckForgotten, request.args()[:3]...)
	}
	if len(insert.id) > 0 {
		batch.Queue(sqlInsertTransactions, insert.args()...)
		batch.Queue(sqlInsertSubmissions, insert.id, insert.contentSHA256, insert.body)
	}
	if len(operations.id) > 0 {
		batch.Queue(sqlWriteOperations, operations.args()...)
	}
	if len(attempts.id) > 0 {
		batch.Queue(sqlInsertAttempts, attempts.args()...)
	}
	batch.QueuedQueries = append(batch.QueuedQueries, letters.QueuedQueries...)
	return messages, notify.Queue(batch, notices...)
}

func compareKeys(a, b *write) int {
	return cmp.Or(cmp.Compare(a.rec.tx.Tenant, b.rec.tx.Tenant), cmp.Compare(a.rec.client, b.rec.client),
		cmp.Compare(a.rec.requestID, b.rec.requestID))
}

// load reads transactions by id. Those that do not exist are absent from the result.
func (s *store) load(ctx context.Context, wanted []saga.ID) (map[saga.ID]*record, error) {
	found := make(map[saga.ID]*record, len(wanted))
	if len(wanted) == 0 {
		return found, nil
	}
	param := make(ids, len(wanted))
	for i, id := range wanted {
		param[i] = pg.UUID(id)
	}
	loaded := loading{found: found}
	var batch pgx.Batch
	batch.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`) // one snapshot: rows of one version
	s.queueSettings(&batch)
	batch.Queue(sqlLoadTransactions, param).Query(loaded.transactions)
	batch.Queue(sqlLoadSubmissions, param).Query(loaded.submissions)
	batch.Queue(sqlLoadOperations, param).Query(loaded.operations)
	dlq.QueueLoadEdits(&batch, param, func(e dlq.Edit) { loaded.edits = append(loaded.edits, e) })
	batch.Queue(`COMMIT`)
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("loading %d transactions: %w", len(wanted), err)
	}
	return found, s.complete(ctx, &loaded)
}

// complete joins the rows with their definitions.
func (s *store) complete(ctx context.Context, loaded *loading) error {
	for _, r := range loaded.found {
		def, err := s.definitions.get(ctx, r.defSHA256)
		if err != nil {
			return err
		}
		r.def = def
		r.tx.Steps = make([]saga.StepState, len(def.Steps))
		body := loaded.bodies[r.tx.ID]
		if r.tx.Inputs, err = saga.StoredInputs(def, body); err != nil {
			return &faultError{fmt.Sprintf("transaction %s: %v", r.tx.ID, err)}
		}
		r.bodyBytes = len(body)
	}
	for _, row := range loaded.rows {
		r := loaded.found[row.id]
		i := r.def.StepIndex(row.step)
		if i < 0 {
			return &faultError{fmt.Sprintf("transaction %s: operation %s/%s is not in its definition", row.id, row.step, row.op.Phase)}
		}
		if row.op.Phase == saga.PhaseTry {
			r.tx.Steps[i].Try = row.op
		} else {
			r.tx.Steps[i].Settle = row.op
		}
	}
	for n := range loaded.edits {
		e := &loaded.edits[n]
		r := loaded.found[e.TransactionID]
		if i := r.def.StepIndex(e.Step); i >= 0 {
			edit(&r.tx.Steps[i].Try, e)
			edit(&r.tx.Steps[i].Settle, e)
		}
	}
	return nil
}

// findRequests returns the stored requests among the given keys.
func (s *store) findRequests(ctx context.Context, keys []requestKey) (map[requestKey]*storedRequest, error) {
	var tenant, client, request texts
	for _, k := range keys {
		tenant, client, request = append(tenant, k.tenant), append(client, k.client), append(request, k.requestID)
	}
	found := make(map[requestKey]*storedRequest)
	var batch pgx.Batch
	s.queueSettings(&batch)
	batch.Queue(sqlFindRequests, tenant, client, request).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var k requestKey
			var r storedRequest
			var id pgtype.UUID
			var sha []byte
			if err := rows.Scan(&k.tenant, &k.client, &k.requestID, &id, &sha, &r.answer); err != nil {
				return err
			}
			r.Request = saga.Request{Tenant: k.tenant, Client: k.client, RequestID: k.requestID, Transaction: id.Bytes, Forgotten: !id.Valid}
			copy(r.ContentSHA256[:], sha)
			found[k] = &r
		}
		return rows.Err()
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("looking up request keys: %w", err)
	}
	return found, nil
}

type requestKey struct{ tenant, client, requestID string }

// storedRequest is what a request key was answered.
type storedRequest struct {
	saga.Request
	answer []byte
}

// request returns nil if nothing is stored.
func (r *storedRequest) request() *saga.Request {
	if r == nil {
		return nil
	}
	return &r.Request
}
