package saga

import "time"

// Do is what a participant does with a command.
type Do string

// What a participant does with a command.
const (
	DoReply   Do = "reply"   // answer Verdict.Reply; user code is not called
	DoRun     Do = "run"     // call the user code of the command's phase, then Conclude
	DoInquire Do = "inquire" // external effect whose lease is over: find out downstream what became of the try, then Resume
	DoVoid    Do = "void"    // external effect: make downstream refuse the try's key for ever, then Conclude the cancel
)

// Verdict is the barrier's decision about a command. With Store the returned row has to be stored and
// committed before anything is answered; without it nothing has changed, and the local transaction may be
// rolled back.
type Verdict struct {
	Do    Do
	Reply Reply // with DoReply
	Store bool
}

// Texts for people, by the code that they go with. The SQL functions answer with the same.
const (
	reasonBusy           = "another operation of this step is under way"
	reasonConflict       = "the operation is recorded with other content"
	reasonContradictsC   = "the step is cancelled"
	reasonContradictsX   = "the step is confirmed"
	reasonDeadline       = "the try came after its deadline"
	reasonHanging        = "the cancel of the step is recorded"
	reasonInProgress     = "an earlier attempt still holds the lease"
	reasonNotTried       = "the step has no committed try"
	reasonPastRetention  = "the transaction is older than what this participant remembers"
	reasonPivotExecuted  = "the pivot has executed"
	reasonSuperseded     = "a newer revision of the operation is reserved"
	reasonUndecodable    = "the phase is none of try, confirm and cancel"
	reasonNotFoundOut    = "the external effect is in doubt and cannot be queried"
	reasonRefusedPhase2  = "user code refused where there is no way back: "
	reasonResultTooLarge = "the result is larger than 64 KiB"
)

// Admit decides about a command by the barrier row of its step: table B. now is the clock of the database
// that holds the row (B4), read after the row was locked. The returned row is the one to store if
// Verdict.Store is set; otherwise it is the one passed in.
//
// What a cell of the table says about the time after user code ran is in Conclude, about external effects
// with an expired lease in Resume.
func Admit(row BarrierRow, cmd Command, now time.Time) (Verdict, BarrierRow) {
	recorded := row.Recorded(cmd.Phase)
	inquire := cmd.Verb == VerbInquire
	unchecked := inquire && cmd.ContentSHA256 == [32]byte{} // an operator who does not know the content

	switch {
	case row.PastRetention && inquire:
		return row.answerState(cmd)
	case row.PastRetention: // B7: nothing is known any more, so there is no content to compare
		return row.answerFault(cmd, FaultPastRetention, reasonPastRetention)
	case !recorded.none() && recorded.ContentSHA256 != cmd.ContentSHA256 && !unchecked: // B1
		return row.answerFault(cmd, FaultConflict, reasonConflict)
	case inquire:
		return row.answerState(cmd)
	case cmd.Verb == VerbReserve:
		return row.reserve(cmd)
	case recorded.none() && cmd.Revision < recorded.MinRevision: // S1.5
		return row.answerFault(cmd, FaultSuperseded, reasonSuperseded)
	}
	switch cmd.Phase {
	case PhaseTry:
		return admitTry(row, cmd, now)
	case PhaseConfirm:
		return admitConfirm(row, cmd)
	case PhaseCancel:
		return admitCancel(row, cmd, now)
	}
	return row.answerFault(cmd, FaultUndecodable, reasonUndecodable)
}

// admitTry is the column Try of table B.
func admitTry(row BarrierRow, cmd Command, now time.Time) (Verdict, BarrierRow) {
	switch row.State {
	case BarrierTrying:
		if now.Before(row.LeaseUntil) {
			return row.answerWait(cmd, OutcomeInProgress, "", reasonInProgress, row.LeaseUntil.Sub(now))
		}
		return Verdict{Do: DoInquire}, row
	case BarrierTried, BarrierRefused, BarrierConfirmed:
		return Verdict{Do: DoReply, Reply: row.Reply(cmd)}, row
	case BarrierCancelled, BarrierNullCancelled:
		return row.answer(cmd, OutcomeHanging, "", reasonHanging)
	default: // no row, or reserved
		if row.late(cmd, now) {
			return row.settle(cmd, BarrierRefused, StoredReply{Outcome: OutcomeRefused, Code: CodeDeadline, Reason: reasonDeadline})
		}
		return Verdict{Do: DoRun}, row
	}
}

// admitConfirm is the column Confirm of table B.
func admitConfirm(row BarrierRow, cmd Command) (Verdict, BarrierRow) {
	switch row.State {
	case BarrierTried:
		return Verdict{Do: DoRun}, row
	case BarrierConfirmed:
		return Verdict{Do: DoReply, Reply: row.Reply(cmd)}, row
	case BarrierCancelled, BarrierNullCancelled:
		return row.answerFault(cmd, FaultContradicts, reasonContradictsC)
	default: // no row, reserved, trying, refused
		return row.answerFault(cmd, FaultNotTried, reasonNotTried)
	}
}

