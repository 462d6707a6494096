package coordinator

import "errors"

// What a caller may have to tell apart. Invalid input is a *saga.InvalidError, an action that the state does
// not allow a *saga.StateError.
var (
	// ErrNotFound: there is no such transaction, or it belongs to somebody else (S1.2).
	ErrNotFound = errors.New("no such transaction")
	// ErrKeyReused: the request key was used with other content (I2).
	ErrKeyReused = errors.New("the request id was used before with other content")
	// ErrIDTaken: the transaction id was used before by another submission.
	ErrIDTaken = errors.New("the transaction id is taken")
	// ErrOverloaded: the queues are full; try again later. Nothing was done.
	ErrOverloaded = errors.New("the coordinator is over capacity")
	// ErrOutcomeUnknown: whether it happened is not known. Ask again with the same request id, or read the
	// transaction.
	ErrOutcomeUnknown = errors.New("the outcome is not known yet")
	// ErrDefinitionTaken: another definition is registered under that name and version.
	ErrDefinitionTaken = errors.New("another definition has that name and version")
	// ErrStale: the dead letter or transaction has changed since the operator looked at it.
	ErrStale = errors.New("it has changed since it was read")
)
