package participant

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// barrierTx is the transaction as user code sees it.
type barrierTx struct {
	pgx.Tx
	ended bool
}

// Commit returns ErrTxOwned.
func (tx *barrierTx) Commit(context.Context) error { return ErrTxOwned }

// Rollback returns ErrTxOwned.
func (tx *barrierTx) Rollback(context.Context) error { return ErrTxOwned }

// Begin sets a savepoint.
func (tx *barrierTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if tx.ended {
		return nil, ErrTxOver
	}
	return tx.Tx.Begin(ctx)
}

// The rest refuses to touch a connection that has been given back to the pool.

func (tx *barrierTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if tx.ended {
		return pgconn.CommandTag{}, ErrTxOver
	}
	return tx.Tx.Exec(ctx, sql, args...)
}

func (tx *barrierTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if tx.ended {
		return overRows{}, ErrTxOver
	}
	return tx.Tx.Query(ctx, sql, args...) //nolint:rowserrcheck // the rows are the caller's
}

func (tx *barrierTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if tx.ended {
		return overRows{}
	}
	return tx.Tx.QueryRow(ctx, sql, args...)
}

func (tx *barrierTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if tx.ended {
		return 0, ErrTxOver
	}
	return tx.Tx.CopyFrom(ctx, table, columns, src)
}

func (tx *barrierTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if tx.ended {
		return pgx.FailedBatchResults(b, ErrTxOver)
	}
	return tx.Tx.SendBatch(ctx, b)
}

func (tx *barrierTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if tx.ended {
		return nil, ErrTxOver
	}
	return tx.Tx.Prepare(ctx, name, sql)
}

// overRows is the empty result of a query after the end.
type overRows struct{}

func (overRows) Close()                                       {}
func (overRows) Err() error                                   { return ErrTxOver }
func (overRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (overRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (overRows) Next() bool                                   { return false }
func (overRows) Scan(...any) error                            { return ErrTxOver }
func (overRows) Values() ([]any, error)                       { return nil, ErrTxOver }
func (overRows) RawValues() [][]byte                          { return nil }
func (overRows) Conn() *pgx.Conn                              { return nil }
func (overRows) TypeMap() *pgtype.Map                         { return nil }
