// Package saga is the pure core of the coordinator and of the participants: values in, values out.
//
// It holds what a distributed transaction is (Definition, Transaction), the one transition function
// (Step), the rules of the participant's barrier (Admit), the arithmetic of retries (Delay), and what the
// caller decides around them: about an event on what it knows (Judge, JudgeSubmission, JudgeLetter), about a
// write that failed and the message behind it (AfterCommit, AckReply), timers (MoveTimer), retention
// (Floor, RaiseFloor, MayDrop) and poison (Suspect). It does no I/O, starts no goroutine and reads neither a
// clock nor a source of randomness: time and randomness are arguments. Whatever the coordinator decides, it
// decides here.
//
// # States
//
//	accepted ─► running ──decision: commit──► confirming ──all confirms + retriable steps done──► committed
//	               └──────decision: cancel──► cancelling ──all cancels done────────────────────► cancelled
//
// A transaction is suspended, in addition to its state, while one of its operations is a dead letter or
// the replay of one is in flight; its direction is kept. It is resolved (terminal) when operators ended
// it with operations given up: it is then never reported as committed or cancelled.
//
// # Duties of the caller
//
//  1. Persist what Step returns (the transaction and everything in Effects) in one database transaction
//     that succeeds only if the stored version is still the one that was loaded (I-7).
//  2. Send Effects.Commands only after that commit (I-8).
//  3. Acknowledge the message that led to the event only after that commit.
//  4. When a commit's outcome is unknown or the version has moved on: load again and call Step again with
//     the same event. Events are safe to repeat: what was merged already is not merged twice.
//  5. When Effects.Unexpected is set and the transaction came from a cache, load it from the database and
//     judge again before acknowledging (S2.10): Judge says so.
//  6. Call Step with a Wake event at, or at any time after, Effects.Wake. Waking too often is harmless.
package saga
