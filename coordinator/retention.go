package coordinator

import (
	"cmp"
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

// Retention says how long what has ended is kept. Zero means the default, a negative period: for ever. Transactions go by
// whole weeks, so up to a week later; request hashes, incidents and the audit by thirteen weeks.
type Retention struct {
	Transactions time.Duration // with their submissions, operations, attempts, edits and request keys, after their end; default 30 days
	KeyMemory    time.Duration // of the hashes of request keys, after that (S1.3); default 400 days
	DeadLetters  time.Duration // closed, obsolete or discarded ones with their approvals, after that, and bulk replays; default 90 days
	Incidents    time.Duration // default 90 days
	Audit        time.Duration // default 400 days
}

const day = 24 * time.Hour

// Defaults of Retention.
const (
	DefaultRetention           = 30 * day
	DefaultKeyMemory           = 400 * day
	DefaultDeadLetterRetention = 90 * day
	DefaultIncidentRetention   = 90 * day
	DefaultAuditRetention      = 400 * day
)

// WithDefaults returns the periods that are in force.
func (r Retention) WithDefaults() Retention {
	return Retention{
		Transactions: cmp.Or(r.Transactions, DefaultRetention), KeyMemory: cmp.Or(r.KeyMemory, DefaultKeyMemory),
		DeadLetters: cmp.Or(r.DeadLetters, DefaultDeadLetterRetention), Incidents: cmp.Or(r.Incidents, DefaultIncidentRetention),
		Audit: cmp.Or(r.Audit, DefaultAuditRetention),
	}
}

// retentionMin is the shortest period that makes sense: a participant's Saga-Floor is ten minutes behind the clock.
const retentionMin = time.Hour

// Validate reports a period that is too short.
func (r Retention) Validate() error {
	r = r.WithDefaults()
	for _, p := range []struct {
		name  string
		value time.Duration
	}{
		{"Transactions", r.Transactions},
		{"KeyMemory", r.KeyMemory},
		{"DeadLetters", r.DeadLetters},
		{"Incidents", r.Incidents},
		{"Audit", r.Audit},
	} {
		if p.value >= 0 && p.value < retentionMin {
			return fmt.Errorf("retention: %s is %s; give %s or more, 0 for the default, or a negative period for ever", p.name, p.value, retentionMin)
		}
	}
	return nil
}

// How often retention looks, and what it does at a time.
const (
	retentionFirst       = time.Minute
	retentionInterval    = 10 * time.Minute
	retentionLockTimeout = 200 * time.Millisecond // others that want the table wait for as long
	retentionTries       = 5                      // for a lock, until the next look
	retentionPause       = time.Second            // between tries
	retentionBatchMax    = 5_000                  // rows deleted or shrunk in one database transaction
	retentionKeptMax     = 5_000                  // transactions of a week that may move on while others wait
)

// errRetentionBusy: another coordinator does it just now.
var errRetentionBusy = errors.New("another coordinator is at it")

// runRetention forgets what is past retention. Nobody waits for it.
func (c *Coordinator) runRetention(ctx context.Context) error {
	timer := time.NewTimer(retentionFirst)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		if err := c.Retain(ctx, c.store.clock.now()); err != nil && ctx.Err() == nil {
			c.log.Warn("retention could not do everything, trying again later", "error", err)
		}
		timer.Reset(retentionInterval)
	}
}

// Retain forgets once what is past retention at an instant; Run does so by itself, by the database's clock. A part that
// fails is left for the next time, and does not keep the others. It does nothing while another coordinator does it.
func (c *Coordinator) Retain(ctx context.Context, now time.Time) error {
	r := c.cfg.Retention.WithDefaults()
	err := errors.Join(
		c.retainTransactions(ctx, r.Transactions, now),
		c.retainLetters(ctx, r.DeadLetters, now),
		c.retainWide(ctx, "request_hashes", r.KeyMemory, now),
		c.retainWide(ctx, "incidents", r.Incidents, now),
		c.retainWide(ctx, "audit", r.Audit, now),
	)
	if errors.Is(err, errRetentionBusy) {
		return nil
	}
	return err
}

// weeklyTables have a partition for each week; others, which hold nothing that has to stay, one for wideWeeks.
var weeklyTables = []string{"transactions", "submissions", "operations", "attempts"}

const wideWeeks = 13

// retainTransactions drops the weeks that are past retention, the oldest first. What stays of them moves on.
func (c *Coordinator) retainTransactions(ctx context.Context, retention time.Duration, now time.Time) error {
	if retention < 0 {
		return nil
	}
	weeks, err := c.pastWeeks(ctx, retention, now)
	if err != nil {
		return err
	}
	before := now.Add(-retention)
	for _, week := range weeks {
		if err := c.forgetRequests(ctx, week, before); err != nil {
			return err
		}
		if err := c.retainWeek(ctx, week, before); err != nil {
			return err
		}
	}
	err = c.inBatches(ctx, retentionBatchMax, func(tx pgx.Tx) (n int, err error) {
		err = tx.QueryRow(ctx, sqlRetainRest, before, retentionBatchMax).Scan(&n)
		return n, err
	})
	if err != nil {
		return err
	}
	return c.inBatches(ctx, retentionBatchMax, func(tx pgx.Tx) (n int, err error) {
		err = tx.QueryRow(ctx, sqlForgetEdits, retentionBatchMax).Scan(&n)
		return n, err
	})
}

