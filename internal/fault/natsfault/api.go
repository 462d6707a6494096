package natsfault

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

// API returns the cause of an answer of the JetStream API: status is like HTTP's, code is that of the server's
// errors.json, which says more.
func API(status int, code jetstream.ErrorCode) fault.Cause {
	if cause, ok := codes[code]; ok {
		return cause
	}
	return fault.HTTP(status)
}

// codes are the codes of the JetStream API whose status does not say enough. The comments are the server's
// descriptions.
var codes = map[jetstream.ErrorCode]fault.Cause{
	jetstream.JSErrCodeStreamMessageExceedsMaximum: fault.TooLarge, // message size exceeds maximum allowed
	10097: fault.TooLarge, // header size exceeds maximum allowed of 64k

	10002: fault.Exhausted, // resource limits exceeded for account
	10023: fault.Exhausted, // insufficient resources
	10026: fault.Exhausted, // maximum consumers limit reached
	10027: fault.Exhausted, // maximum number of streams reached
	10028: fault.Exhausted, // insufficient memory resources available
	10047: fault.Exhausted, // insufficient storage resources available
	10077: fault.Exhausted, // any limit of a stream, and any failure to store

	jetstream.JSErrCodeStreamNotFound:       fault.NoReceiver,
	jetstream.JSErrCodeConsumerNotFound:     fault.NoReceiver,
	jetstream.JSErrCodeConsumerDoesNotExist: fault.NoReceiver,

	10124: fault.Busy, // stream move already in progress
	10158: fault.Busy, // duplicate message id is in process
	10202: fault.Busy, // cluster member change is in progress
	10226: fault.Busy, // stream reconfiguration already in progress

	10005: fault.Unavailable, // no peers for placement
	10007: fault.Unavailable, // JetStream cluster not assigned to this server
	10009: fault.Unavailable, // JetStream cluster can not handle request: not the leader
	10118: fault.Unavailable, // stream is offline
	10119: fault.Unavailable, // consumer is offline
	10194: fault.Unavailable, // stream is offline: {err}
	10195: fault.Unavailable, // consumer is offline: {err}

	10006: fault.Setup, // JetStream not in clustered mode
	10010: fault.Setup, // JetStream clustering support required
	10035: fault.Setup, // account not found
	10036: fault.Setup, // not currently supported in clustered mode
	10074: fault.Setup, // replicas > 1 not supported in non-clustered mode
	10109: fault.Setup, // invalid operation on sealed stream
	10185: fault.Setup, // JetStream minimum api level required

	10052: fault.Rejected, // stream configuration, and what is wrong with it
	10063: fault.Rejected, // expected stream sequence does not match
	10096: fault.Rejected, // stream not valid
	10117: fault.Rejected, // subject details would exceed maximum allowed
	jetstream.JSErrCodeDuplicateFilterSubjects:   fault.Rejected, // of status 500 in the client's own words
	jetstream.JSErrCodeOverlappingFilterSubjects: fault.Rejected,
	jetstream.JSErrCodeConsumerEmptyFilter:       fault.Rejected,
}
