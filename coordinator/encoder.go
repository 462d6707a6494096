package coordinator

import (
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// encoder makes messages of commands.
type encoder struct {
	prefix string
	shards *shards
	floor  atomic.Pointer[saga.ID] // the oldest transaction that has not ended (B7); nil until known
}

func (e *encoder) encode(c *saga.Command) (wire.Message, error) {
	c.ReplyTo = wire.ReplySubject(e.prefix, c.Participant, e.shards.own())
	if floor := e.floor.Load(); floor != nil {
		c.Floor = *floor
	}
	m, err := wire.EncodeCommand(e.prefix, *c)
	if err != nil {
		return m, fmt.Errorf("command %s: %w", c.Key(), err)
	}
	return m, nil
}

// queueSetAside adds what a write sets aside to the batch: changes of dead letters.
func (e *encoder) queueSetAside(batch *pgx.Batch, w *write) error {
	for _, change := range w.letters {
		if change.To == saga.DeadLetterOpen {
			m, err := e.encode(&change.Command)
			if err != nil {
				return err
			}
			change.Message = m
		}
		if err := dlq.Queue(batch, change); err != nil {
			return err
		}
	}
	for i := range w.edits {
		dlq.QueueEdit(batch, &w.edits[i])
	}
	return nil
}

// outboxMessage makes the outbox message of a command. One that could not be published by the time its
// attempt has timed out is dropped: the timer sends the next attempt.
func (e *encoder) outboxMessage(c *saga.Command) (outbox.Message, error) {
	m, err := e.encode(c)
	if err != nil {
		return outbox.Message{}, err
	}
	return outbox.Message{Subject: m.Subject, Header: m.Header, Data: m.Data, TTL: c.Timeout}, nil
}

func newID() (saga.ID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return saga.ID{}, fmt.Errorf("%w: %w", errNoID, err)
	}
	return saga.ID(id), nil
}
