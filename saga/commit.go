package saga

import (
	"errors"
	"fmt"
)

// What becomes of events whose write failed or whose commit is in doubt, and of the messages that brought them.

// What an event may be answered that was judged but is not known to be stored.
var (
	// ErrOutcomeUnknown: whether it happened is not known. Ask again with the same request id, or read the
	// transaction.
	ErrOutcomeUnknown = errors.New("the outcome is not known yet")
	// ErrCannotStore: the event will never be stored, however often it is tried.
	ErrCannotStore = errors.New("the event cannot be stored")
	// ErrStopping: nothing was done, another coordinator will do it.
	ErrStopping = errors.New("it is stopping")
)

// Failure is why a batch of events is not known to be stored. Whoever talks to the database classifies its errors.
type Failure string

// The classes of failures.
const (
	FailureVersion   Failure = "version"     // nothing stored: a transaction has moved on since it was loaded (C9)
	FailureKey       Failure = "key"         // nothing stored: a request key or transaction id of the batch is taken (S1.3)
	FailureLetter    Failure = "dead_letter" // nothing stored: a dead letter is not what its operator saw (D2)
	FailurePermanent Failure = "permanent"   // nothing stored, and trying the same again must fail the same way
	FailureOutage    Failure = "outage"      // nothing stored: the database cannot be reached, or asks to try again
	FailureDoubt     Failure = "doubt"       // the commit was sent and not answered: all or nothing is stored (C9)
)

// Batch is what has been tried.
type Batch struct {
	Tried        int // how often it failed before
	KeysTaken    int // of these, FailureKey
	Transactions int // in it
	Events       int // in it
}

// Next is what to do with a batch that is not known to be stored. Whatever is tried again is loaded and judged again:
// what a commit has stored is not merged twice.
type Next string

// What to do with a batch that is not known to be stored.
const (
	NextAgain         Next = "again"          // at once
	NextApart         Next = "apart"          // after a short random pause: coordinators that keep meeting draw apart
	NextWait          Next = "wait"           // after a pause that grows; what ends before that has ErrOutcomeUnknown
	NextAnswerKeys    Next = "answer_keys"    // answer the submissions whose keys are stored (JudgeSubmission), then again
	NextByTransaction Next = "by_transaction" // each transaction on its own, so that only the one to blame fails
	NextByEvent       Next = "by_event"       // each event on its own, for the same reason
	NextStale         Next = "stale"          // answer the event ErrStale
	NextSetAside      Next = "set_aside"      // answer the event ErrCannotStore
)

const (
	conflictsBeforePause = 3  // coordinators that meet more often than that draw apart
	keysTakenMax         = 20 // a batch that meets taken keys more often than that is at fault itself
)

// AfterCommit decides what to do with a batch whose write failed or is in doubt. A failure that will not pass splits
// the batch until it stands alone: nothing else is ever set aside for it (C5).
func AfterCommit(f Failure, b Batch) Next {
	switch {
	case f == FailureOutage || f == FailureDoubt:
		return NextWait
	case f == FailureVersion && b.Tried > conflictsBeforePause:
		return NextApart
	case f == FailureVersion:
		return NextAgain
	case f == FailureKey && b.KeysTaken < keysTakenMax:
		return NextAnswerKeys
	case b.Transactions > 1:
		return NextByTransaction
	case b.Events > 1:
		return NextByEvent
	case f == FailureLetter:
		return NextStale
	}
	return NextSetAside
}

// AfterDoubt is what an event is answered with err after an earlier commit of it was in doubt. An operator's action
// that is refused now may have been carried out by that commit, which is then the reason for the refusal: nobody
// knows (D2). A reply that is found merged and a client's cancel mean the same twice, so their answers stand; so does
// a submission's, which JudgeSubmission has recognised.
func AfterDoubt(ev Event, err error) error {
	switch ev.(type) {
	case ReplayRequested, EditRequested, DiscardRequested, ResolveRequested:
		if err != nil {
			return fmt.Errorf("%w: %s", ErrOutcomeUnknown, err.Error())
		}
	default:
	}
	return err
}

// Ack is what to tell the bus about a message.
type Ack string

// What to tell the bus about a message.
const (
	AckDone     Ack = "done"      // it is stored, or known to be a repetition: acknowledge
	AckAgain    Ack = "again"     // deliver it again at once, to another coordinator: negative acknowledgement
	AckLeave    Ack = "leave"     // say nothing: it comes again after a while
	AckSetAside Ack = "set_aside" // keep its exact bytes with the dead letters, then terminate it (C5)
)

// AckReply decides about a reply's message by what became of its event. A reply that was judged on the stored row is
// done with, whatever the judgement: incidents are stored, and a repetition changes nothing. One that could not be
// decoded has only told whose operation it fails; its bytes are kept for people.
func AckReply(err error, undecodable bool) Ack {
	switch {
	case errors.Is(err, ErrStopping):
		return AckAgain
	case errors.Is(err, ErrOutcomeUnknown):
		return AckLeave
	case errors.Is(err, ErrCannotStore), undecodable:
		return AckSetAside
	}
	return AckDone
}

// AckSubmission decides about the message of a submission. What is invalid is set aside: there is nobody to answer.
// Whatever else failed comes again.
func AckSubmission(err error) Ack {
	_, isInvalid := errors.AsType[*InvalidError](err)
	switch {
	case err == nil:
		return AckDone
	case isInvalid, errors.Is(err, ErrKeyReused), errors.Is(err, ErrIDTaken), errors.Is(err, ErrPastRetention),
		errors.Is(err, ErrCannotStore):
		return AckSetAside
	}
	return AckLeave
}
