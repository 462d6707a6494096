package bank

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

const sqlRefill = `UPDATE bank.accounts SET balance_cents = $2 WHERE id = $1 AND balance_cents < $2`

// Refill raises an account's balance to the cents if it has less: demonstrations that run again and again would
// empty it. The total grows with it, so call it before anything compares totals.
func Refill(ctx context.Context, pool *pgxpool.Pool, account string, cents int64) error {
	if _, err := pool.Exec(ctx, sqlRefill, account, cents); err != nil {
		return fmt.Errorf("bank: refill: %w", err)
	}
	return nil
}