// admitCancel is the column Cancel of table B.
func admitCancel(row BarrierRow, cmd Command, now time.Time) (Verdict, BarrierRow) {
	switch row.State {
	case BarrierTrying:
		if now.Before(row.LeaseUntil) {
			return row.answerWait(cmd, OutcomeRetry, CodeBusy, reasonInProgress, row.LeaseUntil.Sub(now))
		}
		return Verdict{Do: DoInquire}, row
	case BarrierTried:
		if row.kind(cmd) == KindPivot {
			return row.answerExecuted(cmd)
		}
		return Verdict{Do: DoRun}, row
	case BarrierRefused:
		return row.answer(cmd, OutcomeDone, "", "")
	case BarrierConfirmed:
		return row.answerFault(cmd, FaultContradicts, reasonContradictsX)
	case BarrierCancelled, BarrierNullCancelled:
		return Verdict{Do: DoReply, Reply: row.Reply(cmd)}, row
	default: // no row, or reserved
		return row.settle(cmd, BarrierNullCancelled, StoredReply{Outcome: OutcomeDone})
	}
}

// late reports whether a try that was never executed came after its deadline. Retriable tries have none: they
// must go forward (S2.7).
func (row BarrierRow) late(cmd Command, now time.Time) bool {
	return row.kind(cmd) != KindRetriable && !cmd.Deadline.IsZero() && now.After(cmd.Deadline)
}

// reserve raises the phase's min_revision to the one after the command's, unless the phase was executed or may be under way,
// or is settled (S1.5): a lease may be a cancel's as well as the try's, and the cancel of what was refused has been answered
// done (S2.11). A reservation is never lowered.
func (row BarrierRow) reserve(cmd Command) (Verdict, BarrierRow) {
	recorded := row.Recorded(cmd.Phase)
	settled := cmd.Phase == PhaseCancel && row.State == BarrierRefused
	if !recorded.none() || settled || row.State == BarrierTrying {
		return row.answerState(cmd)
	}
	recorded.MinRevision = max(recorded.MinRevision, cmd.Revision+1)
	next := row.with(cmd.Phase, recorded)
	next.Kind = row.kind(cmd)
	if next.State == "" {
		next.State = BarrierAbsent
	}
	reply := AnswerTo(cmd)
	reply.Outcome = OutcomeReserved
	return Verdict{Do: DoReply, Reply: reply, Store: true}, next
}

// settle records a definitive reply of the command's phase and answers it.
func (row BarrierRow) settle(cmd Command, state BarrierState, stored StoredReply) (Verdict, BarrierRow) {
	recorded := row.Recorded(cmd.Phase)
	recorded.ContentSHA256, recorded.Revision, recorded.Reply = cmd.ContentSHA256, cmd.Revision, stored
	next := row.with(cmd.Phase, recorded)
	next.Kind, next.State = row.kind(cmd), state
	next.LeaseUntil, next.LeaseToken = time.Time{}, 0
	reply := next.Reply(cmd)
	reply.Replayed = false
	return Verdict{Do: DoReply, Reply: reply, Store: true}, next
}

// answerState answers an inquiry: the row's state with the try's stored reply (S2.11).
func (row BarrierRow) answerState(cmd Command) (Verdict, BarrierRow) {
	reply := AnswerTo(cmd)
	reply.Outcome = OutcomeState
	reply.State = row.State
	switch {
	case row.PastRetention:
		reply.State = BarrierPastRetention
		return Verdict{Do: DoReply, Reply: reply}, row
	case row.absent():
		reply.State = BarrierAbsent
	case row.State == BarrierNullCancelled:
		reply.State = BarrierCancelled
	}
	try := row.Try.Reply
	reply.Code, reply.Reason, reply.Result = try.Code, try.Reason, try.Result
	if recorded := row.Recorded(cmd.Phase); !recorded.none() {
		reply.Revision, reply.ContentSHA256 = recorded.Revision, recorded.ContentSHA256
	}
	return Verdict{Do: DoReply, Reply: reply}, row
}

// answerExecuted is the fence's answer when it came too late: the pivot has executed, with this result (S2.6).
func (row BarrierRow) answerExecuted(cmd Command) (Verdict, BarrierRow) {
	v, _ := row.answerFault(cmd, FaultContradicts, reasonPivotExecuted)
	v.Reply.Result = row.Try.Reply.Result
	return v, row
}

func (row BarrierRow) answerFault(cmd Command, code, reason string) (Verdict, BarrierRow) {
	return row.answer(cmd, OutcomeFault, code, reason)
}

func (row BarrierRow) answerWait(cmd Command, outcome Outcome, code, reason string, after time.Duration) (Verdict, BarrierRow) {
	v, _ := row.answer(cmd, outcome, code, reason)
	v.Reply.RetryAfter = after
	return v, row
}

// answer answers without storing anything.
func (row BarrierRow) answer(cmd Command, outcome Outcome, code, reason string) (Verdict, BarrierRow) {
	reply := AnswerTo(cmd)
	reply.Outcome, reply.Code, reply.Reason = outcome, code, reason
	return Verdict{Do: DoReply, Reply: reply}, row
}