// pastWeeks returns the weeks that are past retention and have partitions, and the last of all if the floor is below it.
func (c *Coordinator) pastWeeks(ctx context.Context, retention time.Duration, now time.Time) (weeks []int64, err error) {
	held, err := c.partitions(ctx, weeklyTables...)
	if err != nil {
		return nil, err
	}
	for _, week := range held {
		if saga.MayDropWeeks(week, 1, retention, now) && (len(weeks) == 0 || weeks[len(weeks)-1] != week) {
			weeks = append(weeks, week)
		}
	}
	last := now.Add(-retention).UnixMilli()/saga.Week.Milliseconds() - 1
	if !saga.MayDropWeeks(last, 1, retention, now) || len(weeks) > 0 && weeks[len(weeks)-1] >= last {
		return weeks, nil
	}
	var passed bool
	if err := c.cfg.Pool.QueryRow(ctx, sqlFloorWeek, last+1).Scan(&passed); err != nil || passed {
		return weeks, err
	}
	return append(weeks, last), nil
}

// partitions returns the first weeks of the tables' partitions, in order.
func (c *Coordinator) partitions(ctx context.Context, tables ...string) ([]int64, error) {
	rows, err := c.cfg.Pool.Query(ctx, sqlWeeksHeld, tables)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	weeks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (week int64, err error) {
		err = row.Scan(nil, &week)
		return week, err
	})
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return weeks, nil
}

// forgetRequests shrinks the request keys of a week to their hashes. It may stop anywhere and begin again.
func (c *Coordinator) forgetRequests(ctx context.Context, week int64, before time.Time) error {
	var last pgtype.UUID
	last.Valid = true
	for {
		var next pgtype.UUID
		err := c.alone(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, sqlForgetRequests, last, week, before, retentionBatchMax).Scan(&next)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("forget the request keys of week %d: %w", week, err)
		}
		last = next
	}
}

// retainWeek drops a week in one database transaction: all of it is done or nothing.
func (c *Coordinator) retainWeek(ctx context.Context, week int64, before time.Time) error {
	var problem string
	var kept int
	began := time.Now()
	err := c.whenFree(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqlRetainWeek, week, before, retentionKeptMax, retentionLockTimeout.Milliseconds()).Scan(&problem, &kept)
	})
	switch {
	case err != nil:
		return fmt.Errorf("drop week %d: %w", week, err)
	case problem == "too_many":
		c.log.Warn("a week past retention stays: too many transactions of it are unresolved or ended only lately",
			"week", week, "more_than", retentionKeptMax)
	case problem != "":
		return errRetentionBusy
	default:
		c.log.Info("a week of transactions was dropped", "week", week, "moved_on", kept, "took", time.Since(began))
	}
	return nil
}

// retainLetters deletes dead letters that have ended, with what operators did about them: approvals, bulk replays, notes.
// Open ones stay, however old they are.
func (c *Coordinator) retainLetters(ctx context.Context, retention time.Duration, now time.Time) error {
	if retention < 0 {
		return nil
	}
	before := now.Add(-retention)
	return errors.Join(
		c.inBatches(ctx, retentionBatchMax, func(tx pgx.Tx) (int, error) { return dlq.Forget(ctx, tx, before, retentionBatchMax) }),
		c.inBatches(ctx, 1, func(tx pgx.Tx) (int, error) { return dlq.ForgetJob(ctx, tx, before) }),
		c.inBatches(ctx, retentionBatchMax, func(tx pgx.Tx) (int, error) { return dlq.ForgetNotes(ctx, tx, before, retentionBatchMax) }),
	)
}

// retainWide drops the partitions of a table whose partitions are wideWeeks wide and hold nothing that has to stay.
func (c *Coordinator) retainWide(ctx context.Context, table string, retention time.Duration, now time.Time) error {
	if retention < 0 {
		return nil
	}
	held, err := c.partitions(ctx, table)
	if err != nil {
		return err
	}
	for _, week := range held {
		if !saga.MayDropWeeks(week, wideWeeks, retention, now) {
			continue
		}
		dropped := false
		err := c.whenFree(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, sqlDropPartition, table, week, retentionLockTimeout.Milliseconds()).Scan(&dropped)
		})
		if err != nil {
			return fmt.Errorf("drop the partition of %s from week %d: %w", table, week, err)
		}
		if !dropped {
			return errRetentionBusy
		}
		c.log.Info("a partition was dropped", "table", table, "week", week)
	}
	return nil
}

// inBatches calls f, which deletes up to a number of things, in database transactions until it has nothing more to do.
func (c *Coordinator) inBatches(ctx context.Context, most int, f func(pgx.Tx) (int, error)) error {
	for n := most; n == most; {
		err := c.alone(ctx, func(tx pgx.Tx) (err error) {
			n, err = f(tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete what is past retention: %w", err)
		}
	}
	return nil
}

// whenFree is alone for what needs a table for itself: if it is in use it tries again a few times.
func (c *Coordinator) whenFree(ctx context.Context, f func(pgx.Tx) error) (err error) {
	for range retentionTries {
		if err = c.alone(ctx, f); pg.Code(err) != codeLockTimeout {
			return err
		}
		sleep(ctx, retentionPause)
	}
	return err
}

const codeLockTimeout = "55P03"

// alone calls f in a database transaction while no other coordinator forgets anything.
func (c *Coordinator) alone(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		var ours bool
		if err := tx.QueryRow(ctx, sqlRetainAlone).Scan(&ours); err != nil {
			return err
		}
		if !ours {
			return errRetentionBusy
		}
		_, err := tx.Exec(ctx, sqlSettings)
		if err != nil {
			return err
		}
		return f(tx)
	})
}
