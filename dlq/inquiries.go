package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Operation names the operation of a dead letter.
type Operation struct {
	Transaction saga.ID
	Step        string
	Phase       saga.Phase
}

// Operation returns what an inquiry about the dead letter asks for.
func (d *DeadLetter) Operation() Operation {
	return Operation{Transaction: d.TransactionID, Step: d.Step, Phase: d.Phase}
}

// Question is one inquiry that is sent: an answer to another one is not taken for the answer to it.
type Question struct {
	Operation
	Name string
}

// Answer is what a participant said to a question.
type Answer struct {
	Question
	saga.Inquiry
}

// Rows are locked in one order by everybody, whatever else a batch has done before.
const (
	sqlAsk = `
INSERT INTO inquiries AS i (transaction_id, step, phase, question, asked_by)
SELECT u.id, u.step, u.phase, u.question, $5
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS u (id, step, phase, question)
 ORDER BY u.id, u.step, u.phase
    ON CONFLICT (transaction_id, step, phase) DO UPDATE
   SET question = EXCLUDED.question, asked_by = EXCLUDED.asked_by, asked_at = EXCLUDED.asked_at, answered_at = NULL,
       outcome = '', state = '', code = '', reason = '', revision = 0, content_sha256 = NULL`

	sqlLockInquiries = `
SELECT i.question
  FROM unnest($1::uuid[], $2::text[], $3::text[]) AS u (id, step, phase)
  JOIN inquiries i ON i.transaction_id = u.id AND i.step = u.step AND i.phase = u.phase
 ORDER BY i.transaction_id, i.step, i.phase FOR UPDATE OF i`

	sqlAnswer = `
UPDATE inquiries SET answered_at = clock_timestamp(), outcome = $5, state = $6, code = $7, reason = $8, revision = $9, content_sha256 = $10
 WHERE transaction_id = $1 AND step = $2 AND phase = $3 AND question = $4 AND answered_at IS NULL`

	sqlGetInquiries = `
SELECT i.transaction_id, i.step, i.phase, i.question, i.asked_at, i.answered_at, i.outcome, i.state, i.code, i.reason, i.revision, i.content_sha256
  FROM unnest($1::uuid[], $2::text[], $3::text[]) AS u (id, step, phase)
  JOIN inquiries i ON i.transaction_id = u.id AND i.step = u.step AND i.phase = u.phase`

	sqlForgetInquiries = `
WITH old AS MATERIALIZED (
    SELECT transaction_id, step, phase FROM inquiries WHERE asked_at < clock_timestamp() - $1::interval
     ORDER BY transaction_id, step, phase LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM inquiries i USING old o WHERE i.transaction_id = o.transaction_id AND i.step = o.step AND i.phase = o.phase`
)

// QueueAsk notes that questions are asked. What was answered before is forgotten.
func QueueAsk(batch *pgx.Batch, questions []Question, actor string) {
	ids, steps, phases := make([]uuid.UUID, len(questions)), make([]string, len(questions)), make([]string, len(questions))
	names := make([]string, len(questions))
	for i, q := range questions {
		ids[i], steps[i], phases[i], names[i] = uuid.UUID(q.Transaction), q.Step, string(q.Phase), q.Name
	}
	batch.Queue(sqlAsk, ids, steps, phases, names, pg.Text(actor, 256))
}

// QueueAnswers stores answers, at the end of a batch: nothing that others may hold is waited for afterwards.
func QueueAnswers(batch *pgx.Batch, answers []Answer) {
	if len(answers) == 0 {
		return
	}
	ids, steps, phases := operationColumns(answers, func(a *Answer) Operation { return a.Operation })
	batch.Queue(sqlLockInquiries, ids, steps, phases)
	for i := range answers {
		a := &answers[i]
		var content []byte
		if a.ContentSHA256 != [32]byte{} {
			content = a.ContentSHA256[:]
		}
		batch.Queue(sqlAnswer, uuid.UUID(a.Transaction), a.Step, string(a.Phase), a.Name, string(a.Outcome), string(a.State),
			pg.Text(a.Code, saga.CodeBytesMax), pg.Text(a.Reason, saga.ReasonBytesMax), a.Revision, content)
	}
}

func operationColumns[T any](list []T, of func(*T) Operation) (ids []uuid.UUID, steps, phases []string) {
	for i := range list {
		o := of(&list[i])
		ids, steps, phases = append(ids, uuid.UUID(o.Transaction)), append(steps, o.Step), append(phases, string(o.Phase))
	}
	return ids, steps, phases
}

// Inquiries returns the last inquiry about each of the operations that were asked about.
func Inquiries(ctx context.Context, db Querier, operations []Operation) (map[Operation]Answer, error) {
	ids, steps, phases := operationColumns(operations, func(o *Operation) Operation { return *o })
	rows, err := db.Query(ctx, sqlGetInquiries, ids, steps, phases)
	if err != nil {
		return nil, fmt.Errorf("dlq: read inquiries: %w", err)
	}
	found := map[Operation]Answer{}
	list, err := pgx.CollectRows(rows, scanInquiry)
	if err != nil {
		return nil, fmt.Errorf("dlq: read inquiries: %w", err)
	}
	for _, a := range list {
		found[a.Operation] = a
	}
	return found, nil
}

func scanInquiry(row pgx.CollectableRow) (a Answer, err error) {
	var id uuid.UUID
	var answeredAt *time.Time
	var content []byte
	err = row.Scan(&id, &a.Step, (*string)(&a.Phase), &a.Name, &a.AskedAt, &answeredAt, (*string)(&a.Outcome), (*string)(&a.State),
		&a.Code, &a.Reason, &a.Revision, &content)
	a.Transaction, a.AskedAt = saga.ID(id), a.AskedAt.UTC()
	if answeredAt != nil {
		a.AnsweredAt = answeredAt.UTC()
	}
	copy(a.ContentSHA256[:], content)
	return a, err
}

// ForgetInquiries removes up to limit inquiries that were asked longer ago than age.
func ForgetInquiries(ctx context.Context, db Execer, age time.Duration, limit int) error {
	if _, err := db.Exec(ctx, sqlForgetInquiries, age, limit); err != nil {
		return fmt.Errorf("dlq: forget old inquiries: %w", err)
	}
	return nil
}
