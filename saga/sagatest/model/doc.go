// Package model explores every state that one small transaction can reach, with the real saga.Judge (and so Step),
// Admit, Conclude, Claim and Resume. It is exhaustive within its bounds, where the simulator of package sagatest is
// random without them.
//
// # What can happen
//
// At any time and in any order, as often as there is anything new to it:
//
//   - Any command or reply that was ever sent is delivered. To be lost is never to be delivered.
//   - An attempt times out, alone (an outage) or while its participant answers others (S2.8); a retry is due; the
//     deadline passes. A participant's own clock may be on either side of the deadline at every command.
//   - The client cancels. Operators replay, discard and resolve, twice if they like.
//   - User code does, refuses, fails for now, panics, returns a fault, does not know; each time it is called.
//   - A coordinator loses its cache, or the answer to its commit: it judges the same event again on the stored row, as
//     if that were delivered twice. Any number of coordinators have old rows in their caches: see checkCaches.
//   - A participant dies: before its commit, then nothing has happened; after it, then its reply is one that is never
//     delivered, and the command comes again.
//   - Commands of one step meet: one holds the row's lock, the other waits for its commit, or is answered busy.
//   - With Options.External: leases pass, owners die or store late, requests stay on their way.
//
// # What is checked
//
// In every state: I-1, I-2, I-3, I-8, and the proofs of S2.3 and S2.6 (check); of every event of a participant: I-3 to I-6
// (conclude); of every write of the coordinator: I-4, I-7, I-13, I-15, and S1.1, S1.4, S2.1 to S2.4, S2.6, S2.7, S2.10,
// S2.12, S2.13 and D2 where they speak of one write (checkEdge). I-11: from every state a fixed way without
// faults, on which everything in the network is lost first, leads to the end in a bounded number of events, operators'
// replays included (checkEnds). That is more than that an end can be reached, and needs no second pass.
//
// A violation is told by the shortest way to it.
//
// # Bounds
//
//   - One transaction with up to three steps, each step with a participant of its own.
//   - The coordinator sends an operation twice (Options.Attempts) before an operator sends it again; operators do so
//     without bound. An operation is exhausted when one or two attempts counted, as the definition says.
//   - User code has one result and one code of refusal. No state depends on others, or on a dead letter's cause.
//   - No revisions (S1.5), no retention (B7), no conflicting content (B1), no poison. The budget and the breaker only delay:
//     any delay is in the model anyway. The SQL that does what Admit says has its own tests.
//   - A request to downstream is executed before the lease is over, or never; unless downstream executes a key once.
//     Where downstream cannot be asked, the fence of a pivot in doubt waits for a person: checkEnds takes that for an end.
//   - I-8 holds by construction: commands in the network are those that the stored row says were sent. Faults.PublishFirst
//     shows what the check sees otherwise.
//
// # Reductions
//
// Each loses nothing, for the reason given, and the reason is checked where it is about the code under test.
//
//   - Rows that Step treats alike are one (normal): instants count only as past or not, and texts do not count. The
//     numbers of the attempts of an operation that is not being sent are forgotten: only an operator's replay sends it
//     again, as a new attempt with a new floor (checkOperations).
//   - Replies of one kind are one: a definitive reply or a fault counts the same for every attempt (replyEdge).
//   - Replies that cannot count any more are dropped (live; checkDeadReplies puts them to every row).
//   - A participant makes every reply at once that it can make without changing anything (settled): a network that holds
//     more can do all that one with less can, and may deliver none of it. EveryDelivery does without, and a test
//     compares.
//   - A local transaction is one step, its commit: until then others see nothing of it but that the row is locked.
//     LocalTransactions does without, and a test compares.
//   - Step and Admit are asked once for each row and event, each barrier and command; states are numbers of these parts. They
//     are compared whole, so that no hash loses one.
package model
