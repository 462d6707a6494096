package pg

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/fault"
	"github.com/sagacity-tx/sagacity/internal/fault/pgfault"
)

// SQLSTATE codes that callers name. What a code means for a repetition is said by package pgfault.
const (
	CodeUniqueViolation      = "23505"
	CodeSerializationFailure = "40001"
	CodeDeadlockDetected     = "40P01"
	CodeLockNotAvailable     = "55P03"
	CodeQueryCanceled        = "57014"
	CodeUndefinedTable       = "42P01"
	CodeUndefinedColumn      = "42703"
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

// IsRetryable reports whether the server rolled the transaction back because others were in the way, which is
// likely to be over when the same transaction is tried again: a deadlock, a serialization failure, a lock timeout.
func IsRetryable(err error) bool { return pgfault.CauseOf(err) == fault.Busy }

// Rejected reports whether the server refuses the statement or the data, so that the same again must fail the same way.
func Rejected(err error) bool { return pgfault.CauseOf(err).Inherent() }

// Outage reports whether err says that the database cannot work now, rather than that it has refused or rolled back
// a transaction: no connection, a server that stops, starts or only reads, no memory, disk or connections left.
func Outage(err error) bool {
	switch pgfault.CauseOf(err) {
	case "", fault.Rejected, fault.TooLarge, fault.Busy, fault.Aborted:
		return false
	default:
		return true
	}
}

// CommitUnknown reports whether err, returned by the commit of a transaction or by a batch that held the
// commit, leaves open whether the transaction is committed. It is: when the connection broke or the
// context ended after something was sent, and when the server ended the session instead of answering.
// It is not: when the server reported an ordinary error, or nothing was sent.
func CommitUnknown(err error) bool { return pgfault.Of(err, fault.Sent) == fault.Unknown }
