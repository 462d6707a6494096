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
	BarrierNullCancelled BarrierState = "null_cancelled" // tombstone: cancelled without a try
	BarrierPastRetention BarrierState = "past_retention" // below the floor
)

// StoredReply is what a barrier row keeps of a definitive reply, to be repeated byte for byte (B3).
type StoredReply struct {
	Outcome Outcome // done or refused
	Code    string
	Reason  string
	Result  Payload
}

// BarrierRow is a participant's record of one step of one transaction. The zero value is a row that does
// not exist.
type BarrierRow struct {
	State         BarrierState // "" means absent
	Kind          Kind
	Try           Recorded
	Confirm       Recorded
	Cancel        Recorded
	LeaseUntil    time.Time // of a trying row
	PastRetention bool      // the transaction is below the participant's floor (B7)
}

// Recorded is what a row holds about one phase.
type Recorded struct {
	ContentSHA256 [32]byte // zero: nothing recorded
	MinRevision   int      // commands below it are superseded (S1.5); zero: none reserved
	Reply         StoredReply
}
