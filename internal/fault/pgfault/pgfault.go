// Package pgfault says what errors of PostgreSQL and pgx mean, in the words of package fault.
//
// It owns the table of SQLSTATEs. Package pg gives its answers the names that callers ask for.
//
// # Guarantees
//
// An ordinary ERROR proves that the server has rolled the transaction back, so it is never Unknown, with the
// exceptions that sqlstate.go names. The end of a session proves nothing: a server may end it between the commit record
// and the answer ("the transaction has already committed locally").
package pgfault

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

// Of returns the class of an error of a statement, a batch or a commit; "" if err is nil. With fault.Sent a
// commit was part of it. pgx knows of some errors that nothing was sent; then they count as fault.Held.
func Of(err error, at fault.Stage) fault.Class {
	if pgconn.SafeToRetry(err) {
		at = fault.Held
	}
	return CauseOf(err).Class(at)
}

// CauseOf returns the cause of an error of PostgreSQL or pgx, or that of fault.CauseOf.
func CauseOf(err error) fault.Cause {
	var connecting *pgconn.ConnectError
	var answer *pgconn.PgError
	var config *pgconn.ParseConfigError
	switch {
	case errors.As(err, &connecting):
		return connectCause(connecting.Unwrap())
	case errors.As(err, &answer):
		return answerCause(answer)
	case errors.As(err, &config):
		return fault.Setup
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed):
		return fault.Aborted // an earlier error has ended the transaction; a new one may pass
	case errors.Is(err, pgx.ErrNoRows), errors.Is(err, pgx.ErrTooManyRows):
		return fault.Rejected // an answer, and not the expected one
	case errors.Is(err, pgconn.ErrConnClosed):
		return fault.Lost
	}
	return fault.CauseOf(err)
}

// connectCause is the cause of a connection that was not made: no request has left.
func connectCause(err error) fault.Cause {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		if fault.CauseOf(err) == fault.Setup {
			return fault.Setup
		}
		return fault.Unavailable
	}
	switch cause := SQLState(answer.Code); {
	case cause == fault.Setup || cause == fault.Exhausted:
		return cause
	case answer.Code == codeInsufficientPrivilege || answer.Code == codeFeatureNotSupported:
		return fault.Setup // no right to connect; a protocol that the server does not speak
	}
	return fault.Unavailable
}

func answerCause(e *pgconn.PgError) fault.Cause {
	if endsSession(e.Severity) || endsSession(e.SeverityUnlocalized) {
		return fault.Lost
	}
	if cause, ok := routines[routine{e.Code, e.Routine}]; ok {
		return cause
	}
	return SQLState(e.Code)
}

func endsSession(severity string) bool { return severity == "FATAL" || severity == "PANIC" }
