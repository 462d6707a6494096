package saga

import (
	"fmt"
	"time"
)

// LetterAction is what an operator does about a dead letter.
type LetterAction string

// What operators do about dead letters.
const (
	LetterReplay  LetterAction = "replay"
	LetterDiscard LetterAction = "discard"
	LetterApprove LetterAction = "approve" // allow somebody else one replay
	LetterEdit    LetterAction = "edit"    // replay it with another input
)

// Letter is what a dead letter says of itself when an operator acts on it.
type Letter struct {
	ID            [16]byte
	Message       bool // bytes that nobody understood; else the operation below
	Status        DeadLetterStatus
	Version       int64
	Step          string
	Phase         Phase
	Cause         string
	Outcome       Outcome
	Revision      int
	ContentSHA256 [32]byte
	Proposal      *Proposal // that a replay would send instead; nil: none
}

// Proposal is an edit that is not committed (S1.5).
type Proposal struct {
	Revision      int
	ContentSHA256 [32]byte
	Reserved      bool // the participant has recorded that nothing before it may run
}

// LetterRequest is an operator's action on a dead letter.
type LetterRequest struct {
	Action     LetterAction
	Actor      string
	Seen       int64     // version of the dead letter that the operator looked at; zero: any
	Approval   *Approval // that a replay names; nil: none; the zero value: one that does not exist
	BreakGlass bool      // a replay approves itself, because no second person is there (E3)
	ApproveAll bool      // the coordinator wants an approval for every replay
}

// JudgeLetter decides whether an operator's action on a dead letter goes on: for an operation to Judge with Event,
// which decides under the transaction's version (S2.12); for a message to its removal; for an approval to its storage.
// What is decided here is only what the letter and the approval alone prove; a second click that finds it replayed is
// refused by Judge. now is the database's clock.
//
// Errors: ErrStale; *StateError with the code not_a_dead_letter for a message that is not open or cannot be replayed,
// obsolete after the decision (D3), and those of approvals (D4, see Approval).
func JudgeLetter(l Letter, r LetterRequest, now time.Time) error {
	refuse := func(code, problem string) error {
		return &StateError{Code: code, Event: string(r.Action), Operation: l.operation(), Problem: problem}
	}
	switch {
	case l.Message && r.Action != LetterDiscard:
		return refuse(CodeNotDeadLetter, "bytes that nobody understood cannot be sent again")
	case l.Status == DeadLetterObsolete:
		return refuse(CodeObsolete, "the transaction has been decided without it")
	case r.Seen != 0 && r.Seen != l.Version:
		return fmt.Errorf("%w: version %d is now %d", ErrStale, r.Seen, l.Version)
	case l.Message && l.Status != DeadLetterOpen:
		return refuse(CodeNotDeadLetter, "the message is "+string(l.Status))
	case (r.Action == LetterApprove || r.Action == LetterEdit) && l.Status != DeadLetterOpen:
		return refuse(CodeNotDeadLetter, "it is "+string(l.Status)+", and only an open one can be replayed")
	case (r.Action == LetterApprove || r.Action == LetterReplay) && l.Proposal != nil && !l.Proposal.Reserved:
		return refuse(CodeNotReserved, "it is being edited, and the participant has not reserved the next revision yet")
	case r.Action == LetterReplay && !r.BreakGlass:
		if code, problem := judgeApproval(l, r, now); code != "" {
			return refuse(code, problem)
		}
	}
	return nil
}

// JudgeInquiry decides whether a participant may be asked about a dead letter. Only an open one: an answer about what is
// under way would mean "send it again" (S2.11). The error is a *StateError.
func JudgeInquiry(l Letter) error {
	switch {
	case l.Message:
		return &StateError{Code: CodeNotDeadLetter, Event: "inquire", Problem: "bytes that nobody understood are no operation"}
	case l.Status != DeadLetterOpen:
		return &StateError{
			Code: CodeNotDeadLetter, Event: "inquire", Operation: l.operation(), Problem: "the dead letter is " + string(l.Status),
		}
	}
	return nil
}

func (l Letter) operation() string {
	if l.Message {
		return ""
	}
	return l.Step + "/" + string(l.Phase)
}

// Event returns what the action asks of the transaction that the letter's operation belongs to.
func (l Letter) Event(action LetterAction) Event {
	if action == LetterDiscard {
		return DiscardRequested{Step: l.Step, Phase: l.Phase}
	}
	return ReplayRequested{Step: l.Step, Phase: l.Phase}
}
