// Package trip books a journey across three services: a hotel (package hotel), an airline and a wallet. It has a
// step of every kind, and shows both ways to start a transaction. The documentation shows parts of it.
package trip

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
)

// Definition reserves a room and holds a seat side by side, then takes the money, which decides, and then
// writes the ticket.
var Definition = saga.Define("trip").
	Timeout(2*time.Minute).
	TCC("room", "hotel", "book", saga.Root()).
	Saga("seat", "airline", "hold", saga.Root()).
	Pivot("pay", "wallet", "charge", saga.After("room", "seat")).
	Retriable("ticket", "airline", "ticket", saga.After("pay")).
	MustBuild()

// Inputs are what the steps of a trip get.
func Inputs(room int, seat, owner string, cents int64) map[string]any {
	return map[string]any{
		"room":   map[string]int{"room": room},
		"seat":   Seat{ID: seat},
		"pay":    Charge{Owner: owner, Cents: cents},
		"ticket": Seat{ID: seat},
	}
}

// Book starts the trip of an order and waits for its end, as long as ctx allows. The order's id is the request id:
// calling Book again for the same order starts nothing new, and finds out how the first one ended.
func Book(ctx context.Context, c *client.Client, orderID string, inputs map[string]any) (saga.Result, error) {
	s, err := c.Submit(ctx, client.Submission{Definition: Definition, Inputs: inputs}, client.SubmitOptions{RequestID: orderID})
	if err != nil {
		return saga.ResultUnknown, err // a *client.Problem says that nothing was started, a *client.UnknownError does not
	}
	tx, err := c.Wait(ctx, s.ID)
	if err != nil {
		return saga.ResultUnknown, err
	}
	return tx.Result, nil
}

// Order stores an order and starts its trip: both or neither, even if the coordinator is away just now.
func Order(ctx context.Context, pool *pgxpool.Pool, relay *outbox.Relay, orderID string, inputs map[string]any) error {
	submission, err := json.Marshal(map[string]any{"definition": json.RawMessage(Definition.JSON()), "inputs": inputs})
	if err != nil {
		return err
	}
	var entries []outbox.Entry
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, `INSERT INTO orders (id) VALUES ($1)`, orderID); err != nil {
			return err
		}
		entries, err = outbox.Insert(ctx, tx, outbox.Message{
			Subject: "saga.submit.default",                             // default is the tenant
			Header:  map[string][]string{"Saga-Request-Id": {orderID}}, // without it a copy starts a second trip
			Data:    submission,
		})
		return err
	})
	if err == nil {
		relay.HandOff(entries...) // sooner than the relay would find it
	}
	return err
}
