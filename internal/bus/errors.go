package bus

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/fault"
	"github.com/sagacity-tx/sagacity/internal/fault/natsfault"
)

// The kinds of errors of publishing and consuming, one for each cause. Match with errors.Is; what is behind them is
// wrapped too.
var (
	// ErrClosed: the bus or its connection was closed.
	ErrClosed = fault.New(fault.Closed, "bus: closed")
	// ErrDisconnected: there is no connection now, or it broke before the PubAck came.
	ErrDisconnected = fault.New(fault.Lost, "bus: not connected")
	// ErrTimeout: no PubAck in time.
	ErrTimeout = fault.New(fault.Silent, "bus: no acknowledgement in time")
	// ErrNoStream: no stream takes the subject; the streams are being checked.
	ErrNoStream = fault.New(fault.NoReceiver, "bus: no stream takes the subject")
	// ErrFull: the stream cannot take the message now: a limit is reached, such as the messages of one
	// subject, or storage is short. Others may pass.
	ErrFull = fault.New(fault.Exhausted, "bus: the stream cannot take the message now")
	// ErrTooLarge: the message is larger than the server or the stream accepts.
	ErrTooLarge = fault.New(fault.TooLarge, "bus: message too large")
	// ErrInvalid: the message can never be accepted.
	ErrInvalid = fault.New(fault.Rejected, "bus: invalid message")
)

// Permanent reports whether publishing the same message again cannot succeed unless settings change.
func Permanent(err error) bool { return fault.CauseOf(err).Inherent() }

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

// FaultCause says that a person has to change a setting.
func (e *SettingError) FaultCause() fault.Cause { return fault.Setup }

// Error codes of the server (errors.json of nats-server) about settings, each with a fix of its own.
const (
	statusBadRequest = 400 // what the server says about settings that it will never accept

	codeSubjectOverlap       = 10065
	codeWorkQueueNotFiltered = 10099
	codeWorkQueueNotUnique   = 10100
	codeOverlappingFilters   = jetstream.JSErrCodeOverlappingFilterSubjects
	codeDuplicateFilters     = jetstream.JSErrCodeDuplicateFilterSubjects
)

var kinds = []error{ErrClosed, ErrDisconnected, ErrTimeout, ErrNoStream, ErrFull, ErrTooLarge, ErrInvalid}

// publishError gives an error of publishing its kind. The end of a context has none, and stays what it is.
func publishError(err error) error {
	cause := natsfault.CauseOf(err)
	if cause == "" || cause == fault.Ended {
		return err
	}
	for _, kind := range kinds {
		switch {
		case fault.CauseOf(kind) != cause:
		case errors.Is(err, kind):
			return err
		default:
			return fmt.Errorf("%w: %w", kind, err)
		}
	}
	return fmt.Errorf("bus: publish: %w", err)
}
