package coordinator

import (
	"testing"
	"time"
)

// C10: the clock that decides is the database's, whatever happens to the round trips that bring its readings.
func TestClock(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	const tolerance = time.Second // less than what is told apart, and more than a busy machine takes between two lines
	within := func(t *testing.T, c *clock, want time.Duration) {
		t.Helper()
		if off := time.Until(c.now()) - want; off < -tolerance || off > tolerance {
			t.Errorf("off by %s", off)
		}
	}
	for _, ahead := range []time.Duration{0, -3 * time.Hour, 90 * time.Second, 2 * year} {
		c := newClock()
		c.observe(time.Now(), time.Now().Add(ahead))
		within(t, c, ahead)
		// The reading was made at the start of a long round trip (a lock was waited for) …
		c.observe(time.Now().Add(-20*time.Second), time.Now().Add(ahead-20*time.Second))
		within(t, c, ahead)
		// … or at its end (a connection was waited for).
		c.observe(time.Now().Add(-20*time.Second), time.Now().Add(ahead))
		within(t, c, ahead)
		// The database's clock was set.
		c.observe(time.Now(), time.Now().Add(ahead+time.Hour))
		within(t, c, ahead+time.Hour)
		c.observe(time.Now(), time.Now().Add(ahead-time.Hour))
		within(t, c, ahead-time.Hour)
	}
}
