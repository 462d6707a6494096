package flow

import "time"

// BreakerState says what a circuit breaker lets through.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // everything
	BreakerOpen     BreakerState = "open"      // nothing
	BreakerHalfOpen BreakerState = "half_open" // some probes, to find out
)

// breaker opens when a participant is silent, not when it says no: whoever answers is alive, and its retries have a
// budget. Any reply closes it, one to an attempt from before included.
type breaker struct {
	state    BreakerState
	timeouts int           // in a row, of a silent participant
	opened   time.Time     // when it was closed last
	since    time.Time     // when it became half-open
	until    time.Time     // open: when it becomes half-open
	pause    time.Duration // the last one
	probes   int           // sent since it became half-open
}

// allows reports whether an attempt may be sent.
func (b *breaker) allows(p Policy, now time.Time) bool {
	switch b.state {
	case BreakerOpen:
		return !now.Before(b.until)
	case BreakerHalfOpen:
		return b.probes < p.Probes || b.forgotten(p, now)
	default:
		return true
	}
}

// forgotten reports whether the probes must have ended without the breaker hearing of it: a decision may have closed
// their operations.
func (b *breaker) forgotten(p Policy, now time.Time) bool {
	return now.Sub(b.since) > p.BreakerPauseMax
}

// sent counts an attempt that was allowed.
func (b *breaker) sent(p Policy, now time.Time) {
	if b.state == BreakerOpen || b.state == BreakerHalfOpen && (b.probes == 0 || b.probes >= p.Probes) {
		b.state, b.since, b.probes = BreakerHalfOpen, now, 0
	}
	b.probes++
}

// returned takes back an attempt, allowed at an instant, that was not sent after all: it can find out nothing.
func (b *breaker) returned(at time.Time) {
	if b.state == BreakerHalfOpen && b.probes > 0 && !at.Before(b.since) {
		b.probes--
	}
}

// answered reports whether the reply closed the breaker.
func (b *breaker) answered() (closed bool) {
	closed = b.state != BreakerClosed
	*b = breaker{state: BreakerClosed}
	return closed
}

// timedOut counts an attempt, sent at an instant, that got no reply. It reports whether that opened a closed breaker.
func (b *breaker) timedOut(p Policy, sentAt, now time.Time) (opened bool) {
	b.timeouts++
	opened = b.state == BreakerClosed && b.timeouts >= p.BreakerTimeouts
	if opened {
		b.opened = now
	}
	if opened || b.state == BreakerHalfOpen && !sentAt.Before(b.since) {
		b.pause = min(max(2*b.pause, p.BreakerPauseMin), p.BreakerPauseMax)
		b.state, b.until = BreakerOpen, now.Add(b.pause)
	}
	return opened
}
