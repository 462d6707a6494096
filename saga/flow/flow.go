package flow

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

const (
	budgetWindow = 10 * time.Second       // in which retries are measured against first attempts
	peakWindow   = 5 * time.Minute        // whose best second is the measured ceiling
	parkMin      = 500 * time.Millisecond // before what is parked asks again: each time is a write
	asksMax      = 1000                   // per second, of what is parked while nothing may be sent
	patience     = 10                     // a silence of ten seconds is asked about after one
	burst        = 50 * time.Millisecond  // how far a drain may be ahead of its rate, or behind it and catch up: callers come ten times a second
	growEvery    = 10 * time.Second       // of a drain, the measured ceiling rises by one per cent
	reserve      = 20                     // per cent of the retry budget, for what must go forward
)

// Flow is one coordinator's view of one participant. It is not safe for concurrent use.
type Flow struct {
	policy Policy
	share  int // coordinators that share the allowances, at least 1
	others int // attempts that other coordinators have in flight

	firsts, retries, answers window
	flying                   flying
	breaker                  breaker
	heardAt                  time.Time // the last reply
	ceiling                  int       // measured before the silence that a drain follows
	drainAt                  time.Time // when the drain began
	raisedAt                 time.Time // when its ceiling was last looked at
	slot                     time.Time // the next to be given out to what is parked
	pausedSlot               time.Time // the next to be given out to what is paused
	drainEnd                 time.Time // the last one given out to what the silence and its backlog parked
	ahead                    time.Time // up to when a drain has used its rate
}

// New returns a flow that has seen nothing yet. The policy must be valid.
func New(p Policy) *Flow {
	return &Flow{
		policy: p.WithDefaults(), share: 1, breaker: breaker{state: BreakerClosed},
		firsts: newWindow(budgetWindow), retries: newWindow(budgetWindow), answers: newWindow(peakWindow),
		flying: newFlying(),
	}
}

// Share says how many coordinators there are, and how much the others have in flight. When one has come or gone, what it
// knew came or went with it, and only the sum of all means something: the count begins anew.
func (f *Flow) Share(coordinators, othersInFlight int) {
	if coordinators != f.share {
		f.flying.forget()
		othersInFlight = 0
	}
	f.share, f.others = max(coordinators, 1), othersInFlight
}

// Attempt is what wants to be sent.
type Attempt struct {
	Timeout  time.Duration // how long its reply is awaited
	Retry    bool          // it was sent before
	MustEnd  bool          // phase two, fences and retriable tries: they have a reserve of the budget
	Held     bool          // a silence, a drain or a pause held it: it is of a backlog, whoever saw that gather
	Operator bool          // an operator asked for it: only the breaker holds it
}

// Ask decides whether an attempt may be sent now, and counts it if so. Otherwise it returns what it has to wait for,
// and until when.
func (f *Flow) Ask(a Attempt, now time.Time) (saga.Wait, time.Time) {
	switch {
	case !f.policy.Unprotected && !f.breaker.allows(f.policy, now):
		return saga.WaitBreaker, f.park(saga.WaitBreaker, now)
	case a.Operator:
	case f.InFlight(now)+f.others >= f.policy.InFlightMax:
		return saga.WaitLimit, f.park(saga.WaitLimit, now)
	case f.policy.Unprotected:
	case a.Retry && !f.affordable(a, now):
		return saga.WaitBudget, f.park(saga.WaitBudget, now)
	case (a.Held || f.Draining(now)) && f.ahead.After(now.Add(burst)):
		return saga.WaitCeiling, f.park(saga.WaitCeiling, now)
	}
	f.sent(a, now)
	return saga.WaitNone, time.Time{}
}

func (f *Flow) sent(a Attempt, now time.Time) {
	f.breaker.sent(f.policy, now)
	interval := f.interval(now)
	f.ahead = earlier(later(f.ahead, now.Add(-burst)).Add(interval), now.Add(burst+interval))
	f.flying.add(now.Add(a.Timeout), 1)
	if a.Retry {
		f.retries.add(now, 1)
	} else {
		f.firsts.add(now, 1)
	}
}

// Return takes back an attempt that Ask let through at an instant and that was not sent after all. It gives the rate of a drain
// back, too: what is judged once more, on a row that another coordinator has written meanwhile, would find its own first turn
// in its way each time, and wait for ever. The same holds for the probes of a breaker.
func (f *Flow) Return(a Attempt, at time.Time) {
	f.breaker.returned(at)
	f.ahead = f.ahead.Add(-f.interval(at))
	f.flying.add(at.Add(a.Timeout), -1)
	if a.Retry {
		f.retries.add(at, -1)
	} else {
		f.firsts.add(at, -1)
	}
}

// Unpark takes back the slot of an attempt that was parked for a reason, and whose operation was not stored so.
func (f *Flow) Unpark(reason saga.Wait, now time.Time) {
	interval := f.askInterval(reason, now)
	if reason == saga.WaitPause {
		f.pausedSlot = later(f.pausedSlot.Add(-interval), now)
		return
	}
	f.slot = later(f.slot.Add(-interval), now)
	f.drainEnd = earlier(f.drainEnd, f.slot)
}

// Answered says that a reply to an attempt has come, which would have been awaited until an instant.
func (f *Flow) Answered(endsAt, now time.Time) {
	f.answers.add(now, 1)
	f.flying.add(endsAt, -1)
	f.Heard(now)
	f.raise(now)
}

