package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/pg"
)

// The four questions about one error, of which at most one is answered with yes unless the end of a session is an
// outage and leaves a commit unknown.
func TestQuestions(t *testing.T) {
	code := func(code string) error { return &pgconn.PgError{Severity: "ERROR", Code: code} }
	for _, c := range []struct {
		err                                  error
		retryable, rejected, outage, unknown bool
	}{
		{err: nil},
		{err: code("40001"), retryable: true},
		{err: code("40P01"), retryable: true},
		{err: code("55P03"), retryable: true},
		{err: code("23505"), rejected: true},
		{err: code("42P01"), rejected: true},
		{err: code("42501"), rejected: true},
		{err: code("SG003"), rejected: true},
		{err: code("57014")}, // cancelled: neither refused nor away
		{err: code("25P02")},
		{err: code("26000")},
		{err: pgx.ErrTxCommitRollback},
		{err: pgx.ErrTxClosed},
		{err: code("53300"), outage: true},
		{err: code("53100"), outage: true},
		{err: code("25006"), outage: true},
		{err: code("58030"), outage: true},
		{err: code("28P01"), outage: true}, // waits for a person, and refuses no statement
		{err: code("08006"), outage: true, unknown: true},
		{err: code("57P01"), outage: true, unknown: true},
		{err: &pgconn.PgError{Severity: "FATAL", Code: "42501"}, outage: true, unknown: true},
		{err: io.ErrUnexpectedEOF, outage: true, unknown: true},
		{err: context.DeadlineExceeded, outage: true, unknown: true},
		{err: errors.New("something"), outage: true, unknown: true},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("outer: %w", err)
		}
		if pg.IsRetryable(err) != c.retryable || pg.Rejected(err) != c.rejected || pg.Outage(err) != c.outage || pg.CommitUnknown(err) != c.unknown {
			t.Errorf("%v: retryable %t, rejected %t, outage %t, unknown %t", c.err, pg.IsRetryable(err), pg.Rejected(err), pg.Outage(err), pg.CommitUnknown(err))
		}
	}
}
