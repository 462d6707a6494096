package saga

import "time"

// Timers are lazy: the stored instant is never later than what is due next, and is looked at again when it has come.
// The statements that claim and move timers do what these functions say; a test compares them.

// TimerLease is how long a claimed timer is one coordinator's: should it end before the transaction is stored again,
// another one wakes it later.
const TimerLease = 5 * time.Second

// TimerDue reports whether a coordinator may claim a transaction's timer. The zero instant is never due: the
// transaction has ended, or only a person can go on.
func TimerDue(wakeAt, now time.Time) bool { return !wakeAt.IsZero() && !wakeAt.After(now) }

// ClaimTimer returns the instant that a claim stores: the transaction is due again when the lease is over.
func ClaimTimer(now time.Time) time.Time { return now.Add(TimerLease) }

// MoveTimer returns the instant to store with a write, given the stored one, the one that Step returned and whether
// the write holds a wake (Judgement.MoveTimer). Only a wake moves the timer to a later instant, so that replies,
// which mostly make the next instant later, leave the row's index alone. A transaction that has ended has none.
func MoveTimer(stored, wake time.Time, woken, ended bool) time.Time {
	switch {
	case ended:
		return time.Time{}
	case woken || stored.IsZero() || !wake.IsZero() && wake.Before(stored):
		return wake
	}
	return stored
}
