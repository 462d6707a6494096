// Package coordinatortest is a coordinator in memory, for the unit tests of services that start transactions or
// execute their steps. It needs neither PostgreSQL nor NATS, and a test takes milliseconds.
//
//	c := coordinatortest.New(t)
//	c.Participant("hotel").On("book", saga.KindTCC, coordinatortest.Refuse("sold_out", ""))
//	err := shop.Order(ctx, c.Client(), order) // the code under test, over HTTP
//	tx := c.Last()                            // cancelled; tx.Cause.Code is sold_out
//
// What is real: definitions and their validation, the transition function (saga.Step), the request keys (I1, I2), the
// barrier (saga.Admit), the encoding of commands and replies, and the HTTP API, so that coordinator/client and
// anything else that speaks HTTP work against URL unchanged. What is not: nothing is stored or sent, there is one
// tenant and one client, and nothing is ever over capacity.
//
// # Participants
//
// A Participant answers as its test says: see Answer. Its calls are recorded: see Calls. A command to a participant
// or an action that the test has not made fails the test. Real handlers are connected with Connect; they need their
// own database, because they are given a transaction of it.
//
// # Time
//
// The test has a clock of its own, which begins with the present. By default it moves by itself: whenever nothing is
// under way it goes straight to the next instant at which something is due, so that retries, attempt timeouts,
// delayed starts and deadlines take no time. It stands still while a function of the test (Do) or a real handler runs.
// It does not go to the deadline of a transaction that waits for a person, nor on with one that has been woken
// 10,000 times: Advance does. With ManualTime only Advance moves it; with RealTime it is the clock of the machine.
// Instants that the code under test sends (deadline, start_at, an id of its own) are compared with this clock: see Now.
//
// Whoever waits for the end of a transaction (Prefer: wait, ?wait) waits until it has ended, or until nothing more can
// happen by itself: then the answer is the transaction as it is, at once. With RealTime a wait takes its time.
//
// # Faults
//
// Lose, LoseReply, Duplicate and Late disturb the commands of a step. Whatever they do, a transaction must end
// right; what the test looks at is what the service makes of it.
//
// # Failure
//
// When the test has failed, what happened is logged, one line for each event.
package coordinatortest
