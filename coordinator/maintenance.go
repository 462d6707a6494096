package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
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
			err = errors.Join(c.ensurePartitions(ctx), dlq.ForgetInquiries(ctx, c.cfg.Pool, inquiriesKept, inquiriesForgotten))
		case <-waiting.C:
			ends, watched := c.waiters.awaited()
			err = errors.Join(c.noticeEnds(ctx, ends), c.noticeChanges(ctx, watched))
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("maintenance failed, trying again later", "error", err)
		}
	}
}

// raiseFloor finds the floor that every command carries (B7). While the transaction that the floor is at has not ended there
// is nothing to look for: what is older than a floor has ended, and none begins there any more.
func (c *Coordinator) raiseFloor(ctx context.Context) error {
	var before pgtype.UUID
	if floor := c.encoder.floor.Load(); floor != nil {
		before = pg.UUID(*floor)
	}
	var oldest *string
	var now time.Time
	if err := c.cfg.Pool.QueryRow(ctx, sqlFloor, before).Scan(&oldest, &now); err != nil {
		return fmt.Errorf("finding the oldest transaction that has not ended: %w", err)
	}
	var id saga.ID
	if oldest != nil {
		var err error
		if id, err = saga.ParseID(*oldest); err != nil {
			return err
		}
	}
	floor := saga.Floor(id, now)
	c.encoder.floor.Store(&floor)
	return nil
}

func (c *Coordinator) ensurePartitions(ctx context.Context) error {
	if _, err := c.cfg.Pool.Exec(ctx, `SELECT ensure_partitions($1), guard_audit()`, weeksAhead); err != nil {
		return fmt.Errorf("coordinator: make partitions ahead (has the database been migrated? run: coordinator migrate): %w", err)
	}
	return nil
}

// noticeEnds tells waiters of transactions that another coordinator has ended.
func (c *Coordinator) noticeEnds(ctx context.Context, waited []saga.ID) error {
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
		param[i] = pg.UUID(id)
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
