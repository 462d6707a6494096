// Package fault is the one place that says what an error means for the one who asked: whether the same request
// may be sent again, and whether it may have happened (T4, U3).
//
// # Words
//
// A Cause says why a request has no good answer. A Class says what follows from it:
//
//   - Deterministic: nothing happened, and the same request fails again until somebody changes something.
//   - Transient: nothing happened, and the same request may succeed later.
//   - Unknown: it may have happened. It is never taken for failed (S2.8): look, or repeat what is safe to repeat.
//
// Whether something was sent decides between Transient and Unknown, so a Class is asked for with a Stage: Sent
// once something has left that takes effect by itself (a commit, a publish, an HTTP request), else Held.
//
// # Layers
//
// This package knows errors of the standard library and statuses of HTTP, and imports nothing else, so that
// every package may use it. What PostgreSQL and pgx report is translated by pgfault, what NATS and JetStream
// report by natsfault; both fall back on CauseOf. Errors of our own say their cause themselves: see New and
// Caused.
//
// # Failure
//
// What nobody knows is Unrecognised: Unknown if something was sent, else Transient. It is never Deterministic, so an error
// that is missing from the tables costs a repetition, and neither loses nor doubles anything.
package fault
