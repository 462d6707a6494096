package outbox

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

// Times of the relay that need no configuration.
const (
	permanentDelay    = time.Hour // between tries of a message that cannot be accepted as things are
	blockedDelayMin   = 2 * time.Second
	blockedDelayMax   = time.Minute
	transientDelayMin = 500 * time.Millisecond
	transientDelayMax = 10 * time.Second
	jitter            = 0.2 // of every delay, either way
)

// pollProbe is how many rows a poll takes while publishing fails: enough to find out when it works again.
const pollProbe = 8

// result is what became of publishing a message.
type result int

const (
	acknowledged result = iota // delete the row
	expired                    // never published: delete the row
	blocked                    // this subject's queue is full or its stream missing; others may pass
	permanent                  // cannot be accepted as things are
	transient                  // NATS, the connection, the stream, or the PubAck got lost
)

// resultOf judges the answer of the bus.
func resultOf(err error) result {
	switch {
	case err == nil:
		return acknowledged
	case bus.Permanent(err):
		return permanent
	case errors.Is(err, bus.ErrFull), errors.Is(err, bus.ErrNoStream):
		return blocked
	}
	return transient
}

// retryDelay returns how long a row that was not acknowledged is left alone. It grows with the age of
// the row, which makes it exponential without a counter. rnd is from [0, 1).
func retryDelay(res result, age time.Duration, rnd float64) time.Duration {
	var d time.Duration
	switch res {
	case permanent:
		d = permanentDelay
	case blocked:
		d = min(max(age/2, blockedDelayMin), blockedDelayMax)
	default:
		d = min(max(age/2, transientDelayMin), transientDelayMax)
	}
	return spread(d, rnd)
}

// spread applies the jitter, so that relays do not fall into step.
func spread(d time.Duration, rnd float64) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rnd))
}

// pollRoom returns how much a poll may take: at most half of the memory, so that hand-offs keep theirs,
// and only a few rows while publishing fails. Zero rows: not now.
func pollRoom(batch int, failing bool, use, limit usage) usage {
	room := usage{count: limit.count/2 - use.count, bytes: limit.bytes/2 - use.bytes}
	room.count = min(room.count, batch)
	if failing {
		room.count = min(room.count, pollProbe)
	}
	if room.count <= 0 || room.bytes <= 0 {
		return usage{}
	}
	return room
}

// sweep is one pass of the poll over the table, from the smallest id up. It only saves looking again at
// rows that the same pass has claimed: every pass starts from the beginning, so that a row whose
// transaction commits late is found by the next.
type sweep struct {
	after uuid.UUID // the last id taken; zero at the start
	began time.Time
}

// sweepMax bounds a pass over a large backlog, and so how long a late row waits.
const sweepMax = 10 * time.Second

// claimed is what one poll took.
type claimed struct {
	count, bytes int
	last         uuid.UUID // the largest id
}

// more reports whether a poll that was allowed to take that much may have left something.
func (c claimed) more(room usage) bool {
	return c.count >= room.count || c.bytes+DefaultMessageBytesMax > room.bytes
}

// next returns how the poll goes on after it took c: at once while there may be more, else with a new
// pass after the interval.
func (s sweep) next(c claimed, room usage, now time.Time, interval time.Duration, rnd float64) (sweep, time.Duration) {
	switch {
	case c.count == 0 || !c.more(room):
		return sweep{}, spread(interval, rnd)
	case !s.began.IsZero() && now.Sub(s.began) > sweepMax:
		return sweep{}, 0
	case s.began.IsZero():
		s.began = now
	}
	s.after = c.last
	return s, 0
}
