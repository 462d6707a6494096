package pg

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// dsnError says that a database URL cannot be parsed, and shows nothing of it.
type dsnError struct {
	problem string
	err     error
}

func (e *dsnError) Error() string {
	return "the database URL is not valid: " + e.problem +
		"; use postgres://user:password@host:port/database, with special characters percent-encoded, or key=value pairs"
}

func (e *dsnError) Unwrap() error { return e.err }

// WithoutDSN replaces the text of an error about a database URL that cannot be parsed. That of pgx repeats the URL without
// the passwords that it can tell from the rest, and where parsing fails that may be none.
func WithoutDSN(err error) error {
	parse, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok {
		return err
	}
	problem := parse.Error()
	if inner := parse.Unwrap(); inner != nil {
		problem = strings.TrimSuffix(problem, " ("+inner.Error()+")") // it quotes parts
	}
	return &dsnError{problem: problem[strings.LastIndex(problem, "`: ")+len("`: "):], err: err}
}
