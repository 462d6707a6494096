// Package dlq keeps dead letters: operations that cannot go on and messages that cannot be understood, set
// aside with reason and history so that nothing waits behind them (M6). It owns the tables dead_letters,
// audit, approvals and edits.
//
// # States
//
//	open ──replay──► replaying ──definitive reply──► closed
//	  ▲                  └──fails again──► open
//	  ├── the decision overtakes it ──► obsolete
//	  └── an operator gives it up ──► discarded
//
// An operation has at most one dead letter (D1): failing again opens the same one again. What may happen to
// the dead letter of an operation is decided by package saga and written by the coordinator in the
// transaction that changes the operation (D2); this package holds the statements. A dead letter of kind
// message, whose bytes nobody understood, belongs to no transaction: it is kept and shown until an operator discards it.
package dlq
