package coordinator

import (
	"sync/atomic"
	"time"
)

// clock is the coordinator database's clock (C10), read without asking it each time: every batch brings its
// reading, and the local monotonic clock fills the gaps.
type clock struct{ offset atomic.Int64 }

// observe takes a reading that was asked for at the given local instant. The middle of the round trip is the
// best guess of when it was made.
func (c *clock) observe(asked time.Time, reading time.Time) {
	middle := asked.Add(time.Since(asked) / 2)
	c.offset.Store(int64(reading.Sub(middle)))
}

// now returns the database's time in UTC, in whole microseconds as PostgreSQL stores it.
func (c *clock) now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load())).UTC().Truncate(time.Microsecond).Round(0)
}
