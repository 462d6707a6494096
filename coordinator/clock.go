package coordinator

import (
	"sync/atomic"
	"time"
)

// clock is the coordinator database's clock (C10), read without asking it each time: every batch brings its
// reading, and the local monotonic clock fills the gaps, so that setting the local time changes nothing.
type clock struct {
	started time.Time
	offset  atomic.Int64 // what the database's clock showed at started, in Unix nanoseconds
}

func newClock() *clock {
	c := &clock{started: time.Now()}
	c.offset.Store(c.started.UnixNano())
	return c
}

// observe takes a reading that was asked for at the given local instant and has just arrived. It was made at
// some moment between the two, so it only bounds the offset: a slow round trip, which says little, changes
// nothing that a fast one has told better.
func (c *clock) observe(asked, reading time.Time) {
	earliest := reading.Add(-time.Since(c.started)).UnixNano()
	latest := reading.Add(-asked.Sub(c.started)).UnixNano()
	c.offset.Store(min(max(c.offset.Load(), earliest), latest))
}

// now returns the database's time in UTC, in whole microseconds as PostgreSQL stores it.
func (c *clock) now() time.Time {
	return time.Unix(0, c.offset.Load()).Add(time.Since(c.started)).UTC().Truncate(time.Microsecond)
}
