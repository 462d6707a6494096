package saga

import "fmt"

// LetterAction is what an operator does about a dead letter.
type LetterAction string

// What operators do about dead letters.
const (
	LetterReplay  LetterAction = "replay"
	LetterDiscard LetterAction = "discard"
)

// Letter is what a dead letter says of itself when an operator acts on it.
type Letter struct {
	Message bool // bytes that nobody understood; else the operation below
	Status  DeadLetterStatus
	Version int64
	Step    string
	Phase   Phase
}

// JudgeLetter decides whether an operator's action on a dead letter goes on: for an operation to Judge with Event,
// which decides under the transaction's version (S2.12); for a message to its removal. seen is the version that
// the operator looked at; zero: any. What is decided here is only what the letter alone proves; a second click that
// finds it replayed is refused by Judge.
//
// Errors: ErrStale; *StateError with the code not_a_dead_letter for a message that is not open or cannot be replayed,
// and obsolete after the decision (D3).
func JudgeLetter(l Letter, action LetterAction, seen int64) error {
	switch {
	case l.Message && action == LetterReplay:
		return &StateError{Code: CodeNotDeadLetter, Event: string(action), Problem: "bytes that nobody understood cannot be sent again"}
	case l.Status == DeadLetterObsolete:
		return &StateError{
			Code: CodeObsolete, Event: string(action), Operation: l.Step + "/" + string(l.Phase),
			Problem: "the transaction has been decided without it",
		}
	case seen != 0 && seen != l.Version:
		return fmt.Errorf("%w: version %d is now %d", ErrStale, seen, l.Version)
	case l.Message && l.Status != DeadLetterOpen:
		return &StateError{Code: CodeNotDeadLetter, Event: string(action), Problem: "the message is " + string(l.Status)}
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
			Code: CodeNotDeadLetter, Event: "inquire", Operation: l.Step + "/" + string(l.Phase), Problem: "the dead letter is " + string(l.Status),
		}
	}
	return nil
}

// Event returns what the action asks of the transaction that the letter's operation belongs to.
func (l Letter) Event(action LetterAction) Event {
	if action == LetterDiscard {
		return DiscardRequested{Step: l.Step, Phase: l.Phase}
	}
	return ReplayRequested{Step: l.Step, Phase: l.Phase}
}
