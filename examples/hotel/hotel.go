// Package hotel is a service that joins transactions: its rooms are reserved in the try, and booked or freed
// again when the transaction is decided. The README shows this file.
package hotel

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/participant"
)

// Stay is the input of a step.
type Stay struct {
	Room int `json:"room"`
}

// Run answers the commands for the participant "hotel" until ctx ends.
func Run(ctx context.Context, pool *pgxpool.Pool, nc *nats.Conn) error {
	if err := participant.Migrate(ctx, pool); err != nil { // the barrier, beside your own tables
		return err
	}
	p, err := participant.New(participant.Config{Name: "hotel", Pool: pool, NATS: nc})
	if err != nil {
		return err
	}
	participant.Handle(p, "book", participant.TCC[Stay, participant.None]{Try: reserve, Confirm: book, Cancel: free})
	return p.Run(ctx)
}

// reserve runs at most once per step, in the same local transaction as the record that it ran.
func reserve(ctx context.Context, tx pgx.Tx, c participant.Call[Stay]) (participant.None, error) {
	tag, err := tx.Exec(ctx, `UPDATE rooms SET state = 'reserved' WHERE id = $1 AND state = 'free'`, c.Input.Room)
	if err == nil && tag.RowsAffected() == 0 {
		err = participant.Refuse("taken", errors.New("the room is not free")) // final; any other error is tried again
	}
	return participant.None{}, err
}

func book(ctx context.Context, tx pgx.Tx, c participant.Settle[Stay, participant.None]) error {
	_, err := tx.Exec(ctx, `UPDATE rooms SET state = 'booked' WHERE id = $1`, c.Input.Room)
	return err
}

// free is not called if the room was never reserved, and a late reserve is refused after it.
func free(ctx context.Context, tx pgx.Tx, c participant.Settle[Stay, participant.None]) error {
	_, err := tx.Exec(ctx, `UPDATE rooms SET state = 'free' WHERE id = $1`, c.Input.Room)
	return err
}
