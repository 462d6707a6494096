package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The kinds of errors of publishing and consuming. Match with errors.Is; the cause is wrapped too.
var (
	// ErrClosed: the bus or its connection was closed.
	ErrClosed = errors.New("bus: closed")
	// ErrDisconnected: there is no connection now, or it broke before the PubAck came.
	ErrDisconnected = errors.New("bus: not connected")
	// ErrTimeout: no PubAck in time.
	ErrTimeout = errors.New("bus: no acknowledgement in time")
	// ErrNoStream: no stream takes the subject; the streams are being checked.
	ErrNoStream = errors.New("bus: no stream takes the subject")
	// ErrFull: the stream cannot take the message now: a limit is reached, such as the messages of one
	// subject, or storage is short. Others may pass.
	ErrFull = errors.New("bus: the stream cannot take the message now")
	// ErrTooLarge: the message is larger than the server or the stream accepts.
	ErrTooLarge = errors.New("bus: message too large")
	// ErrInvalid: the message can never be accepted.
	ErrInvalid = errors.New("bus: invalid message")
)

// Permanent reports whether publishing the same message again cannot succeed unless settings change.
func Permanent(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrInvalid)
}

// SettingError says that a stream or consumer on the server has a setting that cannot be changed in
// place, or that the server refuses ours.
type SettingError struct {
	Object  string // "stream SAGA_CMD", "consumer accounts of stream SAGA_CMD"
	Setting string // the field, "" when only the server knows
	Have    string // on the server
	Want    string
	Fix     string
	Err     error // the server's answer, if it was asked
}

// Error returns one line: object, setting, fix.
func (e *SettingError) Error() string {
	s := "bus: " + e.Object
	if e.Setting != "" {
		s += fmt.Sprintf(" has %s %s, want %s", e.Setting, e.Have, e.Want)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; " + e.Fix
}

// Unwrap returns the server's answer.
func (e *SettingError) Unwrap() error { return e.Err }

// Error codes of the server (errors.json of nats-server) that the client library does not name.
const (
	statusBadRequest = 400 // what the server says about settings that it will never accept

	codeInsufficientResources = 10023
	codeStorageExceeded       = 10047
	codeStreamInvalidConfig   = 10052
	codeSubjectOverlap        = 10065
	codeStoreFailed           = 10077 // any limit of a stream, and any failure to store
	codeWorkQueueNotFiltered  = 10099
	codeWorkQueueNotUnique    = 10100
	codeMessageTTLInvalid     = 10165
	codeMessageTTLDisabled    = 10166
	codeTooManyRequests       = 10167
	codeConsumerNotFound      = jetstream.JSErrCodeConsumerNotFound
	codeStreamNotFound        = jetstream.JSErrCodeStreamNotFound
	codeMessageTooLarge       = jetstream.JSErrCodeStreamMessageExceedsMaximum
	codeOverlappingFilters    = jetstream.JSErrCodeOverlappingFilterSubjects
	codeDuplicateFilters      = jetstream.JSErrCodeDuplicateFilterSubjects
)

func apiCode(err error) jetstream.ErrorCode {
	var ae *jetstream.APIError
	if errors.As(err, &ae) {
		return ae.ErrorCode
	}
	return 0
}

// publishError gives an error of publishing its kind.
func publishError(err error) error {
	var kind error
	switch apiCode(err) {
	case codeMessageTooLarge:
		kind = ErrTooLarge
	case codeMessageTTLInvalid, codeMessageTTLDisabled:
		kind = ErrInvalid
	case codeStoreFailed, codeTooManyRequests, codeInsufficientResources, codeStorageExceeded:
		kind = ErrFull
	default: // judged below
	}
	switch {
	case err == nil:
		return nil
	case kind != nil:
	case errors.Is(err, nats.ErrMaxPayload):
		kind = ErrTooLarge
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrHeadersNotSupported):
		kind = ErrInvalid
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		kind = ErrNoStream
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout), errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		kind = ErrTimeout
	case errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrStaleConnection):
		kind = ErrDisconnected
	case errors.Is(err, jetstream.ErrJetStreamPublisherClosed), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionDraining):
		kind = ErrClosed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed),
		errors.Is(err, ErrDisconnected):
		return err
	default:
		return fmt.Errorf("bus: publish: %w", err)
	}
	return fmt.Errorf("%w: %w", kind, err)
}
