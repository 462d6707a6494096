package saga

import "time"

// BarrierState is the state of a participant's barrier row.
type BarrierState string

// The states of a barrier row (section B), and of answers to inquire.
const (
	BarrierAbsent        BarrierState = "absent"         // no row, or one that is only reserved
	BarrierTrying        BarrierState = "trying"         // external effects only: a lease is held
	BarrierTried         BarrierState = "tried"          // the try's effect is committed
	BarrierRefused       BarrierState = "refused"        // the try was refused, finally
	BarrierConfirmed     BarrierState = "confirmed"      // the confirm's effect is committed
	BarrierCancelled     BarrierState = "cancelled"      // the cancel's effect is committed
	BarrierNullCancelled BarrierState = "null_cancelled" // tombstone: cancelled without a try; inquire says cancelled
	BarrierPastRetention BarrierState = "past_retention" // answers only: the transaction is below the floor
)

// StoredReply is what a barrier row keeps of a definitive reply, to be repeated byte for byte (B3).
type StoredReply struct {
	Outcome Outcome // done or refused
	Code    string
	Reason  string
	Result  Payload
}

// BarrierRow is a participant's record of one step of one transaction. The zero value is a row that does
// not exist. Rows are values: the functions of this package return changed copies.
type BarrierRow struct {
	State         BarrierState // "" means absent
	Kind          Kind
	Try           Recorded
	Confirm       Recorded
	Cancel        Recorded
	LeaseUntil    time.Time // of a trying row
	LeaseToken    int64     // of a trying row: rises with every claim, so that a stale owner's write is refused (B6)
	PastRetention bool      // the transaction is below the participant's floor (B7)
}

// Recorded is what a row holds about one phase.
type Recorded struct {
	ContentSHA256 [32]byte // of the command that was executed; zero: nothing recorded
	Revision      int      // of the command that was executed
	MinRevision   int      // commands below it are superseded (S1.5); zero: none reserved
	Reply         StoredReply
}

// none reports whether no command of the phase was executed.
func (r Recorded) none() bool { return r.ContentSHA256 == [32]byte{} }

// Recorded returns what the row holds about a phase.
func (row BarrierRow) Recorded(p Phase) Recorded {
	switch p {
	case PhaseTry:
		return row.Try
	case PhaseConfirm:
		return row.Confirm
	case PhaseCancel:
		return row.Cancel
	}
	return Recorded{}
}

// with returns the row with what it holds about a phase replaced.
func (row BarrierRow) with(p Phase, rec Recorded) BarrierRow {
	switch p {
	case PhaseTry:
		row.Try = rec
	case PhaseConfirm:
		row.Confirm = rec
	case PhaseCancel:
		row.Cancel = rec
	}
	return row
}

// absent reports whether nothing was executed: there is no row, or one that is only reserved.
func (row BarrierRow) absent() bool { return row.State == "" || row.State == BarrierAbsent }

// kind is the step's kind: the row's, as soon as there is one.
func (row BarrierRow) kind(cmd Command) Kind {
	if row.Kind != "" {
		return row.Kind
	}
	return cmd.Kind
}

// Reply repeats the stored reply of the command's phase (B3).
func (row BarrierRow) Reply(cmd Command) Reply {
	stored := row.Recorded(cmd.Phase).Reply
	reply := AnswerTo(cmd)
	reply.Outcome, reply.Code, reply.Reason, reply.Result = stored.Outcome, stored.Code, stored.Reason, stored.Result
	reply.Replayed = true
	return reply
}

// AnswerTo returns a reply with the identity of the command that it answers.
func AnswerTo(cmd Command) Reply {
	return Reply{
		Verb:          cmd.Verb,
		Tenant:        cmd.Tenant,
		Transaction:   cmd.Transaction,
		Step:          cmd.Step,
		Phase:         cmd.Phase,
		Participant:   cmd.Participant,
		Attempt:       cmd.Attempt,
		Revision:      cmd.Revision,
		ContentSHA256: cmd.ContentSHA256,
		Traceparent:   cmd.Traceparent,
		Question:      cmd.Question,
	}
}
