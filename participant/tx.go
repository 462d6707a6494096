package participant

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
)

var errTxBusy = errors.New("participant: the handler's transaction is in use by another goroutine or by a callback")

// guard stands between user code and its connection. It lets one goroutine at a time use the connection, and
// none after the handler has returned or the entry is over, so that a goroutine that a handler left behind
// cannot write into another operation's transaction; and it keeps the end of the transaction from user code.
type guard struct {
	conn   *pgconn.PgConn
	mu     sync.Mutex // held while the connection is used
	over   bool
	misuse error
	busy   bool   // a statement failed because others were in the way, whatever the handler made of it
	open   func() // closes the rows or batch results that are being read; nil: none
}

// use runs f, unless the transaction is over or somebody else uses the connection just now: that is an error,
// as in pgx, and never a wait.
func (g *guard) use(f func() error) error {
	if !g.mu.TryLock() {
		return errTxBusy
	}
	defer g.mu.Unlock()
	switch {
	case g.over:
		return ErrTxOver
	case g.conn.TxStatus() == 'I': // ended by SQL: a statement now would be a transaction of its own
		return ErrTxOwned
	}
	err := f()
	g.busy = g.busy || pg.IsRetryable(err)
	return err
}

// finish ends the use of the connection, waits for a statement that is under way, and closes what is still
// being read. It returns what the handler must not have done.
func (g *guard) finish() error {
	if !g.mu.TryLock() {
		g.mu.Lock()
		g.misuse = errors.Join(g.misuse, errors.New("the handler returned while a statement of its transaction was under way"))
	}
	defer g.mu.Unlock()
	g.over = true
	if g.open != nil {
		g.open()
		g.open = nil
	}
	return g.misuse
}

// end ends the use of a connection that goes back to the pool. It waits for a statement that is under way.
func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over, g.open = true, nil
}

// refuse notes that the handler wanted to end the transaction.
func (g *guard) refuse(call string) error {
	return g.use(func() error {
		g.misuse = errors.Join(g.misuse, fmt.Errorf("the handler called %s on its transaction", call))
		return ErrTxOwned
	})
}

// query runs a query and guards its rows. Only one can be read at a time: that is how a connection works.
func (g *guard) query(send func() (pgx.Rows, error)) (pgx.Rows, error) {
	r := &guardedRows{guard: g}
	err := g.use(func() (err error) {
		r.rows, err = send() //nolint:rowserrcheck // the reader checks
		if err == nil {
			g.open = r.rows.Close
		}
		return err
	})
	if r.rows == nil { // the query was not sent
		r.rows = failedRows{err: err}
	}
	return r, err
}

// guardedTx is the pgx.Tx that user code sees.
type guardedTx struct {
	guard  *guard
	tx     pgx.Tx
	nested bool // a savepoint of the handler's own, which it ends
}

// Begin sets a savepoint.
func (t *guardedTx) Begin(ctx context.Context) (nested pgx.Tx, err error) {
	err = t.guard.use(func() error {
		inner, err := t.tx.Begin(ctx)
		if err != nil {
			return err
		}
		nested = &guardedTx{guard: t.guard, tx: inner, nested: true}
		return nil
	})
	return nested, err
}

// Commit ends a savepoint; on the transaction itself it is ErrTxOwned, and the handler's work is not kept.
func (t *guardedTx) Commit(ctx context.Context) error {
	if !t.nested {
		return t.guard.refuse("Commit")
	}
	return t.guard.use(func() error { return t.tx.Commit(ctx) })
}

// Rollback is to Commit as one thinks.
func (t *guardedTx) Rollback(ctx context.Context) error {
	if !t.nested {
		return t.guard.refuse("Rollback")
	}
	return t.guard.use(func() error { return t.tx.Rollback(ctx) })
}

