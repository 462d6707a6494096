package trip

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/participant"
)

// Seat is the input of the airline's steps.
type Seat struct {
	ID string `json:"id"`
}

// Ticket is the result of the last step.
type Ticket struct {
	Seat    string `json:"seat"`
	Receipt string `json:"receipt"`
}

// HandleAirline adds the airline's actions. Its table is
//
//	CREATE TABLE seats (id text PRIMARY KEY, state text NOT NULL DEFAULT 'free', holder text, receipt text)
func HandleAirline(p *participant.Participant) {
	participant.Handle(p, "hold", participant.Saga[Seat, participant.None]{Try: hold, Cancel: release})
	participant.Handle(p, "ticket", participant.Retriable[Seat, Ticket]{Try: writeTicket})
}

// holder names the step that holds a seat. The cancel finds the seat by it, whatever the try's result was.
func holder(o participant.Operation) string {
	return o.Tenant + "/" + o.Transaction.String() + "/" + o.Step
}

// hold takes the seat from everybody else; "held" tells them that it is not sold yet.
func hold(ctx context.Context, tx pgx.Tx, c participant.Call[Seat]) (participant.None, error) {
	tag, err := tx.Exec(ctx, `UPDATE seats SET state = 'held', holder = $2 WHERE id = $1 AND state = 'free'`,
		c.Input.ID, holder(c.Operation))
	if err == nil && tag.RowsAffected() == 0 {
		err = participant.Refuse("seat_taken", fmt.Errorf("seat %s is not free", c.Input.ID))
	}
	return participant.None{}, err
}

// release works without the try's result (S2.5).
func release(ctx context.Context, tx pgx.Tx, c participant.Settle[Seat, participant.None]) error {
	_, err := tx.Exec(ctx, `UPDATE seats SET state = 'free', holder = NULL WHERE holder = $1`, holder(c.Operation))
	return err
}

// writeTicket runs after the decision. It cannot refuse; what is wrong for good is a fault, which a person sees.
func writeTicket(ctx context.Context, tx pgx.Tx, c participant.Call[Seat]) (Ticket, error) {
	paid, err := participant.Result[Receipt](c, "pay") // named in the step's after
	if err != nil {
		return Ticket{}, err
	}
	tag, err := tx.Exec(ctx, `UPDATE seats SET state = 'sold', receipt = $2 WHERE id = $1 AND state = 'held'`, c.Input.ID, paid.Number)
	if err == nil && tag.RowsAffected() == 0 {
		err = participant.Fault(errors.New("the seat is not held"))
	}
	return Ticket{Seat: c.Input.ID, Receipt: paid.Number}, err
}
