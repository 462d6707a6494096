package sagatest

// Sabotage takes a safeguard out of the model's own order of things, to show that the checks find it. (Those inside the
// decisions are taken out of the real code.)
type Sabotage string

// The safeguards that the model can be run without.
const (
	WithoutVersionCheck     Sabotage = "without_version_check"      // C9: writes of the transaction row name no version
	WithoutReload           Sabotage = "without_reload"             // S2.10: a stale row's judgement is acknowledged
	WithoutLeaseToken       Sabotage = "without_lease_token"        // B6: any holder of a past lease may write
	MessageIDWithoutAttempt Sabotage = "message_id_without_attempt" // C3
	SentBeforeCommit        Sabotage = "sent_before_commit"         // I-8
	OnlyHandedOff           Sabotage = "only_handed_off"            // C2: nobody looks for what a crash left in the outbox
	RemovedBeforePubAck     Sabotage = "removed_before_puback"      // C2: the outbox row is deleted when its message is sent
	AckedBeforeCommit       Sabotage = "acked_before_commit"        // duty 3 of Step's caller: a reply is acknowledged first
	AckedBeforeReply        Sabotage = "acked_before_reply"         // B5: a command is acknowledged first
	AnsweredBeforeCommit    Sabotage = "answered_before_commit"     // B5: a reply is published before the local commit
)

// Sabotages lists them all.
func Sabotages() []Sabotage {
	return []Sabotage{
		WithoutVersionCheck, WithoutReload, WithoutLeaseToken, MessageIDWithoutAttempt, SentBeforeCommit, OnlyHandedOff,
		RemovedBeforePubAck, AckedBeforeCommit, AckedBeforeReply, AnsweredBeforeCommit,
	}
}

func (w *world) sabotaged(s Sabotage) bool { return w.sabotage == s }
