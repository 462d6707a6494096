package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The bank of the demonstration keeps what no other participant has to: money that can be counted, and a journal of
// every run of a handler.

const sqlHeld = `
SELECT id, concat(held_cents, ' cents are held and ', incoming_cents, ' are expected')
  FROM bank.accounts
 WHERE held_cents <> 0 OR incoming_cents <> 0
 ORDER BY id
 LIMIT $1`

const sqlRanTwice = `
SELECT transaction_id::text, concat(step, '/', phase, ' of tenant ', tenant, ' ran ', count(*), ' times')
  FROM bank.effects
 GROUP BY tenant, transaction_id, step, phase
HAVING count(*) > 1
 ORDER BY transaction_id
 LIMIT $1`

// sqlUnderWay reports whether any transaction has not ended: only those have a timer.
const sqlUnderWay = `SELECT EXISTS (SELECT FROM transactions WHERE wake_at IS NOT NULL)`

// lookAtBanks looks at the databases that have a bank. Money is held while transactions are under way, so nothing may
// be, before and after.
func (d *doctor) lookAtBanks(ctx context.Context) error {
	held, twice := d.byName[checkHeld], d.byName[checkTwice]
	banks := 0
	before, err := d.underWay(ctx)
	if err != nil {
		return err
	}
	had := len(held.suspects)
	for _, db := range d.databases {
		if !db.bank {
			continue
		}
		banks++
		err := d.read(ctx, db.pool, func(tx pgx.Tx) error {
			if d.room(held) > 0 && !before {
				if err := d.askOne(ctx, tx, sqlHeld, page{over: overBanks}, held); err != nil {
					return err
				}
			}
			if d.room(twice) == 0 {
				return nil
			}
			return d.askOne(ctx, tx, sqlRanTwice, page{over: overBanks}, twice)
		})
		if err != nil {
			return fmt.Errorf("doctor: look at the bank of participant %s: %w", db.names[0], err)
		}
	}
	after, err := d.underWay(ctx)
	switch {
	case err != nil:
		return err
	case banks == 0 && len(d.databases) > 0:
		held.Status, held.Note = StatusSkipped, "no participant is a bank"
		twice.Status, twice.Note = StatusSkipped, held.Note
	case banks > 0 && (before || after):
		held.suspects = held.suspects[:had]
		held.Status, held.Note = StatusSkipped, "transactions are under way, which may hold money"
	}
	return nil
}

func (d *doctor) underWay(ctx context.Context) (some bool, err error) {
	if err := d.Coordinator.QueryRow(ctx, sqlUnderWay).Scan(&some); err != nil {
		return false, fmt.Errorf("doctor: look for transactions under way: %w", err)
	}
	return some, nil
}
