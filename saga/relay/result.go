package relay

import "time"

// Result is what became of publishing a message.
type Result int

// What became of publishing a message.
const (
	Acknowledged Result = iota // a PubAck came
	Expired                    // its time was over: it was not published
	Blocked                    // this subject's queue is full or its stream missing; others may pass
	Permanent                  // it cannot be accepted as things are
	Transient                  // NATS, the connection, the stream, or the PubAck got lost: it may have been published
)

// IsExpired reports whether a message's time is over, so that it is not published. The zero expiry is never over.
func IsExpired(expiry, now time.Time) bool { return !expiry.IsZero() && now.After(expiry) }

// Settlement is what has to become of a row after its message was answered.
type Settlement int

// What has to become of a row.
const (
	Delete  Settlement = iota // it is done
	Release                   // it may be claimed again after RetryDelay
	Leave                     // nothing has to be written: nobody has a claim on it, and the poll takes it when it is old enough
)

// Settle decides about a row by the result of publishing it. claimed says that this process has a claim on the row,
// which would keep the others away. What cannot be accepted is put off even without one, or every poll would try it.
func Settle(res Result, claimed bool) Settlement {
	switch {
	case res == Acknowledged || res == Expired:
		return Delete
	case res == Permanent || claimed:
		return Release
	}
	return Leave
}

// Failing says what a result tells about publishing as such: while it fails, little is taken until it works again.
// What is wrong with one message or one queue tells nothing.
func Failing(res Result) (failing, told bool) {
	return res == Transient, res == Transient || res == Acknowledged
}

// Times between two tries of a row.
const (
	PermanentDelay    = time.Hour // of a message that cannot be accepted as things are
	BlockedDelayMin   = 2 * time.Second
	BlockedDelayMax   = time.Minute
	TransientDelayMin = 500 * time.Millisecond
	TransientDelayMax = 10 * time.Second

	jitter = 0.2 // of every delay, either way
)

// RetryDelay returns how long a row that was not acknowledged is left alone. It grows with the age of
// the row, which makes it exponential without a counter. rnd is from [0, 1).
func RetryDelay(res Result, age time.Duration, rnd float64) time.Duration {
	var d time.Duration
	switch res {
	case Permanent:
		d = PermanentDelay
	case Blocked:
		d = min(max(age/2, BlockedDelayMin), BlockedDelayMax)
	default:
		d = min(max(age/2, TransientDelayMin), TransientDelayMax)
	}
	return Spread(d, rnd)
}

// Spread applies the jitter, so that relays do not fall into step. rnd is from [0, 1).
func Spread(d time.Duration, rnd float64) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rnd))
}
