// Package natsfault says what errors of NATS and JetStream mean, in the words of package fault.
//
// It owns the tables of the client's errors and of the codes of the JetStream API. Package bus gives its
// answers the kinds that callers match.
//
// # Guarantees
//
// An answer of the JetStream API, other than of status 500, proves that the message was not stored. The client's own errors
// do not, except where they come before anything is sent.
package natsfault

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

// Of returns the class of an error of publishing, of consuming or of a request; "" if err is nil.
func Of(err error, at fault.Stage) fault.Class { return CauseOf(err).Class(at) }

// CauseOf returns the cause of an error of NATS or JetStream, or that of fault.CauseOf.
func CauseOf(err error) fault.Cause {
	var known fault.Caused
	if errors.As(err, &known) {
		return known.FaultCause()
	}
	var answer *jetstream.APIError
	if errors.As(err, &answer) {
		return API(answer.Code, answer.ErrorCode)
	}
	for _, c := range clientErrors {
		for _, e := range c.errs {
			if errors.Is(err, e) {
				return c.cause
			}
		}
	}
	return fault.CauseOf(err)
}

// clientErrors are the errors that the client makes up itself.
var clientErrors = []struct {
	cause fault.Cause
	errs  []error
}{
	{fault.TooLarge, []error{nats.ErrMaxPayload}},
	{fault.Rejected, []error{
		nats.ErrBadSubject, nats.ErrBadHeaderMsg, nats.ErrHeadersNotSupported, nats.ErrInvalidMsg, nats.ErrInvalidArg,
		nats.ErrBadQueueName, nats.ErrBadSubscription, nats.ErrMsgNoReply, nats.ErrMsgNotBound,
		jetstream.ErrAsyncPublishReplySubjectSet, jetstream.ErrInvalidSubject, jetstream.ErrInvalidStreamName,
		jetstream.ErrInvalidConsumerName, jetstream.ErrStreamNameRequired, jetstream.ErrInvalidOption,
		jetstream.ErrHandlerRequired, jetstream.ErrNotJSMessage, jetstream.ErrMsgAlreadyAckd,
		jetstream.ErrNotPullConsumer, jetstream.ErrNotPushConsumer,
	}},
	{fault.Setup, []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
		nats.ErrPermissionViolation, nats.ErrSecureConnRequired, nats.ErrSecureConnWanted, nats.ErrTLS,
		nats.ErrConnectionNotTLS, nats.ErrNkeysNotSupported, nats.ErrNoEchoNotSupported, nats.ErrNoInfoReceived,
	}},
	{fault.Exhausted, []error{
		nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded, nats.ErrMaxSubscriptionsExceeded,
	}},
	{fault.NoReceiver, []error{nats.ErrNoResponders, jetstream.ErrNoStreamResponse, jetstream.ErrConsumerDeleted}},
	{fault.Unavailable, []error{nats.ErrNoServers, nats.ErrConnectionReconnecting, nats.ErrServerNotInPool}},
	{fault.Silent, []error{
		nats.ErrTimeout, nats.ErrDrainTimeout, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs,
	}},
	{fault.Lost, []error{
		nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrStaleConnection,
		jetstream.ErrNoHeartbeat, jetstream.ErrServerShutdown, jetstream.ErrConsumerLeadershipChanged,
	}},
	{fault.Closed, []error{
		nats.ErrConnectionClosed, nats.ErrConnectionDraining,
		jetstream.ErrConnectionClosed, jetstream.ErrJetStreamPublisherClosed,
	}},
}
