package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Errors that a participant gives to handlers.
var (
	// ErrTxOwned: a handler called Commit or Rollback on its transaction, which the participant ends.
	ErrTxOwned = errors.New("participant: the transaction is ended by the participant, not by the handler")
	// ErrTxOver: a statement was run after its handler returned, or after it was given up.
	ErrTxOver = errors.New("participant: the handler's transaction is over")
	// ErrNoResult: the command carries no result of that step.
	ErrNoResult = errors.New("participant: the command carries no result of the step")
)

// Codes that the participant itself uses in answers of outcome retry, beside those of package saga.
const (
	CodeTimeout = "timeout" // the handler did not return within Config.HandlerTimeout
)

const codeRefused = "refused" // of a refusal without a code

// Refuse says no for a business reason: not enough money, sold out. It is final and recorded: every repetition
// of the try gets the same answer, and what the handler did to the database is rolled back. The code is for
// programs (at most saga.CodeBytesMax bytes), err is for people and may be nil; both leave the participant.
//
// A confirm, a cancel and a retriable step cannot refuse: nothing is recorded, and the answer is the fault
// refused_phase_two, which a person has to look at (S2.7).
func Refuse(code string, err error) error {
	if code == "" {
		code = codeRefused
	}
	return &refusal{code: code, err: err}
}

// RetryAfter says that the operation may succeed later, not before d. Everything is rolled back and nothing
// is recorded. The coordinator honours d within the limits of the definition's policy.
func RetryAfter(d time.Duration, err error) error {
	return &retry{after: max(0, d), err: err}
}

// Fault says that the operation can never succeed as it is: a bug, or data that must not be there. Everything
// is rolled back, nothing is recorded, and the operation goes to the dead letters without another attempt.
func Fault(err error) error { return &fault{err: err} }

// NotSent says, in a DoFunc, that the effect has not happened and cannot happen any more, because nothing has left this
// process: the connection could not be made, or an address was not found. Without it an error of a DoFunc means
// that nobody knows. It changes nothing else about err, which may be made by RetryAfter or Fault; elsewhere it means nothing.
// NotSent(nil) is an error too.
func NotSent(err error) error { return &notSentError{err: err} }

type notSentError struct{ err error }

func (e *notSentError) Error() string { return joinText("not sent", e.err) }
func (e *notSentError) Unwrap() error { return e.err }

type refusal struct {
	code string
	err  error
}

func (e *refusal) Error() string { return joinText("refused: "+e.code, e.err) }
func (e *refusal) Unwrap() error { return e.err }

type retry struct {
	after time.Duration
	err   error
}

func (e *retry) Error() string { return joinText("retry after "+e.after.String(), e.err) }
func (e *retry) Unwrap() error { return e.err }

type fault struct {
	code string // "": saga.FaultHandler
	err  error
}

func (e *fault) Error() string { return joinText("fault", e.err) }
func (e *fault) Unwrap() error { return e.err }

// panicked is what a handler's panic becomes. The stack stays in the log.
type panicked struct{ value any }

func (e *panicked) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// undecodable is an input or result that a handler's types cannot hold. No other attempt can change that.
func undecodable(what string, err error) error {
	return &fault{code: saga.FaultUndecodable, err: fmt.Errorf("%s: %w", what, err)}
}

// ranOf translates, once, what a handler returned into the vocabulary of the rules (S3).
func ranOf(result saga.Payload, err error) saga.Ran {
	if err == nil {
		return saga.Ran{Outcome: saga.OutcomeDone, Result: result}
	}
	var (
		no    *refusal
		later *retry
		never *fault
		boom  *panicked
	)
	ran := saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeError, Reason: err.Error()}
	switch {
	case errors.As(err, &boom):
		ran.Code = saga.CodePanic
	case errors.As(err, &no):
		ran.Outcome, ran.Code, ran.Reason = saga.OutcomeRefused, no.code, text(no.err)
	case errors.As(err, &never):
		ran.Outcome, ran.Code, ran.Reason = saga.OutcomeFault, never.code, text(never.err)
	case errors.As(err, &later):
		ran.RetryAfter, ran.Reason = later.after, text(later.err)
	case pg.IsRetryable(err):
		ran.Code = saga.CodeBusy
	case errors.Is(err, context.DeadlineExceeded):
		ran.Code = CodeTimeout
	}
	return ran
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func joinText(what string, err error) string {
	if err == nil {
		return what
	}
	return what + ": " + err.Error()
}
