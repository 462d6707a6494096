package coordinator

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// loading gathers the rows of transactions that are being read.
type loading struct {
	found  map[saga.ID]*record
	bodies map[saga.ID][]byte
	rows   []operationRow
	edits  []dlq.Edit
}

type operationRow struct {
	id   saga.ID
	step string
	op   saga.Operation
}

func (l *loading) transactions(rows pgx.Rows) error {
	for rows.Next() {
		r, err := scanTransaction(rows)
		if err != nil {
			return err
		}
		l.found[r.tx.ID] = r
	}
	return rows.Err()
}

// scanTransaction reads a row of sqlLoadTransactions and sqlListTransactions.
func scanTransaction(rows pgx.Rows) (*record, error) {
	var (
		r                                              record
		id                                             pgtype.UUID
		suspended                                      bool
		definition                                     []byte
		name                                           string
		startAt, deadline, decidedAt, finishedAt, wake pgtype.Timestamptz
	)
	tx := &r.tx
	err := rows.Scan(&id, &tx.Version, (*string)(&tx.Status), &suspended, &tx.Tenant, &r.client, &r.requestID,
		&definition, &name, (*string)(&tx.Cause.Why), &tx.Cause.Step, &tx.Cause.Code, &tx.Cause.Reason,
		&tx.CreatedAt, &startAt, &deadline, &decidedAt, &finishedAt, &wake, &tx.Traceparent, &tx.Tracestate)
	if err != nil {
		return nil, err
	}
	tx.ID = id.Bytes
	copy(r.defSHA256[:], definition)
	tx.CreatedAt = tx.CreatedAt.UTC()
	tx.StartAt, tx.Deadline, tx.DecidedAt = timeFrom(startAt), timeFrom(deadline), timeFrom(decidedAt)
	tx.FinishedAt = timeFrom(finishedAt)
	r.suspended, r.definitionName, r.wakeAt = suspended, name, timeFrom(wake)
	return &r, nil
}

func (l *loading) submissions(rows pgx.Rows) error {
	l.bodies = make(map[saga.ID][]byte, len(l.found))
	for rows.Next() {
		var id pgtype.UUID
		var sha, body []byte
		if err := rows.Scan(&id, &sha, &body); err != nil {
			return err
		}
		l.bodies[id.Bytes] = body
		if r := l.found[id.Bytes]; r != nil {
			copy(r.contentSHA256[:], sha)
		}
	}
	return rows.Err()
}

func (l *loading) operations(rows pgx.Rows) error {
	for rows.Next() {
		var (
			row            operationRow
			id             pgtype.UUID
			sha            []byte
			sentAt, nextAt pgtype.Timestamptz
			result         []byte
		)
		op := &row.op
		err := rows.Scan(&id, &row.step, (*string)(&op.Phase), (*string)(&op.State), (*string)(&op.Wait), &op.Replaying,
			&op.Attempt, &op.Counted, &op.CountedTo, &op.Floor, &op.Revision, &sha, &sentAt, &nextAt,
			(*string)(&op.LastOutcome), &op.LastCode, &op.LastReason, &result, &op.Result.Type)
		if err != nil {
			return err
		}
		row.id = id.Bytes
		copy(op.ContentSHA256[:], sha)
		op.SentAt, op.NextAt, op.Result.Data = timeFrom(sentAt), timeFrom(nextAt), result
		if l.found[row.id] != nil {
			l.rows = append(l.rows, row)
		}
	}
	return rows.Err()
}

// edit gives an operation the input of its present revision, or of the next one, which is proposed.
func edit(op *saga.Operation, e *dlq.Edit) {
	switch {
	case op.Phase != e.Phase:
	case op.Revision == e.Revision:
		op.Input = e.Input
	case op.Revision+1 == e.Revision:
		op.Proposed, op.Reserved = e.Input, e.Reserved
	}
}

// timeFrom reads NULL and infinity as the zero time.
func timeFrom(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time.UTC()
}