// Exec runs a statement.
func (t *guardedTx) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = t.guard.use(func() (err error) {
		tag, err = t.tx.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// Query runs a query.
func (t *guardedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.guard.query(func() (pgx.Rows, error) { return t.tx.Query(ctx, sql, args...) }) //nolint:rowserrcheck // the reader checks
}

// QueryRow runs a query and gives its first row.
func (t *guardedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := t.Query(ctx, sql, args...) //nolint:rowserrcheck // Scan checks
	return &guardedRow{rows: rows, err: err}
}

// CopyFrom copies rows into a table.
func (t *guardedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (n int64, err error) {
	err = t.guard.use(func() (err error) {
		n, err = t.tx.CopyFrom(ctx, table, columns, from)
		return err
	})
	return n, err
}

// Prepare prepares a statement.
func (t *guardedTx) Prepare(ctx context.Context, name, sql string) (d *pgconn.StatementDescription, err error) {
	err = t.guard.use(func() (err error) {
		d, err = t.tx.Prepare(ctx, name, sql)
		return err
	})
	return d, err
}

// SendBatch sends a batch.
func (t *guardedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	r := &guardedBatch{guard: t.guard}
	for _, q := range b.QueuedQueries {
		if q != nil && endsTransaction(q.SQL) {
			return pgx.FailedBatchResults(b, t.guard.refuse(fmt.Sprintf("SendBatch with %q", q.SQL)))
		}
	}
	err := t.guard.use(func() error {
		r.results = t.tx.SendBatch(ctx, b)
		t.guard.open = func() { _ = r.results.Close() }
		return nil
	})
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return r
}

// LargeObjects and Conn give the connection itself, for types and helpers of pgx. They are not guarded: a
// handler runs no statement with them that ends the transaction, and keeps neither.
func (t *guardedTx) LargeObjects() pgx.LargeObjects { return t.tx.LargeObjects() }

// Conn: see LargeObjects.
func (t *guardedTx) Conn() *pgx.Conn { return t.tx.Conn() }

// guardedRows are the rows of a guardedTx.
type guardedRows struct {
	guard *guard
	rows  pgx.Rows
	err   error // the transaction was over while they were read
}

func (r *guardedRows) use(f func() error) error {
	err := r.guard.use(f)
	if errors.Is(err, ErrTxOver) || errors.Is(err, errTxBusy) {
		r.err = err
	}
	return err
}

func (r *guardedRows) Close() {
	_ = r.use(func() error { r.rows.Close(); return nil })
}

func (r *guardedRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.rows.Err()
}

func (r *guardedRows) Next() (more bool) {
	_ = r.use(func() error {
		if more = r.rows.Next(); more {
			return nil
		}
		return r.rows.Err()
	})
	return more
}

func (r *guardedRows) Scan(dest ...any) error {
	return r.use(func() error { return r.rows.Scan(dest...) })
}

func (r *guardedRows) Values() (values []any, err error) {
	err = r.use(func() (err error) {
		values, err = r.rows.Values()
		return err
	})
	return values, err
}

func (r *guardedRows) CommandTag() pgconn.CommandTag { return r.rows.CommandTag() }
func (r *guardedRows) FieldDescriptions() []pgconn.FieldDescription {
	return r.rows.FieldDescriptions()
}
func (r *guardedRows) RawValues() [][]byte  { return r.rows.RawValues() }
func (r *guardedRows) Conn() *pgx.Conn      { return r.rows.Conn() }
func (r *guardedRows) TypeMap() *pgtype.Map { return r.rows.TypeMap() }

// guardedRow is the row of a guardedTx; it does what pgx's own does.
type guardedRow struct {
	rows pgx.Rows
	err  error
}

func (r *guardedRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok {
			return errors.New("participant: DriverBytes cannot be scanned from QueryRow: they would not outlive it")
		}
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// guardedBatch are the batch results of a guardedTx.
type guardedBatch struct {
	guard   *guard
	results pgx.BatchResults
}

func (b *guardedBatch) Exec() (tag pgconn.CommandTag, err error) {
	err = b.guard.use(func() (err error) {
		tag, err = b.results.Exec()
		return err
	})
	return tag, err
}

func (b *guardedBatch) Query() (pgx.Rows, error) {
	r := &guardedRows{guard: b.guard}
	err := b.guard.use(func() (err error) {
		r.rows, err = b.results.Query() //nolint:gocritic,rowserrcheck // the reader checks and closes
		return err
	})
	if r.rows == nil {
		r.rows = failedRows{err: err}
	}
	return r, err
}

func (b *guardedBatch) QueryRow() pgx.Row {
	rows, err := b.Query() //nolint:rowserrcheck // Scan checks
	return &guardedRow{rows: rows, err: err}
}

func (b *guardedBatch) Close() error { return b.guard.use(func() error { return b.results.Close() }) }

// Tx is there if the batch began a transaction. Inside of the handler's it can only be the handler's own.
func (b *guardedBatch) Tx() pgx.Tx {
	if tx := b.results.Tx(); tx != nil {
		return &guardedTx{guard: b.guard, tx: tx}
	}
	return nil
}

// failedRows are the rows of a query that was not sent.
type failedRows struct{ err error }

func (r failedRows) Close()                                       {}
func (r failedRows) Err() error                                   { return r.err }
func (r failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                            { return r.err }
func (r failedRows) Values() ([]any, error)                       { return nil, r.err }
func (r failedRows) RawValues() [][]byte                          { return nil }
func (r failedRows) Conn() *pgx.Conn                              { return nil }
func (r failedRows) TypeMap() *pgtype.Map                         { return nil }
