package saga

import "time"

// Payload is a user's value: opaque bytes that are stored and delivered byte-equal (S1.6). An empty Type
// means JSON. A Payload without Data is no value.
type Payload struct {
	Type string
	Data []byte
}

// IsZero reports whether there is no value.
func (p Payload) IsZero() bool { return p.Data == nil }

// Command is a message to a participant: one attempt of one operation.
type Command struct {
	Verb          Verb
	Tenant        string
	Transaction   ID
	Step          string
	Phase         Phase
	Kind          Kind
	Participant   string
	Action        string
	Attempt       int           // from 1, never restarts (S1.1)
	Revision      int           // of the body, from 1 (S1.5)
	Deadline      time.Time     // absolute; zero for none (T1): phase two, fences and retriable tries carry none (S2.7)
	Timeout       time.Duration // the attempt timeout: how long the coordinator waits for the reply (C12)
	Body          []byte        // fixed when first sent, the same bytes in every attempt (S1.4)
	ContentSHA256 [32]byte      // over action and body
	Floor         ID            // the oldest id that is not terminal in the coordinator (B7); zero if not known
	ReplyTo       string        // subject of the reply, set by the shell
	Waited        Wait          // what its operation waited for until now; the coordinator's own, never sent
	Traceparent   string
	Tracestate    string
	Question      string // with inquire: a name that tells what is asked again from a copy of what was asked; may be empty
}

// Key returns the identity of the command's operation.
func (c Command) Key() OperationKey {
	return OperationKey{Tenant: c.Tenant, Transaction: c.Transaction, Step: c.Step, Phase: c.Phase}
}

// Outcome is what a participant says about an operation (S3).
type Outcome string

// The outcomes of replies.
const (
	OutcomeDone       Outcome = "done"        // the effect happened, now or earlier
	OutcomeRefused    Outcome = "refused"     // a business no: final, no effect
	OutcomeRetry      Outcome = "retry"       // transient: nothing recorded, rolled back
	OutcomeInProgress Outcome = "in_progress" // someone holds the lease of an external effect
	OutcomeUnknown    Outcome = "unknown"     // an external effect in doubt that cannot be queried
	OutcomeHanging    Outcome = "hanging"     // a try refused because its cancel is recorded
	OutcomeFault      Outcome = "fault"       // cannot be executed; Code is one of the Fault… codes
	OutcomeState      Outcome = "state"       // answer to inquire: the row's state
	OutcomeReserved   Outcome = "reserved"    // answer to reserve
)

// Codes of fault replies (S3). The last two are answers of the SDK to user code.
const (
	FaultConflict        = "conflict"          // same key, other content
	FaultNotTried        = "not_tried"         // confirm without a try
	FaultContradicts     = "contradicts"       // confirm of a cancelled step, cancel of a confirmed one or of an executed pivot
	FaultUndecodable     = "undecodable"       // not a command, or an input that the handler cannot read
	FaultRefusedPhaseTwo = "refused_phase_two" // user code refused where there is no way back
	FaultSuperseded      = "superseded"        // a revision below the reserved one
	FaultPastRetention   = "past_retention"    // below the floor: cannot be confirmed any more
	FaultPoison          = "poison"            // delivered again and again without a reply
	FaultHandler         = "handler_fault"     // user code returned participant.Fault
	FaultResultTooLarge  = "result_too_large"  // user code returned more than ResultBytesMax
)

// Codes of other replies.
const (
	CodeDeadline      = "deadline"       // refused: the try came after its deadline
	CodePanic         = "panic"          // retry: user code panicked
	CodeUnknownAction = "unknown_action" // retry: no handler of that name (a deploy in progress)
	CodeBusy          = "busy"           // retry: a lock was not granted in time
	CodeError         = "error"          // retry: user code returned an error
)

// Reply is a participant's answer to one attempt of an operation.
type Reply struct {
	Verb          Verb // of the command that it answers
	Tenant        string
	Transaction   ID
	Step          string
	Phase         Phase
	Participant   string
	Attempt       int
	Revision      int
	ContentSHA256 [32]byte
	Outcome       Outcome
	Code          string        // refused: the business code; fault: its kind; retry: why
	Reason        string        // text for people
	State         BarrierState  // with OutcomeState
	Result        Payload       // with done; with contradicts of a fence and with state: the stored try result
	RetryAfter    time.Duration // with retry and in_progress; zero if the participant did not say
	Replayed      bool          // repeated from the barrier row
	Traceparent   string
	Question      string // with inquire: the command's
}

// Key returns the identity of the operation that the reply is about.
func (r Reply) Key() OperationKey {
	return OperationKey{Tenant: r.Tenant, Transaction: r.Transaction, Step: r.Step, Phase: r.Phase}
}
