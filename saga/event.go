package saga

import "time"

// Event is something that happened to a transaction: one of the types below.
type Event interface{ eventName() string }

// Submitted begins a transaction. The transaction passed to Step has its identity, inputs and times, and no
// status yet.
type Submitted struct{}

// Replied brings a participant's reply.
type Replied struct{ Reply Reply }

// Woken says that time has passed: attempts may have timed out, retries, a delayed start or the deadline
// may be due. Heard holds what was heard of each participant: an attempt that timed out counts towards exhaustion only if
// its participant answered other operations meanwhile (S2.8).
type Woken struct{ Heard map[string]Heard }

// CancelRequested is a client's wish to cancel (S2.9).
type CancelRequested struct{ Reason string }

// ReplayRequested is an operator's wish to send a dead letter's operation again (D2).
type ReplayRequested struct {
	Step  string
	Phase Phase
}

// EditRequested is an operator's wish to replay a dead letter's operation with another input (S1.5).
type EditRequested struct {
	Step  string
	Phase Phase
	Input Payload
}

// DiscardRequested is an operator's wish to give up a dead letter's operation (S2.13).
type DiscardRequested struct {
	Step  string
	Phase Phase
}

// ResolveRequested is an operator's wish to discard all open dead letters and end the transaction (S2.13).
type ResolveRequested struct{}

func (Submitted) eventName() string        { return "submit" }
func (Replied) eventName() string          { return "reply" }
func (Woken) eventName() string            { return "wake" }
func (CancelRequested) eventName() string  { return "cancel" }
func (ReplayRequested) eventName() string  { return "replay" }
func (EditRequested) eventName() string    { return "edit" }
func (DiscardRequested) eventName() string { return "discard" }
func (ResolveRequested) eventName() string { return "resolve" }

// Effects is what the caller has to persist and then to do.
type Effects struct {
	Changed     bool // the transaction differs from what was passed in and has to be written
	Commands    []Command
	Attempts    []AttemptEnd
	DeadLetters []DeadLetterChange
	Edits       []EditChange
	Incidents   []Incident
	Unexpected  Unexpected // why the event was not merged as the normal next one; "" if it was
	Wake        time.Time  // the earliest instant at which something is due; zero for never
}

// Unexpected says why a reply was not merged. Judge again on the reloaded row before acknowledging (S2.10).
type Unexpected string

// Why a reply was not merged.
const (
	UnexpectedNot           Unexpected = ""
	UnexpectedDuplicate     Unexpected = "duplicate"     // says what is recorded already
	UnexpectedLate          Unexpected = "late"          // about another direction than the present one, or after the end
	UnexpectedNotOpen       Unexpected = "not_open"      // transient news of an operation that is not under way
	UnexpectedOldAttempt    Unexpected = "old_attempt"   // of an attempt before the last one that an operator sent
	UnexpectedRevision      Unexpected = "revision"      // about another revision of the body
	UnexpectedContradiction Unexpected = "contradiction" // an incident was filed
)

// AttemptEnd records an attempt that ended without settling its operation.
type AttemptEnd struct {
	Step    string
	Phase   Phase
	Attempt int
	SentAt  time.Time // zero if the attempt is not the last
	EndedAt time.Time
	Outcome Outcome // unknown for a timeout (U1)
	Code    string
	Reason  string
}

// DeadLetterStatus is where a dead letter stands.
type DeadLetterStatus string

// The states of a dead letter.
const (
	DeadLetterOpen      DeadLetterStatus = "open"
	DeadLetterReplaying DeadLetterStatus = "replaying"
	DeadLetterClosed    DeadLetterStatus = "closed"    // a definitive reply came
	DeadLetterObsolete  DeadLetterStatus = "obsolete"  // the decision overtook it
	DeadLetterDiscarded DeadLetterStatus = "discarded" // an operator gave it up
)

// Causes of dead letters beside the Fault… codes.
const (
	DeadLetterExhausted = "exhausted"
	DeadLetterPanic     = "panic"
	DeadLetterUnknown   = "unknown"
)

// DeadLetterChange moves an operation's dead letter to a state. Operations have at most one (D1): Open
// creates it or opens it again.
type DeadLetterChange struct {
	Step    string
	Phase   Phase
	To      DeadLetterStatus
	Cause   string // with Open: exhausted, panic, unknown or a fault's code
	Reason  string // with Open: text for people
	Outcome Outcome
	Attempt int
	Command Command // with Open: what was sent last
}

// Incident is the record of a contradictory or impossible reply: raised as an alarm, never replayed.
type Incident struct {
	Step    string
	Phase   Phase
	Problem string
	Reply   Reply
}
