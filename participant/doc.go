// Package participant lets a Go service execute the steps of distributed transactions: sagas and TCC.
//
// A service registers an action for each kind of work it does, and runs:
//
//	p, err := participant.New(participant.Config{Name: "accounts", Pool: pool, NATS: nc})
//	participant.Handle(p, "debit", participant.TCC[Debit, Hold]{Try: hold, Confirm: use, Cancel: release})
//	err = p.Run(ctx)
//
// Every command of the coordinator is one transaction of the service's own database: the handler's statements
// and the barrier's record of the operation commit together, or neither does. The handler gets that
// transaction and does all of its work in it. Effects elsewhere (HTTP calls, other databases, messages) are
// not protected by it: a handler may run again after it was rolled back. They have handlers of their own, see
// External:
//
//	participant.Handle(p, "charge", participant.External[Charge, Receipt]{Do: charge, Undo: refund, Inquire: find, Void: void})
//
// The package owns the schema saga of the service's database (Migrate, SchemaSQL) and the durable consumer that is named
// like the participant. The barrier can be used without the rest, see Barrier; its SQL functions can be called
// from any language.
//
// # What a handler may say
//
//	return                what is kept           what the coordinator does
//	result, nil           changes and result     goes on
//	Refuse(code, err)     the refusal only       cancels the transaction (a try that may refuse, S2.4)
//	RetryAfter(d, err)    nothing                tries again, not before d
//	Fault(err)            nothing                dead letter: a person has to look
//	any other error       nothing                tries again with backoff; a lock timeout or deadlock is code busy
//	panic                 nothing                the same, code panic; the stack is in this process's log only
//
// A confirm, a cancel and a retriable step must go forward: there a Refuse is the fault refused_phase_two.
// A cancel must work without the try's result (S2.5), which is why Settle.Try is a pointer. Errors' texts travel
// to the coordinator, where operators read them.
//
// # States of an operation
//
// The barrier row of a step is absent, tried, refused, confirmed, cancelled or null_cancelled; of an external effect
// also trying, with a lease, while it is not known what became of it. Table B of the rules says what each
// command does in each. Replies done and refused are stored in it and repeated byte for
// byte, after a restart too.
//
// # Guarantees
//
//   - The handler of an operation takes effect at most once, however often its command comes (I-3).
//   - A try that comes after its cancel never runs; a cancel whose try never ran succeeds without user code.
//   - A command is acknowledged only after the local commit and the PubAck of its reply (B5).
//   - With Config.GroupMax commands that wait share one local transaction; nothing of it is answered before its commit, and
//     one command that fails does not undo the others. See docs/adr/0015-groups.md.
//   - At most Config.Concurrency handlers run at a time, each with one connection of the pool. Commands of one
//     step run one after the other.
//   - A handler cannot end its transaction, use it after it has returned, or use it from two goroutines at
//     once: the statement fails, and what was done is rolled back. (Conn and LargeObjects of the pgx.Tx give the
//     bare connection; nothing guards what is done with it.)
//
// # Failure
//
// PostgreSQL cannot be reached, or the answer of a commit is lost: there is no reply. The process does the
// operation again, with backoff, until the coordinator has given the attempt up; the barrier row tells whether
// it was committed. NATS cannot be reached: the reply is published again in the same way. The process dies:
// the command comes again after Config.AckWait, or the coordinator sends the next attempt.
//
// A handler that does not return in Config.HandlerTimeout is rolled back and answered with retry, code timeout.
// One that ignores its context as well loses its connection; its goroutine cannot be stopped, and the pool
// has one connection less until it returns.
//
// A handler that ends its process again and again (it runs out of memory, calls os.Exit) is found: from the second
// delivery of an operation on the participant's database counts the handler's beginnings that had no end. The last
// two of Config.DeliveriesMax run while nothing else runs in the process, so that no other command is
// blamed; after them the command is answered with the fault poison and not run. See docs/adr/0013-poison.md.
//
// A command that cannot be decoded is answered with the fault undecodable if it says whom to answer; otherwise
// it is logged as an error with its bytes, and terminated.
package participant
