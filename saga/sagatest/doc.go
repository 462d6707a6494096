// Package sagatest is the seeded simulator: it runs the real decisions in a modelled world of crashes, losses, clocks and
// people, and checks the invariants after every event.
//
// What is real: saga.Judge with Step, Park, Admit, Claim, Resume and Conclude, AfterCommit, AfterDoubt, AckReply,
// JudgeSubmission, JudgeLetter, the timer, floor and retention decisions, Suspect, ParseSubmission; the messages of saga/wire
// with their ids, headers and lives; every decision of saga/relay; the budgets, breakers and limits of saga/flow. No decision
// is made here a second time.
//
// What is modelled is the order of things around them: two or three coordinators with caches that go stale, on one
// database; up to four participants with a database and a gateway each and one or two replicas; JetStream as the rules
// assume it (C1); clients and operators. Whatever a run does follows from its seed: one goroutine, a heap of events, a
// virtual clock, and PCG. A run that breaks a rule is run again for the trace of the transaction concerned.
//
// # The files
//
//	clock.go          the heap of events, processes that die and pause          run.go            one run, from orders to rest
//	server.go         what databases have in common: commits whose answer       faults.go         what goes wrong, crash points (section K)
//	                  is lost, clocks that jump, outages                        traits.go         what a run is like: hasty people, late replies
//	                                                                            definitions.go    random definitions, user code and its moods
//	database.go       the coordinators' database                                client.go         orders, repetitions, cancels
//	coordinator.go    a coordinator's queue, cache and replies                  operator.go       replays, discards, resolves, inquiries
//	approval.go       edits, reservations, approvals
//	batch.go          the lane: judge, commit, hand off, acknowledge            forge.go          others' names, other contents
//	chores.go         timers, floor, retention, submissions
//	relay.go gate.go  the outbox's publisher; what may be sent now              disaster.go       databases that lose what they acknowledged
//	bag.go            NATS                                                      sabotage.go       the model without one of its safeguards
//	participant.go    one local transaction per command                         invariants.go     what is true of a transaction at every moment
//	barrier.go        the participants' database                                transition.go     what is true of every write
//	external.go       leases, inquiries, voids                                  coverage.go       cells of the transition table that were reached
//	gateway.go        what lies outside                                         unreachable.go    cells that none can reach, and why
//	merging.go        what an event may change, and what is answered            trace.go report.go
//
// # Rare cells of the transition table
//
// A run that has all faults in equal measure seldom comes to a reply that finds, say, a pivot's try replayed beside its
// fence. So runs have traits, and most of them a profile: traits that lead to the same rare states together. In such runs
// operators look all the time, user code fails where it hurts, one way of messages is slower than the others, and the
// network brings old replies and commands just when a transaction has come to an unusual state (haunt). Nothing of it follows a script:
// what is drawn is how often things happen. testdata/unreachable.txt says which cells no run can reach, and why; with
// -every-cell the command goes on until all others are reached, up to eight times its seeds.
//
// # What is checked, and how
//
// The model counts what really happens (the business changes of every local transaction that was committed, every request
// that a gateway has executed) apart from what barrier rows and coordinators say. After every event each transaction that
// it has changed is checked:
//
//	I-1   no barrier row of a transaction is confirmed while another is cancelled
//	I-2   committed: every step has happened once and every tcc step is confirmed once, none is cancelled, as rows and as
//	      counted; cancelled: nothing has happened that was not undone, no pivot has, and every step that was sent has a
//	      row that refuses a late try; and it stays so, whatever late copies come
//	I-3   nothing is counted twice
//	I-4   nothing is confirmed that was not tried
//	I-5   the first reply done or refused of each operation is kept, and every later one is compared with it
//	I-6   what a row has recorded as refused or cancelled is remembered outside of the barrier: no try follows; no user code
//	      has an effect below the floor, and none is begun for a try whose deadline is over (T1)
//	I-7   versions rise by one, statuses follow the table, one decision, nothing changes at the end
//	I-8   a command that reaches the bag names an attempt that is committed at that moment
//	I-9   every answer that a client got names the same transaction; it is found by its id and its request id until retention,
//	      and then the request id is remembered
//	I-10  retention drops no transaction that has not ended, and no barrier row of one
//	I-11  half an hour after faults have stopped every transaction has ended or has an open dead letter; with operators who
//	      replay, all end (see below for the exception); nothing that is under way is without a timer or a dead letter
//	I-12  the amounts that a transaction has moved in the participants' databases add up to zero at rest, and none is held
//	I-13  what was dead-lettered is sent again by operators only; retries stay within the budget of saga/flow
//	I-14  a reply in another participant's or tenant's name changes nothing; the four clients use the same request ids and get
//	      transactions of their own
//	I-15  at the end no dead letter is open and nothing is due
//
// Beside them: each attempt follows the last one (S1.1), with the same bytes (S1.4), in the order of the definition (S2.2 to S2.4,
// S2.6), with a deadline where there may be one (S2.7); dead letters go from state to state as they may (D2); an acknowledged
// reply changes nothing when it is judged once more on the stored row (S2.10, C9); a command is acknowledged only after its
// reply is published (B5); a row leaves the outbox only when its message was stored or its time is over, and none is left at
// rest (C2); what the bag drops as a copy is one (C3); no event that can be stored is set aside (C5).
//
// D4: what nobody knows the outcome of, and what was edited, is replayed only with somebody else's approval of exactly that,
// used once, or by breaking the glass. S1.5: an edit is sent only when its participant has reserved it, and what a committed
// transaction says was tried is what was. S2.8: an attempt without a reply counts only if another operation of its participant
// was answered since.
//
// Not modelled: migrations, full disks and streams that stay full, jobs, webhooks, payloads of other types. A suspect that is to run alone runs beside others: what it kills is the same.
//
// # What no operator can end
//
// An external effect that can neither be queried nor repeated stays in doubt (U4): operators who have replayed it three times
// discard it, and its transaction is resolved. A pivot has no such end (S2.6), so pivots here can be queried and voided.
//
// # Disasters
//
// The mode disaster breaks the assumption of the rules that no database loses an acknowledged commit. See disaster.go for
// what is expected then.
package sagatest
