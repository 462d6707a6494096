package saga

import "time"

// Heard is when a participant has replied last. It tells an outage from an operation that fails: what an operation's own
// late reply says of it is counted by itself, so only replies to others say that its silence is not everybody's (S2.8).
// The zero value has heard nothing.
type Heard struct {
	at     time.Time    // the last reply
	of     OperationKey // what it was about
	others time.Time    // the last reply about anything else
}

// After returns what is known after a reply about an operation.
func (h Heard) After(of OperationKey, at time.Time) Heard {
	if h.of != of {
		h.others = h.at
	}
	h.at, h.of = at, of
	return h
}

// Others returns when the participant replied last about another operation than the given one; zero: never.
func (h Heard) Others(than OperationKey) time.Time {
	if h.of == than {
		return h.others
	}
	return h.at
}
