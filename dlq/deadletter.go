package dlq

import (
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Kind says what was set aside.
type Kind string

// The kinds of dead letters.
const (
	KindOperation Kind = "operation" // the command of an operation, as it was sent last
	KindMessage   Kind = "message"   // the exact bytes of a message that could not be understood
)

// DeadLetter is one entry.
type DeadLetter struct {
	ID            uuid.UUID
	Kind          Kind
	Status        saga.DeadLetterStatus
	Version       int64 // of the row: rises with every change; the ETag of operators' writes
	Cause         string
	Outcome       saga.Outcome
	Reason        string
	Fingerprint   string
	Tenant        string
	TransactionID saga.ID // zero for a message
	Step          string
	Phase         saga.Phase
	Participant   string
	Action        string
	Attempt       int
	Revision      int
	ContentSHA256 []byte
	Message       wire.Message // with KindOperation the last command, with KindMessage what came
	Traceparent   string
	Edit          *Edit // what a replay would send instead (see Propose); nil: nothing, or not read
	BuriedCount   int
	BuriedAt      time.Time // first
	UpdatedAt     time.Time
}

// Facts is what decides about an operator's action on it (saga.JudgeLetter).
func (d *DeadLetter) Facts() saga.Letter {
	l := saga.Letter{
		ID: d.ID, Message: d.Kind != KindOperation, Status: d.Status, Version: d.Version, Step: d.Step, Phase: d.Phase,
		Cause: d.Cause, Outcome: d.Outcome, Revision: d.Revision,
	}
	copy(l.ContentSHA256[:], d.ContentSHA256)
	if d.Edit != nil {
		l.Proposal = &saga.Proposal{Revision: d.Edit.Revision, ContentSHA256: d.Edit.ContentSHA256, Reserved: d.Edit.Reserved}
	}
	return l
}

// Change moves the dead letter of an operation to a state.
type Change struct {
	saga.DeadLetterChange
	Tenant        string
	TransactionID saga.ID
	Message       wire.Message // with To open: the command
	Version       int64        // with To replaying or discarded: what the operator saw; zero: any
}
