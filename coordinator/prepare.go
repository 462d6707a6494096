package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
)

// How long a coordinator waits at its start for a database or a NATS that went away since it was connected.
const (
	prepareLimit    = time.Minute
	prepareFirst    = 50 * time.Millisecond
	preparePauseMax = 2 * time.Second
)

// prepare brings the database and the streams into the state that the rest relies on. What may be over soon is tried
// again: a process does not end because NATS restarts a moment after it did.
func (c *Coordinator) prepare(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(prepareFirst),
		backoff.WithMaxInterval(preparePauseMax), backoff.WithMaxElapsedTime(prepareLimit))
	return backoff.RetryNotify(func() error {
		if err := c.prepareDatabase(ctx); err != nil {
			if !pg.Outage(err) {
				return backoff.Permanent(err)
			}
			return err
		}
		err := c.cfg.Bus.EnsureStreams(ctx)
		var wrong *bus.SettingError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &wrong), errors.Is(err, bus.ErrClosed):
			return backoff.Permanent(fmt.Errorf("coordinator: %w", err))
		}
		return fmt.Errorf("coordinator: %w", err)
	}, backoff.WithContext(retry, ctx), func(err error, wait time.Duration) {
		c.log.WarnContext(ctx, "cannot begin yet, trying again", "error", err, "wait", wait)
	})
}

func (c *Coordinator) prepareDatabase(ctx context.Context) error {
	asked := time.Now()
	var now time.Time
	if err := c.cfg.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return fmt.Errorf("coordinator: read the database's clock: %w", err)
	}
	c.store.clock.observe(asked, now)
	if err := c.ensurePartitions(ctx); err != nil {
		return err
	}
	return c.loadPauses(ctx) // before anything is sent
}
