package dlq

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/saga"
)

const sqlWriteEdit = `
INSERT INTO edits (transaction_id, step, phase, revision, tenant, input, input_type, content_sha256, reserved)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (transaction_id, step, phase, revision) DO UPDATE
   SET input = EXCLUDED.input, input_type = EXCLUDED.input_type, content_sha256 = EXCLUDED.content_sha256,
       reserved = EXCLUDED.reserved, updated_at = clock_timestamp()`

const sqlWithdrawEdit = `DELETE FROM edits WHERE transaction_id = $1 AND step = $2 AND phase = $3 AND revision = $4`

// What is proposed belongs to what operators look at: the dead letter is another version of itself then.
const sqlTouch = `
UPDATE dead_letters SET version = version + 1, updated_at = clock_timestamp()
 WHERE kind = 'operation' AND transaction_id = $1 AND step = $2 AND phase = $3 AND status = 'open'`

// An operator's proposal must find the dead letter open, at the version that the operator saw.
const sqlClaimEdit = `
WITH written AS (
    UPDATE dead_letters SET version = version + 1, updated_at = clock_timestamp()
     WHERE kind = 'operation' AND transaction_id = $1 AND step = $2 AND phase = $3 AND status = 'open' AND version = $4
    RETURNING 1
)
SELECT expect_rows((SELECT count(*) FROM written), 1, 'SG404')`

const editColumns = `transaction_id, step, phase, revision, tenant, input, input_type, content_sha256, reserved`

const sqlLoadEdits = `
SELECT ` + editColumns + ` FROM edits WHERE transaction_id = ANY ($1::uuid[])`

// Edit is the input of one revision of an operation.
type Edit struct {
	saga.EditChange
	Tenant        string
	TransactionID saga.ID
	Version       int64 // of the dead letter that an operator saw; zero: the change is no operator's
}

// QueueEdit adds the change to a batch that also writes the transaction it follows from. The batch fails with CodeMoved
// if an operator's change comes too late.
func QueueEdit(batch *pgx.Batch, e *Edit) {
	id := uuid.UUID(e.TransactionID)
	if e.Version != 0 {
		batch.Queue(sqlClaimEdit, id, e.Step, string(e.Phase), e.Version)
	} else {
		batch.Queue(sqlTouch, id, e.Step, string(e.Phase))
	}
	if e.Withdrawn {
		batch.Queue(sqlWithdrawEdit, id, e.Step, string(e.Phase), e.Revision)
		return
	}
	batch.Queue(sqlWriteEdit, id, e.Step, string(e.Phase), e.Revision, e.Tenant, notNil(e.Input.Data), e.Input.Type, e.ContentSHA256[:], e.Reserved)
}

// QueueLoadEdits adds the reading of the edits of some transactions to a batch.
func QueueLoadEdits(batch *pgx.Batch, transactions any, each func(Edit)) {
	batch.Queue(sqlLoadEdits, transactions).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			e, err := scanEdit(rows)
			if err != nil {
				return err
			}
			each(e)
		}
		return rows.Err()
	})
}

// Propose adds to dead letters what is proposed to be sent instead, where anything is, in one query.
func Propose(ctx context.Context, db Querier, letters ...*DeadLetter) error {
	var ids []uuid.UUID
	for _, d := range letters {
		if d.mayHaveEdit() {
			ids = append(ids, uuid.UUID(d.TransactionID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.Query(ctx, sqlLoadEdits, ids)
	if err != nil {
		return fmt.Errorf("dlq: get the edits of %d dead letters: %w", len(ids), err)
	}
	edits, err := pgx.CollectRows(rows, scanEdit)
	if err != nil {
		return fmt.Errorf("dlq: get the edits of %d dead letters: %w", len(ids), err)
	}
	for _, d := range letters {
		for n := range edits {
			e := &edits[n]
			if d.mayHaveEdit() && e.TransactionID == d.TransactionID && e.Step == d.Step && e.Phase == d.Phase && e.Revision == d.Revision+1 {
				d.Edit = e
			}
		}
	}
	return nil
}

func (d *DeadLetter) mayHaveEdit() bool {
	return d.Kind == KindOperation && d.Status == saga.DeadLetterOpen
}

func scanEdit(row pgx.CollectableRow) (e Edit, err error) {
	var id uuid.UUID
	var sha []byte
	err = row.Scan(&id, &e.Step, (*string)(&e.Phase), &e.Revision, &e.Tenant, &e.Input.Data, &e.Input.Type, &sha, &e.Reserved)
	e.TransactionID = saga.ID(id)
	copy(e.ContentSHA256[:], sha)
	return e, err
}
