package coordinator

import (
	"errors"

	"github.com/sagacity-tx/sagacity/saga"
)

// What a caller may have to tell apart. Invalid input is a *saga.InvalidError, an action that the state does
// not allow a *saga.StateError.
var (
	// ErrNotFound: there is no such transaction, or it belongs to somebody else (S1.2).
	ErrNotFound = saga.ErrNotFound
	// ErrKeyReused: the request key was used with other content (I2).
	ErrKeyReused = saga.ErrKeyReused
	// ErrIDTaken: the transaction id was used before by another submission.
	ErrIDTaken = saga.ErrIDTaken
	// ErrPastRetention: it is from before what is remembered, so that nothing can be confirmed (I6).
	ErrPastRetention = saga.ErrPastRetention
	// ErrOverloaded: the queues are full, or submissions hold too many bytes; try again later. Nothing was done.
	ErrOverloaded = errors.New("the coordinator is over capacity")
	// ErrOutcomeUnknown: whether it happened is not known. Ask again with the same request id, or read the
	// transaction.
	ErrOutcomeUnknown = saga.ErrOutcomeUnknown
	// ErrDefinitionTaken: another definition is registered under that name and version.
	ErrDefinitionTaken = errors.New("another definition has that name and version")
	// ErrStale: the dead letter or transaction has changed since the operator looked at it.
	ErrStale = saga.ErrStale
)
