package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
)

// Writer inserts messages. Its zero value, which Insert and Queue use, has the default limit.
type Writer struct {
	// MessageBytesMax is the limit of a message, headers included: the max_payload of the NATS server
	// and the message limit of the streams. Zero means DefaultMessageBytesMax.
	MessageBytesMax int
}

// Insert inserts messages in the caller's transaction and returns what to hand off once it is committed.
// A message that cannot travel is an *InvalidError or *TooLargeError; then, and on any other error,
// nothing was inserted.
func Insert(ctx context.Context, tx pgx.Tx, msgs ...Message) ([]Entry, error) {
	return Writer{}.Insert(ctx, tx, msgs...)
}

// Queue adds the insert to the caller's batch, for those who write everything in one round trip. The
// batch must be sent in a transaction that also holds the state the messages follow from. Errors are
// those of Insert; then nothing was added.
func Queue(b *pgx.Batch, msgs ...Message) ([]Entry, error) {
	return Writer{}.Queue(b, msgs...)
}

// Insert is Insert with the writer's limit.
func (w Writer) Insert(ctx context.Context, tx pgx.Tx, msgs ...Message) ([]Entry, error) {
	entries, args, err := w.prepare(msgs)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if _, err := tx.Exec(ctx, sqlInsert, args...); err != nil {
		return nil, fmt.Errorf("outbox: insert %d messages: %w", len(msgs), err)
	}
	return entries, nil
}

// Queue is Queue with the writer's limit.
func (w Writer) Queue(b *pgx.Batch, msgs ...Message) ([]Entry, error) {
	entries, args, err := w.prepare(msgs)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	b.Queue(sqlInsert, args...)
	return entries, nil
}

// idArray is how ids become a parameter: pgx writes a slice of uuid.UUID through reflection and text, ten times as slowly.
type idArray = pg.Array[pgtype.UUID]

// prepare checks the messages and lays them out as the columns of sqlInsert.
func (w Writer) prepare(msgs []Message) ([]Entry, []any, error) {
	bytesMax := w.MessageBytesMax
	if bytesMax == 0 {
		bytesMax = DefaultMessageBytesMax
	}
	n, now := len(msgs), time.Now()
	entries := make([]Entry, n)
	ids := make(idArray, n)
	subjects, messageIDs, headers := make([]string, n), make([]string, n), make([]string, n)
	data, ttls := make([][]byte, n), make([]int64, n)
	for i, m := range msgs {
		e, err := newEntry(m, bytesMax, now)
		if err != nil {
			return nil, nil, err
		}
		entries[i], ids[i], subjects[i] = e, pg.UUID(e.id), m.Subject
		headers[i], messageIDs[i] = headerText(e.msg.Header)
		if data[i] = m.Data; m.Data == nil {
			data[i] = []byte{} // NULL otherwise
		}
		if m.TTL > 0 {
			ttls[i] = max(1, m.TTL.Milliseconds())
		}
	}
	return entries, []any{ids, subjects, messageIDs, headers, data, ttls}, nil
}
