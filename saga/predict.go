package saga

import (
	"errors"
	"fmt"
	"time"
)

// ReplayEffect is what a replay would do.
type ReplayEffect string

// The effects of replays. All but the first four are no reason not to know better soon: ask again, or look again.
const (
	ReplayGoesForward   ReplayEffect = "goes_forward"   // the operation would run, or run again what was rolled back
	ReplayNoOp          ReplayEffect = "no_op"          // the barrier has it: the stored reply would be repeated, nothing would run
	ReplayConflict      ReplayEffect = "conflict"       // what is recorded does not fit: it would come back as a dead letter
	ReplayObsolete      ReplayEffect = "obsolete"       // the transaction has been decided or has ended without it (D3)
	ReplayNotOpen       ReplayEffect = "not_open"       // it is no open dead letter: replayed already, ended, or no operation
	ReplayNeedsApproval ReplayEffect = "needs_approval" // a second person has to agree first (D4)
	ReplayPaused        ReplayEffect = "paused"         // it would wait until an operator resumes what is paused
	ReplayBreakerOpen   ReplayEffect = "breaker_open"   // it would wait until the participant answers again
	ReplayUnknown       ReplayEffect = "unknown"        // the participant was not asked, or has not answered: never taken for absent
)

// ReplayEffects lists all effects, in the order in which counts of them are shown.
func ReplayEffects() []ReplayEffect {
	return []ReplayEffect{
		ReplayGoesForward, ReplayNoOp, ReplayConflict, ReplayObsolete, ReplayNotOpen, ReplayNeedsApproval, ReplayPaused,
		ReplayBreakerOpen, ReplayUnknown,
	}
}

// Inquiry is what a participant was asked about an operation, and what it said (U3, S2.11).
type Inquiry struct {
	AskedAt    time.Time
	AnsweredAt time.Time // zero: no answer, and so no knowledge
	Outcome    Outcome   // state, or what else the participant answered
	State      BarrierState
	Code       string
	Reason     string
	Revision   int
	// ContentSHA256 is that of the recorded command; zero: nothing is recorded for the phase, or no answer.
	ContentSHA256 [32]byte
}

// Answered reports whether the participant has said something.
func (i *Inquiry) Answered() bool { return i != nil && !i.AnsweredAt.IsZero() }

// Authoritative reports whether the answer is the state of the barrier row, which was true at that moment (S2.11). What is
// below the retention floor, or a fault, proves nothing.
func (i *Inquiry) Authoritative() bool {
	return i.Answered() && i.Outcome == OutcomeState && i.State != BarrierPastRetention
}

// SameContent reports whether the participant has recorded what the dead letter holds; known is false if it has recorded
// nothing of the phase, or is not known to have.
func (i *Inquiry) SameContent(content [32]byte) (same, known bool) {
	if !i.Authoritative() || i.ContentSHA256 == [32]byte{} {
		return false, false
	}
	return i.ContentSHA256 == content, true
}

// ReplayFacts is what is known about a dead letter when somebody asks what its replay would do.
type ReplayFacts struct {
	Letter     Letter
	Def        *Definition // of the transaction; nil for a message
	Tx         Transaction
	ApproveAll bool     // the coordinator wants an approval for every replay (D4)
	Wait       Wait     // WaitPause or WaitBreaker if the gate would hold it
	Inquiry    *Inquiry // nil: never asked
}

// Prediction is what a replay would do, and why.
type Prediction struct {
	Effect ReplayEffect
	Reason string // a sentence for people
}

// PredictReplay says what a replay would do now. It is a prediction, not a promise: what is decided is decided when it is
// asked for, and by the barrier. What forbids it comes first, then what would hold it, then what the participant has
// recorded. Silence is unknown, never absent (U1).
func PredictReplay(f ReplayFacts, now time.Time) Prediction {
	if p, refused := predictRefusal(f, now); refused {
		return p
	}
	recorded := predictRecorded(f)
	switch {
	case recorded.Effect == ReplayConflict:
		return recorded
	case f.ApproveAll || f.Letter.NeedsApproval():
		return Prediction{ReplayNeedsApproval, "a second person has to approve it first"}
	case f.Wait == WaitPause:
		return Prediction{ReplayPaused, "it would wait until what is paused is resumed"}
	case f.Wait == WaitBreaker:
		return Prediction{ReplayBreakerOpen, "the participant is silent: it would wait until it answers again"}
	}
	return recorded
}

