package dlq

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Execer is a pool, a connection or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// CodeMoved is the SQLSTATE of a batch that did not find a dead letter open at the version that its operator saw.
const CodeMoved = "SG404"

// Queue adds the change to a batch that also writes the transaction it follows from. The batch fails with
// CodeMoved if an operator's change comes too late.
func Queue(batch *pgx.Batch, c Change) error {
	switch c.To {
	case saga.DeadLetterOpen:
		return queueOpen(batch, c)
	case saga.DeadLetterReplaying, saga.DeadLetterDiscarded:
		batch.Queue(sqlClaim, uuid.UUID(c.TransactionID), c.Step, string(c.Phase), string(c.To), c.Attempt, c.Version)
	default:
		batch.Queue(sqlEnd, uuid.UUID(c.TransactionID), c.Step, string(c.Phase), string(c.To))
	}
	return nil
}

func queueOpen(batch *pgx.Batch, c Change) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("dlq: make an id: %w", err)
	}
	headers, err := headersJSON(c.Message.Header)
	if err != nil {
		return err
	}
	cmd := &c.Command
	cause, reason := pg.Text(c.Cause, saga.CodeBytesMax), pg.Text(c.Reason, saga.ReasonBytesMax)
	batch.Queue(sqlOpen, id, cause, string(c.Outcome), reason,
		c.Fingerprint(), c.Tenant, uuid.UUID(c.TransactionID), c.Step,
		string(c.Phase), cmd.Participant, cmd.Action, c.Attempt, cmd.Revision, cmd.ContentSHA256[:], c.Message.Subject,
		headers, notNil(c.Message.Data), cmd.Traceparent)
	return nil
}

// Fingerprint returns that of the dead letter that the change opens.
func (c *Change) Fingerprint() string {
	cause, reason := pg.Text(c.Cause, saga.CodeBytesMax), pg.Text(c.Reason, saga.ReasonBytesMax)
	return Fingerprint(c.Command.Participant, c.Command.Action, string(c.Phase), cause, reason)
}

// BuryMessage keeps a message that could not be understood, with its exact bytes (C5). The participant is
// who sent it, or "" if nobody knows.
func BuryMessage(ctx context.Context, db Execer, m wire.Message, participant, cause, reason string) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("dlq: make an id: %w", err)
	}
	headers, err := headersJSON(m.Header)
	if err != nil {
		return err
	}
	reason = pg.Text(reason, saga.ReasonBytesMax)
	participant = pg.Text(participant, saga.NameBytesMax)
	_, err = db.Exec(ctx, sqlInsertMessage, id, cause, reason, Fingerprint(participant, "", "", cause, reason),
		participant, pg.Text(m.Subject, saga.ReasonBytesMax), headers, notNil(m.Data))
	if err != nil {
		return fmt.Errorf("dlq: keep a message from %q: %w", m.Subject, err)
	}
	return nil
}

// Sender is a pool, a connection or a transaction that takes batches.
type Sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// DiscardMessage gives a message up and records who did, in one transaction. The error has the SQLSTATE CodeMoved
// if the message is not open, or not at that version.
func DiscardMessage(ctx context.Context, db Sender, id uuid.UUID, version int64, e AuditEntry) error {
	var batch pgx.Batch
	batch.Queue(sqlDiscardMessage, id, version)
	QueueAudit(&batch, e)
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("dlq: discard message %s: %w", id, err)
	}
	return nil
}

// headersJSON encodes headers for a jsonb column, which holds neither NUL nor invalid UTF-8.
func headersJSON(h wire.Header) ([]byte, error) {
	const headerBytesMax = 8 << 10
	clean := make(wire.Header, len(h))
	for name, values := range h {
		for _, v := range values {
			name = pg.Text(name, headerBytesMax)
			clean[name] = append(clean[name], pg.Text(v, headerBytesMax))
		}
	}
	b, err := json.Marshal(clean)
	if err != nil {
		return nil, fmt.Errorf("dlq: encode headers: %w", err)
	}
	return b, nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