// raise lets the measured ceiling of a drain rise by a quarter each second in which the participant has answered as much
// as it was sent, up to where that needs no care any more: so one that was idle, or of which nothing is known, is found out
// quickly, and one that does not carry more does not get more.
func (f *Flow) raise(now time.Time) {
	if !f.Draining(now) || f.ceiling >= f.policy.CeilingQuick || now.Sub(f.raisedAt) < time.Second {
		return
	}
	f.raisedAt = now
	if f.answers.latest(now)*f.share*20 >= f.ceiling*17 {
		f.ceiling = min(f.ceiling*5/4+1, f.policy.CeilingQuick)
	}
}

// Heard says that the participant lives: a reply came that nobody was waiting for.
func (f *Flow) Heard(now time.Time) {
	f.heardAt = later(f.heardAt, now)
	if f.breaker.answered() {
		f.drainAt = now
	}
}

// TimedOut says that an attempt sent at an instant got no reply in time. If the participant has answered others meanwhile it
// is not silent (S2.8): one of its processes may have died, with all that it had in hand.
func (f *Flow) TimedOut(sentAt, now time.Time) {
	if f.heardAt.After(sentAt) {
		return
	}
	if f.breaker.timedOut(f.policy, sentAt, now) && !f.Draining(now) {
		f.ceiling = max(f.answers.peak(now)*f.share, f.policy.CeilingMin)
	}
}

// Dropped says that nobody waits for the reply to an attempt any more, which would have been awaited until an instant:
// the decision closed its operation.
func (f *Flow) Dropped(endsAt time.Time) { f.flying.add(endsAt, -1) }

// affordable reports whether the budget has room for a retry. The floor is for participants that have not had much traffic
// of late; above it, it adds nothing. What may be cancelled leaves a reserve to what must end.
func (f *Flow) affordable(a Attempt, now time.Time) bool {
	allowed := max(f.policy.RetryPercent*f.firsts.sum(now)/100, f.policy.RetryFloor*int(budgetWindow/time.Second)/f.share)
	if !a.MustEnd {
		allowed -= allowed * reserve / 100
	}
	return f.retries.sum(now) < max(allowed, 1)
}

// Draining reports whether a backlog from a silence drains: some of it has not had its turn yet.
func (f *Flow) Draining(now time.Time) bool { return f.drainEnd.After(now) }

// park gives out the next slot to what has to wait. What waits for a silence to end asks the less often the longer that has
// lasted.
func (f *Flow) park(reason saga.Wait, now time.Time) time.Time {
	interval := f.askInterval(reason, now)
	switch reason {
	case saga.WaitPause:
		slot := later(f.pausedSlot, now.Add(pauseRecheck))
		f.pausedSlot = slot.Add(interval)
		return slot
	case saga.WaitBreaker:
		slot := later(f.slot, later(f.breaker.until, now.Add(f.recheck(now))))
		f.slot, f.drainEnd = slot.Add(interval), slot
		return slot
	case saga.WaitCeiling:
		if !f.Draining(now) { // of a backlog that another coordinator saw gather, or that was paused
			f.ceiling, f.drainAt = f.Ceiling(now), now
		}
	default:
	}
	slot := later(f.slot, now.Add(parkMin))
	f.slot = slot.Add(interval)
	if reason == saga.WaitCeiling {
		f.drainEnd = slot
	}
	return slot
}

// recheck is how long what a silence holds waits at least before it asks again.
func (f *Flow) recheck(now time.Time) time.Duration {
	return min(max(now.Sub(f.breaker.opened)/patience, parkMin), f.policy.BreakerPauseMax)
}

// askInterval is the time between two slots. While nothing may be sent they are further apart than those of a drain may be.
func (f *Flow) askInterval(reason saga.Wait, now time.Time) time.Duration {
	interval := f.spacing(now)
	if reason == saga.WaitBreaker || reason == saga.WaitPause {
		interval = max(interval, time.Second*time.Duration(f.share)/asksMax)
	}
	return interval
}

// interval is the time between two commands of a drain, of this coordinator. They go a tenth below the ceiling: what is
// published late in one second comes beside what belongs to the next.
func (f *Flow) interval(now time.Time) time.Duration { return f.every(f.Ceiling(now)) * 10 / 9 }

// spacing is the time between two slots. Where the ceiling may rise soon they are closer than that: some ask in vain.
func (f *Flow) spacing(now time.Time) time.Duration {
	if f.policy.Ceiling > 0 {
		return f.every(f.policy.Ceiling)
	}
	return f.every(max(f.Ceiling(now), f.policy.CeilingQuick))
}

// every is the time between two of so many per second of all coordinators.
func (f *Flow) every(perSecond int) time.Duration {
	return time.Second * time.Duration(f.share) / time.Duration(perSecond)
}

// Ceiling returns the commands per second that may be sent by all coordinators together while a backlog drains (R4).
// The measured one is from before the silence. It rises by one per cent in ten seconds of a drain, so that a load which
// has grown for good is not held back for ever; a small one rises faster.
func (f *Flow) Ceiling(now time.Time) int {
	switch {
	case f.policy.Ceiling > 0:
		return f.policy.Ceiling
	case f.breaker.state != BreakerClosed:
		return f.ceiling
	case f.Draining(now):
		return f.ceiling + f.ceiling*int(now.Sub(f.drainAt)/growEvery)/100
	}
	return max(f.answers.peak(now)*f.share, f.policy.CeilingMin)
}

// InFlight returns how many attempts this coordinator waits for. It may be negative: replies to the attempts of others
// come to it too.
func (f *Flow) InFlight(now time.Time) int { return f.flying.count(now) }

// Breaker returns the state of the breaker.
func (f *Flow) Breaker(now time.Time) BreakerState {
	if f.breaker.state == BreakerOpen && !now.Before(f.breaker.until) {
		return BreakerHalfOpen
	}
	return f.breaker.state
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
