package saga

import "time"

// Status is the state of a transaction (S2).
type Status string

// The states of transactions. The last three are terminal and absorbing (I-7).
const (
	StatusAccepted   Status = "accepted"   // nothing sent yet: a delayed start
	StatusRunning    Status = "running"    // tries under way, undecided
	StatusConfirming Status = "confirming" // decided: commit
	StatusCancelling Status = "cancelling" // decided: cancel
	StatusCommitted  Status = "committed"
	StatusCancelled  Status = "cancelled"
	StatusResolved   Status = "resolved" // ended by an operator with operations given up
)

// Terminal reports whether nothing can change any more.
func (s Status) Terminal() bool {
	return s == StatusCommitted || s == StatusCancelled || s == StatusResolved
}

// Result is what a client is told (U5).
type Result string

// The results that clients see.
const (
	ResultAccepted  Result = "accepted"
	ResultRunning   Result = "running"
	ResultSucceeded Result = "succeeded"
	ResultFailed    Result = "failed" // no effect remains
	ResultUnknown   Result = "unknown"
)

// Why says what led to the decision to cancel.
type Why string

// The reasons to cancel.
const (
	WhyRefused   Why = "refused"   // a participant said no
	WhyDeadline  Why = "deadline"  // going forward took too long
	WhyClient    Why = "client"    // the client cancelled
	WhyExhausted Why = "exhausted" // a try used up its attempts, or an operator discarded it
)

// Cause is why a transaction was cancelled, and by which step.
type Cause struct {
	Why    Why
	Step   string
	Code   string
	Reason string
}

// Transaction is one running saga or TCC instance. Step treats it as a value: slices are never changed in
// place.
type Transaction struct {
	Tenant      string
	ID          ID
	Version     int64 // of the stored row; the store raises it by one per write
	Status      Status
	Cause       Cause // of the cancel decision, or of an open fence
	CreatedAt   time.Time
	StartAt     time.Time // zero: at once
	Deadline    time.Time // zero: none
	DecidedAt   time.Time
	FinishedAt  time.Time
	Traceparent string
	Tracestate  string
	Inputs      []Payload   // by step; fixed at submission
	Steps       []StepState // by step
}

// StepState holds the operations of one step: its try, and the confirm, cancel or fence that settles it.
type StepState struct {
	Try    Operation
	Settle Operation
}

// OperationState is what the coordinator knows about an operation.
type OperationState string

// The states of operations.
const (
	OperationIdle    OperationState = ""         // nothing to do yet
	OperationSent    OperationState = "sent"     // a reply is awaited until NextAt
	OperationWaiting OperationState = "waiting"  // to be sent at NextAt, for the first time if Attempt is zero
	OperationHeld    OperationState = "held"     // a pivot's try beside its fence: not sent again, its reply still counts
	OperationDead    OperationState = "dead"     // a dead letter: not sent again but by an operator, its reply still counts
	OperationDone    OperationState = "done"     // settled: the effect happened
	OperationRefused OperationState = "refused"  // settled: a try that was refused
	OperationHanging OperationState = "hanging"  // settled: a pivot's try that met its cancel
	OperationGivenUp OperationState = "given_up" // an operator gave it up (S2.13)
	OperationClosed  OperationState = "closed"   // a try or fence that the decision overtook (S2.12), sent or not
)

// Open reports whether a definitive reply would still be merged.
func (s OperationState) Open() bool {
	return s == OperationSent || s == OperationWaiting || s == OperationHeld || s == OperationDead
}

// active reports whether the coordinator itself still sends the operation.
func (s OperationState) active() bool { return s == OperationSent || s == OperationWaiting }

// settled reports whether whatever waited for the operation may go on.
func (s OperationState) settled() bool {
	return s == OperationDone || s == OperationRefused || s == OperationHanging || s == OperationGivenUp
}

// Wait says what a waiting operation waits for (S2.14).
type Wait string

// The reasons to wait.
const (
	WaitNone    Wait = ""
	WaitBackoff Wait = "backoff" // the delay before the next attempt
	WaitLease   Wait = "lease"   // someone holds the lease of an external effect
)

// Operation is one phase of one step: the unit of identity, retry and dead-lettering.
type Operation struct {
	Phase         Phase // "" while idle
	State         OperationState
	Wait          Wait // while waiting
	Replaying     bool // an operator's replay is in flight; its dead letter is not closed yet
	Attempt       int  // number of the last attempt sent; never restarts
	Counted       int  // attempts that count towards exhaustion since the last sending by an operator (S2.8)
	CountedTo     int  // the last attempt that was counted, so that none counts twice
	Floor         int  // the attempt that an operator sent last: answers to older ones no longer count (S2.10)
	Revision      int  // of the body, from 1
	ContentSHA256 [32]byte
	SentAt        time.Time // of the last attempt; zero while a gate holds the next one (see Park)
	NextAt        time.Time // sent: when the attempt times out; waiting: when the next is due
	LastOutcome   Outcome   // of the last attempt that ended without settling the operation, or of the definitive reply
	LastCode      string
	LastReason    string
	Result        Payload // of a done try
	Input         Payload // of an edited revision; zero: the step's, as submitted
	Proposed      Payload // input of the next revision, which the participant is asked to reserve (S1.5); zero: none
	Reserved      bool    // it has
}

// Sent reports whether an outbox row of the operation was ever committed (S2.4). One that still waits for its first
// sending was not.
func (o Operation) Sent() bool { return o.Attempt > 0 }

// Begun reports whether the operation's turn has come: it was sent, or waits to be.
func (o Operation) Begun() bool { return o.State != OperationIdle }

// Suspended reports whether the transaction waits for a person: an operation is a dead letter, or the
// replay of one is in flight.
func (t Transaction) Suspended() bool {
	for i := range t.Steps {
		if t.Steps[i].Try.suspends() || t.Steps[i].Settle.suspends() {
			return true
		}
	}
	return false
}

func (o Operation) suspends() bool { return o.State == OperationDead || o.Replaying }

// Result returns what a client is told about the transaction (U5).
func (t Transaction) Result() Result {
	switch {
	case t.Status == StatusCommitted:
		return ResultSucceeded
	case t.Status == StatusCancelled:
		return ResultFailed
	case t.Status == StatusResolved, t.Suspended():
		return ResultUnknown
	case t.Status == StatusAccepted:
		return ResultAccepted
	}
	return ResultRunning
}