// predictRefusal asks those who would decide: JudgeLetter and Step.
func predictRefusal(f ReplayFacts, now time.Time) (Prediction, bool) {
	err := JudgeLetter(f.Letter, LetterRequest{Action: LetterReplay, BreakGlass: true}, now) // as if it were approved
	if err == nil && f.Def != nil {
		_, _, err = Step(f.Def, f.Tx, f.Letter.Event(LetterReplay), now, noChance{})
	}
	var state *StateError
	open := f.Letter.Status == DeadLetterOpen && err != nil // read a moment before the answer closed it
	switch {
	case (f.Letter.Status == DeadLetterClosed || open) && f.settledByInquiry():
		return Prediction{ReplayNoOp, "the answer to the inquiry has settled it: nothing is left to send"}, true
	case err == nil:
		return Prediction{}, false
	case errors.As(err, &state) && state.Code == CodeObsolete && f.Letter.Status != DeadLetterClosed:
		return Prediction{ReplayObsolete, state.Problem}, true
	case errors.As(err, &state):
		return Prediction{ReplayNotOpen, notOpen(f.Letter, state)}, true
	}
	return Prediction{ReplayNotOpen, err.Error()}, true
}

// settledByInquiry reports whether what the participant answered was definitive, so that merging it closed the dead letter.
func (f ReplayFacts) settledByInquiry() bool {
	same, known := f.Inquiry.SameContent(f.Letter.ContentSHA256)
	return f.Inquiry.Authoritative() && (same || !known) && predictState(f.Letter.Phase, f.isPivot(), f.Inquiry.State).Effect == ReplayNoOp
}

func notOpen(l Letter, err *StateError) string {
	if l.Message || l.Status == DeadLetterOpen {
		return err.Problem
	}
	return "it is " + string(l.Status)
}

// predictRecorded says what the barrier would make of the command, by what it has recorded: table B.
func predictRecorded(f ReplayFacts) Prediction {
	i := f.Inquiry
	if same, known := i.SameContent(f.Letter.ContentSHA256); known && !same {
		return Prediction{ReplayConflict, "the participant has recorded other content: it would conflict again; edit or resolve it"}
	}
	switch {
	case !i.Answered() && f.Letter.Cause == FaultConflict:
		return Prediction{ReplayConflict, "it conflicted before, and as it is it would again"}
	case i == nil:
		return Prediction{ReplayUnknown, "the participant has not been asked"}
	case !i.Answered():
		return Prediction{ReplayUnknown, "the participant has not answered the inquiry, which proves nothing"}
	case i.Outcome == OutcomeFault && (i.Code == FaultConflict || i.Code == FaultPastRetention), i.State == BarrierPastRetention:
		return Prediction{ReplayConflict, "the participant answered " + answered(i) + ": it would answer the same again"}
	case i.Outcome != OutcomeState:
		return Prediction{ReplayUnknown, "the participant answered the inquiry with " + answered(i)}
	}
	return predictState(f.Letter.Phase, f.isPivot(), i.State)
}

func answered(i *Inquiry) string {
	if i.State == BarrierPastRetention {
		return string(i.State)
	}
	return string(i.Outcome) + " " + i.Code
}

func (f ReplayFacts) isPivot() bool {
	if f.Def == nil {
		return false
	}
	i := f.Def.StepIndex(f.Letter.Step)
	return i >= 0 && f.Def.Steps[i].Kind == KindPivot
}

// predictState is table B, as seen by who only knows the state of the row.
func predictState(phase Phase, pivot bool, state BarrierState) Prediction {
	forward := Prediction{ReplayGoesForward, "the participant has it as " + string(state) + ": it would run"}
	noOp := Prediction{ReplayNoOp, "the participant has it as " + string(state) + ": it would repeat its reply, and run nothing"}
	wrong := Prediction{ReplayConflict, fmt.Sprintf("the participant has the step as %s, which a %s does not fit: it would be refused again", state, phase)}
	switch {
	case state == BarrierTrying:
		return Prediction{ReplayUnknown, "the participant is in the middle of an effect outside of its database: the replay would find out"}
	case phase == PhaseTry && state == BarrierAbsent,
		phase == PhaseConfirm && state == BarrierTried,
		phase == PhaseCancel && state == BarrierTried && !pivot:
		return forward
	case phase == PhaseCancel && state == BarrierAbsent:
		return Prediction{ReplayGoesForward, "the participant has nothing to cancel: it would record that, so that the try never runs"}
	case phase == PhaseTry,
		phase == PhaseConfirm && state == BarrierConfirmed,
		phase == PhaseCancel && state != BarrierConfirmed,
		phase == PhaseCancel && pivot:
		return noOp
	}
	return wrong
}
