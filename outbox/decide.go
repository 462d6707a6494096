package outbox

import (
	"github.com/sagacity-tx/sagacity/internal/fault"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

// resultOf translates the answer of the bus. What follows from it is decided by package relay.
func resultOf(err error) relay.Result {
	switch fault.CauseOf(err) {
	case "":
		return relay.Acknowledged
	case fault.Rejected, fault.TooLarge:
		return relay.Permanent
	case fault.Exhausted, fault.NoReceiver:
		return relay.Blocked
	default:
		return relay.Transient
	}
}
