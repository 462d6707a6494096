// Package flow decides what may be sent to a participant now and what has to wait: a retry budget (R1), a circuit
// breaker (R2), a limit on what is in flight (R3), and a ceiling on the rate at which a backlog drains (R4). It is pure:
// time is an argument and nothing is sent or stored here.
//
// What has to wait is parked, never failed: it gets a reason (a saga.Wait) and an instant to ask again, both of which
// the caller stores with the operation. Instants are given out one after the other at the rate at which the backlog may
// drain, so however many operations wait, few of them ask in any second, and none of them is in memory.
//
// A Flow is one coordinator's view of one participant. Several coordinators share the allowances evenly (Share), and tell
// each other how much they have in flight; replies are taken by whichever coordinator gets them, so only the sum means
// something. Nothing here has to be exact or to survive a restart for a transaction to end right: a Flow that knows
// nothing yet only allows more or less than it would otherwise.
package flow
