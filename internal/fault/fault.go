package fault

import "errors"

// Class is what follows from an error.
type Class string

// The classes; the zero value is that of no error.
const (
	Deterministic Class = "deterministic" // nothing happened, and it fails again until something is changed
	Transient     Class = "transient"     // nothing happened, and it may succeed later
	Unknown       Class = "unknown"       // it may have happened
)

// Stage is how far a request had come when it failed.
type Stage int

const (
	// Held is before anything has left that takes effect by itself. Statements of an open transaction are held too.
	Held Stage = iota
	// Sent is when it may have taken effect, whatever the caller heard.
	Sent
)

// Cause is why a request has no good answer. It does not depend on the stage.
type Cause string

// The causes; the zero value is that of no error.
const (
	Rejected Cause = "rejected"  // the request itself is wrong, or a rule of the other side forbids it
	TooLarge Cause = "too_large" // the request is larger than the other side takes
	Setup    Cause = "setup"     // how we are connected is wrong: credentials, certificates, names, protocol

	Busy        Cause = "busy"        // others hold it now: a lock, a deadlock, a serialization failure
	Exhausted   Cause = "exhausted"   // there is no room now: disk, memory, connections, queue, rate
	Unavailable Cause = "unavailable" // nobody was reached, or the other side does not serve now
	NoReceiver  Cause = "no_receiver" // the messages of a subject have nobody to take them now
	Aborted     Cause = "aborted"     // the other side gave this attempt up, for a reason of the session or moment

	Lost         Cause = "lost"         // the connection or session ended before the answer
	Silent       Cause = "silent"       // no answer in time
	Closed       Cause = "closed"       // we closed the connection ourselves
	Ended        Cause = "ended"        // our context ended
	Unrecognised Cause = "unrecognised" // nothing is known about it, or the other side does not know either
)

// classes gives each cause its class when something was sent.
var classes = map[Cause]Class{
	"":       "",
	Rejected: Deterministic, TooLarge: Deterministic, Setup: Deterministic,
	Busy: Transient, Exhausted: Transient, Unavailable: Transient, NoReceiver: Transient, Aborted: Transient,
	Lost: Unknown, Silent: Unknown, Closed: Unknown, Ended: Unknown, Unrecognised: Unknown,
}

// Class returns what follows from the cause. What would be Unknown is Transient as long as nothing was sent.
func (c Cause) Class(at Stage) Class {
	class, ok := classes[c]
	if !ok {
		class = Unknown
	}
	if class == Unknown && at == Held {
		return Transient
	}
	return class
}

// Inherent reports whether the cause lies in the request itself: it fails the same way from everybody, over
// every connection. Setup does not: it fails every request alike, and waiting for a person loses none.
func (c Cause) Inherent() bool { return c == Rejected || c == TooLarge }

// Caused is implemented by errors that know their own cause.
type Caused interface {
	error
	FaultCause() Cause
}

// New makes an error with a cause, to be matched with errors.Is.
func New(cause Cause, text string) error { return &sentinel{cause: cause, text: text} }

type sentinel struct {
	cause Cause
	text  string
}

func (e *sentinel) Error() string     { return e.text }
func (e *sentinel) FaultCause() Cause { return e.cause }

// Of returns the class of an error of the standard library or of our own; "" if err is nil.
func Of(err error, at Stage) Class { return CauseOf(err).Class(at) }

// declared returns the cause that err itself, or what it wraps, declares.
func declared(err error) (Cause, bool) {
	var known Caused
	if errors.As(err, &known) {
		return known.FaultCause(), true
	}
	return "", false
}
