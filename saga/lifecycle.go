package saga

import "time"

// Lifecycle is a turn in a transaction's life that others are told of (C11).
type Lifecycle string

// The lifecycle events, in the order in which those of one write are told.
const (
	LifecycleAccepted  Lifecycle = "accepted"  // it is stored; nothing was sent before
	LifecycleDecided   Lifecycle = "decided"   // to commit or to cancel, for good (S2.1)
	LifecycleSuspended Lifecycle = "suspended" // it waits for a person from now on
	LifecycleResumed   Lifecycle = "resumed"   // it waits for a person no more
	LifecycleCommitted Lifecycle = "committed"
	LifecycleCancelled Lifecycle = "cancelled"
	LifecycleResolved  Lifecycle = "resolved" // ended by an operator, with operations given up
)

// Exceptional reports whether the event is one that a person may have to know of. A transaction on which nothing goes
// wrong has none.
func (l Lifecycle) Exceptional() bool {
	return l == LifecycleSuspended || l == LifecycleResumed || l == LifecycleResolved
}

// Lifecycles returns the lifecycle events that follow from one write: before is the transaction as it was stored, nil if
// it was not, and after as the write leaves it. Each occurs once at most. What began and ended within the write has not
// been seen by anyone, and is not told. A transaction whose suspension ends with its resolution is not resumed: nobody
// goes on with what was given up.
func Lifecycles(before *Transaction, after *Transaction) []Lifecycle {
	var none Transaction
	var list []Lifecycle
	if before == nil {
		before = &none
		list = append(list, LifecycleAccepted)
	}
	if before.DecidedAt.IsZero() && !after.DecidedAt.IsZero() {
		list = append(list, LifecycleDecided)
	}
	switch was, is := before.Suspended(), after.Suspended(); {
	case !was && is:
		list = append(list, LifecycleSuspended)
	case was && !is && after.Status != StatusResolved:
		list = append(list, LifecycleResumed)
	}
	if before.Status.Terminal() || !after.Status.Terminal() {
		return list
	}
	switch after.Status {
	case StatusCommitted:
		list = append(list, LifecycleCommitted)
	case StatusCancelled:
		list = append(list, LifecycleCancelled)
	default:
		list = append(list, LifecycleResolved)
	}
	return list
}

// LifecycleEvent is one lifecycle event with what is told of its transaction: nothing of its payloads.
type LifecycleEvent struct {
	Lifecycle  Lifecycle
	At         time.Time
	Client     string
	RequestID  string // "" if it was submitted without a key
	Definition string
	Version    int // of the definition
	Tx         *Transaction
	TxVersion  int64 // of the row that the event's write leaves
}
