package pg

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes that callers act on.
const (
	CodeUniqueViolation      = "23505"
	CodeSerializationFailure = "40001"
	CodeDeadlockDetected     = "40P01"
	CodeLockNotAvailable     = "55P03"
	CodeQueryCanceled        = "57014"
	CodeUndefinedTable       = "42P01"
	CodeUndefinedColumn      = "42703"

	codeCompletionUnknown = "40003" // statement_completion_unknown
)

// Code returns the SQLSTATE that the server reported, "" for an error of another origin.
func Code(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// IsUnique reports whether err is the violation of the unique constraint or index of that name; with an
// empty name, of any.
func IsUnique(err error, constraint string) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == CodeUniqueViolation &&
		(constraint == "" || pe.ConstraintName == constraint)
}

// IsRetryable reports whether the server rolled the transaction back for a reason that is likely to be
// gone when the same transaction is tried again: a deadlock, a serialization failure, a lock timeout.
func IsRetryable(err error) bool {
	switch Code(err) {
	case CodeDeadlockDetected, CodeSerializationFailure, CodeLockNotAvailable:
		return true
	}
	return false
}

// CommitUnknown reports whether err, returned by the commit of a transaction or by a batch that held the
// commit, leaves open whether the transaction is committed. It is: when the connection broke or the
// context ended after something was sent, and when the server ended the session instead of answering.
// It is not: when the server reported an ordinary error, or nothing was sent.
func CommitUnknown(err error) bool {
	if err == nil || pgconn.SafeToRetry(err) ||
		errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) {
		return false
	}
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) {
		return false // no connection, so no commit was sent
	}
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return true
	}
	// A session may be ended between its commit record and its answer ("the transaction has already
	// committed locally"), so FATAL and PANIC, class 08 and class 57P prove nothing.
	return pe.Severity == "FATAL" || pe.Severity == "PANIC" ||
		pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC" ||
		pe.Code == codeCompletionUnknown || strings.HasPrefix(pe.Code, "08") || strings.HasPrefix(pe.Code, "57P")
}
