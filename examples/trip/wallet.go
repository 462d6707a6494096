package trip

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/participant"
)

// Charge is the input of the pivot.
type Charge struct {
	Owner string `json:"owner"`
	Cents int64  `json:"cents"`
}

// Receipt is the result of the pivot.
type Receipt struct {
	Number string `json:"number"`
}

// HandleWallet adds the wallet's action. Its table is
//
//	CREATE TABLE wallets (owner text PRIMARY KEY, cents bigint NOT NULL, closing boolean NOT NULL DEFAULT false)
func HandleWallet(p *participant.Participant) {
	participant.Handle(p, "charge", participant.Pivot[Charge, Receipt]{Try: charge})
}

// charge has all that a handler may say.
func charge(ctx context.Context, tx pgx.Tx, c participant.Call[Charge]) (Receipt, error) {
	if c.Input.Cents <= 0 {
		return Receipt{}, participant.Fault(errors.New("an amount of 0 or less")) // a bug of the caller: nobody should try again
	}
	var cents int64
	var closing bool
	err := tx.QueryRow(ctx, `SELECT cents, closing FROM wallets WHERE owner = $1 FOR UPDATE`, c.Input.Owner).Scan(&cents, &closing)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Receipt{}, participant.Refuse("no_wallet", nil) // final: the transaction is cancelled
	case err != nil:
		return Receipt{}, err // the database's: tried again with backoff
	case closing:
		return Receipt{}, participant.RetryAfter(30*time.Second, errors.New("the day is being closed")) // not before 30 s
	case cents < c.Input.Cents:
		return Receipt{}, participant.Refuse("insufficient_funds", nil)
	}
	_, err = tx.Exec(ctx, `UPDATE wallets SET cents = cents - $2 WHERE owner = $1`, c.Input.Owner, c.Input.Cents)
	return Receipt{Number: "r-" + c.Transaction.String()}, err
}
