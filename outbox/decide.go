package outbox

import (
	"errors"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

// resultOf translates the answer of the bus. What follows from it is decided by package relay.
func resultOf(err error) relay.Result {
	switch {
	case err == nil:
		return relay.Acknowledged
	case bus.Permanent(err):
		return relay.Permanent
	case errors.Is(err, bus.ErrFull), errors.Is(err, bus.ErrNoStream):
		return relay.Blocked
	}
	return relay.Transient
}
