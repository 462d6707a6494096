package relay

import (
	"bytes"
	"time"
)

// Row is what a poll looks at of an outbox row, beside its id.
type Row struct {
	CreatedAt    time.Time
	ClaimedUntil time.Time // zero: nobody has a claim on it
}

// Claimable reports whether a poll may take the row: nobody has published it within grace, which is left to whoever
// committed it, and nobody else has a claim on it (C2). The statement that claims says the same in SQL, with the
// database's clock.
func Claimable(r Row, now time.Time, grace time.Duration) bool {
	return r.CreatedAt.Before(now.Add(-grace)) && (r.ClaimedUntil.IsZero() || r.ClaimedUntil.Before(now))
}

// Usage is an amount of messages.
type Usage struct{ Count, Bytes int }

// Fits reports whether a message of that size may be added to what is in use.
func (u Usage) Fits(size int, limit Usage) bool {
	return u.Count < limit.Count && u.Bytes+size <= limit.Bytes
}

// probe is how many rows a poll takes while publishing fails: enough to find out when it works again.
const probe = 8

// PollRoom returns how much a poll may take: at most half of the memory, so that hand-offs keep theirs,
// and only a few rows while publishing fails. Zero rows: not now.
func PollRoom(batch int, failing bool, use, limit Usage) Usage {
	room := Usage{Count: limit.Count/2 - use.Count, Bytes: limit.Bytes/2 - use.Bytes}
	room.Count = min(room.Count, batch)
	if failing {
		room.Count = min(room.Count, probe)
	}
	if room.Count <= 0 || room.Bytes <= 0 {
		return Usage{}
	}
	return room
}

// RowID orders rows: a UUIDv7.
type RowID = [16]byte

// MessageBytesMax is the largest message that a poll has to expect: the default max_payload of NATS, which counts
// headers and data.
const MessageBytesMax = 1 << 20

// Claimed is what one poll took.
type Claimed struct {
	Usage
	Last RowID // the largest id
}

// Add counts a row of that many bytes of data.
func (c *Claimed) Add(id RowID, size int) {
	c.Count++
	c.Bytes += size
	if bytes.Compare(id[:], c.Last[:]) > 0 {
		c.Last = id
	}
}

// more reports whether a poll that was allowed to take that much may have left something.
func (c Claimed) more(room Usage) bool {
	return c.Count >= room.Count || c.Bytes+MessageBytesMax > room.Bytes
}

// Sweep is one pass of the poll over the table, from the smallest id up. It only saves looking again at
// rows that the same pass has claimed: every pass starts from the beginning, so that a row whose
// transaction commits late is found by the next.
type Sweep struct {
	After RowID // the last id taken; zero at the start
	began time.Time
}

// SweepMax bounds a pass over a large backlog, and so how long a late row waits.
const SweepMax = 10 * time.Second

// Next returns how the poll goes on after it took c: at once while there may be more, else with a new
// pass after the interval. rnd is from [0, 1).
func (s Sweep) Next(c Claimed, room Usage, now time.Time, interval time.Duration, rnd float64) (Sweep, time.Duration) {
	switch {
	case c.Count == 0 || !c.more(room):
		return Sweep{}, Spread(interval, rnd)
	case !s.began.IsZero() && now.Sub(s.began) > SweepMax:
		return Sweep{}, 0
	case s.began.IsZero():
		s.began = now
	}
	s.After = c.Last
	return s, 0
}
