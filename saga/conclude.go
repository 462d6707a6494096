package saga

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Ran is what user code did with a command that it was called for.
type Ran struct {
	Outcome    Outcome // done, refused, retry, unknown or fault
	Code       string
	Reason     string
	Result     Payload       // with done
	RetryAfter time.Duration // with retry
}

// Conclude decides what is answered, and what is stored, after user code ran for a command that Admit let
// through: the cells "run → …" of table B. Without Verdict.Store the whole local transaction is rolled back;
// a stored refusal keeps the row and rolls user code back to the savepoint before it.
func Conclude(row BarrierRow, cmd Command, ran Ran) (Verdict, BarrierRow) {
	code, reason := CleanText(ran.Code, CodeBytesMax), CleanText(ran.Reason, ReasonBytesMax)
	switch ran.Outcome {
	case OutcomeDone:
		if len(ran.Result.Data) > ResultBytesMax {
			return row.answerFault(cmd, FaultResultTooLarge, reasonResultTooLarge)
		}
		return row.settle(cmd, barrierDone(cmd.Phase), StoredReply{Outcome: OutcomeDone, Result: ran.Result})
	case OutcomeRefused:
		if cmd.Phase != PhaseTry || row.kind(cmd) == KindRetriable { // S2.7: a replay must be able to succeed
			return row.answerFault(cmd, FaultRefusedPhaseTwo, CleanText(reasonRefusedPhase2+code+" "+reason, ReasonBytesMax))
		}
		return row.settle(cmd, BarrierRefused, StoredReply{Outcome: OutcomeRefused, Code: code, Reason: reason})
	case OutcomeFault:
		if code == "" {
			code = FaultHandler
		}
	case OutcomeRetry:
		if code == "" {
			code = CodeError
		}
	default:
	}
	return row.answerWait(cmd, ran.Outcome, code, reason, ran.RetryAfter)
}

func barrierDone(p Phase) BarrierState {
	switch p {
	case PhaseConfirm:
		return BarrierConfirmed
	case PhaseCancel:
		return BarrierCancelled
	default:
		return BarrierTried
	}
}

// Claim returns the row with the lease of an external effect claimed until an instant of the row's database
// clock: before a try's user code is called (DoRun), and before downstream is asked (DoInquire).
func Claim(row BarrierRow, cmd Command, until time.Time) BarrierRow {
	row.Kind = row.kind(cmd)
	if row.absent() {
		row.State = BarrierTrying
		row.Try.ContentSHA256, row.Try.Revision = cmd.ContentSHA256, cmd.Revision
	}
	row.LeaseUntil = until
	row.LeaseToken++
	return row
}

// Downstream is what was found out about the external effect of a try whose lease is over.
type Downstream string

// What can be found out.
const (
	DownstreamDone      Downstream = "done"      // the effect happened
	DownstreamAbsent    Downstream = "absent"    // it has not happened
	DownstreamUndecided Downstream = "undecided" // no answer, or one that proves nothing
)

// Resume decides about an external effect after DoInquire: the row "trying, lease over" of table B. result is
// the try's, with DownstreamDone. idempotent says that downstream executes one key once, so that the try may
// be run again whatever was found out.
func Resume(row BarrierRow, cmd Command, found Downstream, result Payload, idempotent bool) (Verdict, BarrierRow) {
	try := cmd.Phase == PhaseTry
	pivot := row.kind(cmd) == KindPivot
	switch {
	case try && found == DownstreamDone:
		return Conclude(row, cmd, Ran{Outcome: OutcomeDone, Result: result})
	case try && (found == DownstreamAbsent || idempotent):
		return Verdict{Do: DoRun}, row
	case !try && found == DownstreamDone && pivot:
		return row.settleExecuted(cmd, result)
	case !try && found == DownstreamDone:
		return Verdict{Do: DoRun}, row // undo
	case !try && found == DownstreamAbsent:
		return Verdict{Do: DoVoid}, row
	}
	return row.answer(cmd, OutcomeUnknown, "", reasonNotFoundOut)
}

// settleExecuted records that a pivot's try happened, and tells the fence so.
func (row BarrierRow) settleExecuted(cmd Command, result Payload) (Verdict, BarrierRow) {
	row.State = BarrierTried
	row.Try.Reply = StoredReply{Outcome: OutcomeDone, Result: result}
	row.LeaseUntil, row.LeaseToken = time.Time{}, 0
	v, _ := row.answerExecuted(cmd)
	v.Store = true
	return v, row
}

// CleanText returns text that a database column, a header and a log can hold: valid UTF-8 without NUL, cut
// at a whole character so that it has at most bytesMax bytes.
func CleanText(s string, bytesMax int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= bytesMax {
		return s
	}
	cut := bytesMax
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
