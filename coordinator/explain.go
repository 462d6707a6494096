package coordinator

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/saga"
)

// Explained is a transaction with what people are told about it.
type Explained struct {
	View
	Explanation saga.Explanation
	DeadLetters map[string]uuid.UUID // the open ones, by step/phase: what can be replayed
}

// Explain says of a transaction of the caller why it waits, what happens next and what can be done (E1). It reads
// only. The error is ErrNotFound for one that is not there, or not the caller's.
func (c *Coordinator) Explain(ctx context.Context, caller Caller, id saga.ID) (Explained, error) {
	r, err := c.find(ctx, caller, id)
	if err != nil {
		return Explained{}, err
	}
	e := Explained{View: r.view(), Explanation: saga.Explain(r.def, r.tx, c.store.clock.now())}
	if r.tx.Suspended() {
		e.DeadLetters, err = c.openDeadLetters(ctx, id)
	}
	return e, err
}

// sqlOpenDeadLetters finds the open dead letters of a transaction.
const sqlOpenDeadLetters = `
SELECT id, step || '/' || phase
  FROM dead_letters WHERE transaction_id = $1 AND kind = 'operation' AND status = 'open'`

func (c *Coordinator) openDeadLetters(ctx context.Context, id saga.ID) (map[string]uuid.UUID, error) {
	rows, err := c.cfg.Pool.Query(ctx, sqlOpenDeadLetters, uuid.UUID(id))
	if err != nil {
		return nil, fmt.Errorf("finding the dead letters of %s: %w", id, err)
	}
	letters := map[string]uuid.UUID{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (operation string, err error) {
		var letter uuid.UUID
		err = row.Scan(&letter, &operation)
		letters[operation] = letter
		return operation, err
	})
	if err != nil {
		return nil, fmt.Errorf("finding the dead letters of %s: %w", id, err)
	}
	return letters, nil
}
