package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
)

// presenceInterval is how often a coordinator says that it runs.
const presenceInterval = time.Second

// When the others take one for gone that has not said that it runs: goneAfter for what is quickly mended, forgottenAfter for
// what it has in flight.
const (
	goneAfter      = 5 * presenceInterval / 2
	forgottenAfter = 5 * presenceInterval
)

// runPresence tells the other coordinators of this one, and reads what they tell and what is paused, so that all of them
// together keep to what may be sent to participants and each takes its own replies. A coordinator that cannot be reached
// costs accuracy, nothing else.
func (c *Coordinator) runPresence(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return errNoID
	}
	defer c.leave(ctx, id)
	ticker := time.NewTicker(presenceInterval)
	defer ticker.Stop()
	for {
		if err := c.keepUp(ctx, id); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot meet the other coordinators, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// keepUp exchanges with the other coordinators what all of them have to know.
func (c *Coordinator) keepUp(ctx context.Context, id uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, 5*presenceInterval)
	defer cancel()
	return errors.Join(c.meet(ctx, id), c.loadPauses(ctx), c.pauseByAlarm(ctx), c.tellBreakers(ctx))
}

// meet writes what this coordinator has in flight and reads what the others have. One that cannot reach NATS says so: the
// others are to take the replies that it waits for, and it goes on counting among those that share what may be sent.
func (c *Coordinator) meet(ctx context.Context, id uuid.UUID) error {
	own := c.gate.inFlight(c.store.clock.now())
	names, counts := make([]string, 0, len(own)), make([]int32, 0, len(own))
	for name, n := range own {
		names, counts = append(names, name), append(counts, int32(n))
	}
	batch := &pgx.Batch{}
	batch.Queue(sqlPresence, pg.UUID(id), names, counts, c.cfg.Bus.Connected())
	var others []map[string]int
	var present []uuid.UUID
	batch.Queue(sqlOthers, pg.UUID(id), goneAfter, forgottenAfter).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var names []string
			var counts []int32
			var other pgtype.UUID
			var takesReplies bool
			if err := rows.Scan(&other, &takesReplies, &names, &counts); err != nil {
				return err
			}
			if takesReplies {
				present = append(present, other.Bytes)
			}
			inFlight := map[string]int{}
			for i, name := range names {
				inFlight[name] = int(counts[i])
			}
			others = append(others, inFlight)
		}
		return rows.Err()
	})
	if err := c.cfg.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("reading which coordinators run: %w", err)
	}
	c.gate.share(others)
	c.shards.divide(id, present)
	return nil
}

// leave lets the others have this coordinator's share at once.
func (c *Coordinator) leave(ctx context.Context, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), presenceInterval)
	defer cancel()
	if _, err := c.cfg.Pool.Exec(ctx, sqlLeave, pg.UUID(id)); err != nil {
		c.log.Debug("the others will notice only later that this coordinator has stopped", "error", err)
	}
}
