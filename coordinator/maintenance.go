package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/saga"
)

// How often the quiet work is done.
const (
	floorInterval      = 10 * time.Second
	partitionsInterval = time.Hour
	waitersInterval    = 500 * time.Millisecond
	weeksAhead         = 4
)

// runMaintenance does the work that nobody waits for: the floor, future partitions, and the ends of
// transactions that another coordinator brought about.
func (c *Coordinator) runMaintenance(ctx context.Context) error {
	floor, partitions := time.NewTicker(floorInterval), time.NewTicker(partitionsInterval)
	waiting := time.NewTicker(waitersInterval)
	defer floor.Stop()
	defer partitions.Stop()
	defer waiting.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-floor.C:
			err = c.raiseFloor(ctx)
		case <-partitions.C:
			err = c.ensurePartitions(ctx)
		case <-waiting.C:
			err = c.noticeEnds(ctx)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("maintenance failed, trying again later", "error", err)
		}
	}
}

// floorMargin keeps the floor below the ids that clients may still make (S1.2).
const floorMargin = 10 * time.Minute

// raiseFloor finds the oldest transaction that has not ended, which every command carries (B7).
func (c *Coordinator) raiseFloor(ctx context.Context) error {
	var oldest *string
	var now time.Time
	if err := c.cfg.Pool.QueryRow(ctx, sqlFloor).Scan(&oldest, &now); err != nil {
		return fmt.Errorf("finding the oldest transaction that has not ended: %w", err)
	}
	floor := firstIDAt(now.Add(-floorMargin))
	if oldest != nil {
		id, err := saga.ParseID(*oldest)
		if err != nil {
			return err
		}
		if string(id[:]) < string(floor[:]) {
			floor = id
		}
	}
	c.encoder.floor.Store(&floor)
	return nil
}

// firstIDAt returns the smallest transaction id of an instant.
func firstIDAt(t time.Time) saga.ID {
	var id saga.ID
	ms := t.UnixMilli()
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	id[6], id[8] = 0x70, 0x80
	return id
}

func (c *Coordinator) ensurePartitions(ctx context.Context) error {
	if _, err := c.cfg.Pool.Exec(ctx, `SELECT ensure_partitions($1)`, weeksAhead); err != nil {
		return fmt.Errorf("coordinator: make partitions ahead (has the database been migrated? run: coordinator migrate): %w", err)
	}
	return nil
}

// noticeEnds tells waiters of transactions that another coordinator has ended.
func (c *Coordinator) noticeEnds(ctx context.Context) error {
	waited := c.waiters.ids()
	if len(waited) == 0 {
		return nil
	}
	ended, err := c.store.ended(ctx, waited)
	if err != nil || len(ended) == 0 {
		return err
	}
	found, err := c.store.load(ctx, ended)
	for _, r := range found {
		c.waiters.notify(r)
	}
	return err
}

func (s *store) ended(ctx context.Context, wanted []saga.ID) ([]saga.ID, error) {
	param := make(ids, len(wanted))
	for i, id := range wanted {
		param[i] = uuidOf(id)
	}
	return s.queryIDs(ctx, sqlEnded, param)
}

// claimTimers takes up to limit transactions that are due, for the lease.
func (s *store) claimTimers(ctx context.Context, limit int, lease time.Duration) ([]saga.ID, error) {
	return s.queryIDs(ctx, sqlClaimTimers, limit, lease)
}

func (s *store) queryIDs(ctx context.Context, sql string, args ...any) ([]saga.ID, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("looking for transactions: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (saga.ID, error) {
		var id pgtype.UUID
		err := row.Scan(&id)
		return id.Bytes, err
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("looking for transactions: %w", err)
	}
	return list, err
}
