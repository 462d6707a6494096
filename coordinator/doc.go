// Package coordinator is the engine: it persists every step of every transaction in PostgreSQL, decides with
// package saga, and sends commands through the outbox.
//
// # The way of an event
//
// A submission, a reply, a timer or a person's wish becomes an item in the queue of the lane that its
// transaction's id falls to. A lane takes all items that wait, loads what its cache does not have, runs
// saga.Step for each, and stores the results of the whole batch, outbox rows included, in one database
// transaction and one round trip. Only then it acknowledges the replies, hands the outbox rows to the relay
// and answers the callers.
//
// # Guarantees
//
//   - Every write names the version it was decided on (C9). If another coordinator was first, or if the
//     outcome of a commit is not known, the batch is loaded and decided again; what was merged is not merged
//     twice. So any number of coordinators may share a database, and none needs to own a transaction.
//   - No command is sent before the state that it follows from is committed (I-8).
//   - A reply is acknowledged to NATS only after it has been committed or found to be a repetition.
//   - Nothing waits in memory: retries, deadlines and delayed starts are instants in the database. Losing
//     every message of NATS costs time only (C1).
//
// # When things fail
//
// Without the database lanes hold what they have and try again with backoff; their queues are bounded, so
// submissions are then refused (ErrOverloaded) and replies stay in NATS. Without NATS, commands stay in the
// outbox. A batch that fails for a reason that cannot pass is split, and only the event to blame is set aside.
package coordinator
