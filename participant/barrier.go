package participant

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// DefaultLockTimeout is how long an operation waits for another operation of the same step, and its business
// statements for their locks.
const DefaultLockTimeout = 3 * time.Second

// rollbackTimeout bounds a rollback. A connection on which it does not succeed is closed.
const rollbackTimeout = 5 * time.Second

// CommitUnknownError says that the commit of an operation was sent and not answered: the operation is executed
// and recorded, or neither. Answer nothing; the next delivery of the same command finds out. The connection
// was closed.
type CommitUnknownError struct{ Err error }

// Error says that the outcome is unknown, and why.
func (e *CommitUnknownError) Error() string {
	return "participant: the outcome of the commit is unknown: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *CommitUnknownError) Unwrap() error { return e.Err }

// Barrier runs operations at most once, in the participant's own database (section B of the rules). It owns
// the schema saga of that database, see Migrate. One command is one local transaction:
//
//	Enter    BEGIN, the barrier's decision, a savepoint: one round trip
//	Tx       the handler's statements
//	Conclude the reply is stored, COMMIT: one round trip
//
// A crash or an error anywhere leaves both the business change and the record, or neither.
type Barrier struct {
	pool        *pgxpool.Pool
	lockTimeout time.Duration
}

// NewBarrier returns a barrier on the pool's database. A lockTimeout of zero means DefaultLockTimeout.
func NewBarrier(pool *pgxpool.Pool, lockTimeout time.Duration) *Barrier {
	if lockTimeout <= 0 {
		lockTimeout = DefaultLockTimeout
	}
	return &Barrier{pool: pool, lockTimeout: max(lockTimeout, time.Millisecond)}
}

// Entry is an operation that has passed, or was stopped at, the barrier. With Verdict.Do = saga.DoReply it is
// over: answer Verdict.Reply, everything is committed or rolled back. Otherwise it holds a connection and an
// open transaction until Conclude or Abandon. Not safe for concurrent use.
type Entry struct {
	Verdict saga.Verdict

	cmd       saga.Command
	conn      *pgxpool.Conn
	tx        *guardedTx
	savepoint bool
	lease     time.Duration // of an external effect; zero: none
	token     int64         // of the lease that was claimed
}

// Enter asks the barrier about a command. An error means that nothing has happened, and may be tried again;
// except a *CommitUnknownError. A lock that was not granted in time is no error but the answer retry, code
// busy.
//
// With Verdict.Do = saga.DoRun call the handler with Tx, then Conclude. saga.DoInquire is the verdict about an
// external effect whose lease is over.
func (b *Barrier) Enter(ctx context.Context, cmd saga.Command) (*Entry, error) {
	return b.enter(ctx, cmd, 0)
}

// enter is Enter. With a lease, for an effect outside of the database, a try that may run and whatever has to inquire
// has a claim in the open transaction: see claim.
func (b *Barrier) enter(ctx context.Context, cmd saga.Command, lease time.Duration) (*Entry, error) {
	if cmd.Verb == saga.VerbInquire {
		return b.inquire(ctx, cmd)
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("participant: enter %s: %w", cmd.Key(), err)
	}
	// Only a try that may be refused needs to keep its row while what the handler did is undone.
	e := &Entry{cmd: cmd, conn: conn, lease: lease}
	e.savepoint = lease == 0 && cmd.Phase == saga.PhaseTry && cmd.Kind != saga.KindRetriable
	v, err := e.send(ctx, b.lockTimeout)
	switch {
	case pg.IsRetryable(err):
		e.Abandon(ctx)
		e.Verdict = saga.Verdict{Do: saga.DoReply, Reply: saga.AnswerTo(cmd)}
		e.Verdict.Reply.Outcome, e.Verdict.Reply.Code = saga.OutcomeRetry, saga.CodeBusy
		e.Verdict.Reply.Reason = "another operation of this step is under way"
		return e, nil
	case err != nil:
		e.Abandon(ctx)
		return nil, fmt.Errorf("participant: enter %s: %w", cmd.Key(), err)
	}
	e.Verdict = v.verdict(cmd)
	if e.Verdict.Do != saga.DoReply {
		return e, nil
	}
	if !e.Verdict.Store {
		e.Abandon(ctx)
		return e, nil
	}
	if err := e.commit(ctx, &pgx.Batch{}); err != nil {
		return nil, err
	}
	return e, nil
}

// send sends BEGIN, the barrier's function and the savepoint in one round trip.
func (e *Entry) send(ctx context.Context, lockTimeout time.Duration) (v verdictRow, err error) {
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	args := enterArgs(e.cmd, lockTimeout)
	if e.lease == 0 {
		batch.Queue(sqlEnter, args...).QueryRow(v.scan)
	} else {
		batch.Queue(sqlEnterLease, append(args, e.lease.Milliseconds())...).QueryRow(func(row pgx.Row) error {
			return v.scanLease(row, &e.token)
		})
	}
	if e.savepoint {
		batch.Queue(sqlSavepoint)
	}
	results := e.conn.SendBatch(ctx, &batch)
	err = results.Close()
	e.tx = &guardedTx{guard: &guard{conn: e.conn.Conn().PgConn()}, tx: results.Tx()}
	return v, err
}

// Tx returns the transaction for the handler. Its Commit and Rollback return ErrTxOwned, its Begin sets a
// savepoint. It is over after Conclude and Abandon.
func (e *Entry) Tx() pgx.Tx { return e.tx }

// Conclude stores what the handler did and commits, or rolls everything back if the rules say so, and
// returns the answer. An error means that everything was rolled back, except a *CommitUnknownError. It
// ends the entry in every case.
func (e *Entry) Conclude(ctx context.Context, ran saga.Ran) (saga.Reply, error) {
	if e.over() {
		return saga.Reply{}, ErrTxOver
	}
	verdict, _ := saga.Conclude(saga.BarrierRow{}, e.cmd, ran)
	if !verdict.Store {
		e.Abandon(ctx)
		return verdict.Reply, nil
	}
	var batch pgx.Batch
	if verdict.Reply.Outcome == saga.OutcomeRefused {
		if err := e.undo(ctx, &batch); err != nil {
			return saga.Reply{}, err
		}
	}
	batch.Queue(sqlLeave, leaveArgs(verdict.Reply)...)
	if err := e.commit(ctx, &batch); err != nil {
		return saga.Reply{}, err
	}
	return verdict.Reply, nil
}

// Abandon rolls everything back and gives the connection back, or closes it if that does not succeed. It may
// be called at any time, after the end too. It does not need ctx to be alive.
func (e *Entry) Abandon(ctx context.Context) {
	if e.over() {
		return
	}
	defer e.release()
	if e.conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	// On an error pgx has closed the connection: the server rolls back.
	_, err := e.conn.Exec(ctx, "ROLLBACK")
	if err != nil {
		e.close(ctx)
	}
}

// undo queues the way back to the savepoint. In a transaction that has failed it goes there at once, because
// nothing can be prepared in one.
func (e *Entry) undo(ctx context.Context, batch *pgx.Batch) error {
	if e.conn.Conn().PgConn().TxStatus() != 'E' {
		batch.Queue(sqlRollbackTo)
		return nil
	}
	if _, err := e.conn.Exec(ctx, sqlRollbackTo); err != nil {
		e.Abandon(ctx)
		return fmt.Errorf("participant: refuse %s: %w", e.cmd.Key(), err)
	}
	return nil
}

// commit sends the batch and COMMIT in one round trip, and ends the entry.
func (e *Entry) commit(ctx context.Context, batch *pgx.Batch) error {
	if e.conn.Conn().PgConn().TxStatus() == 'I' {
		e.release()
		return fmt.Errorf("participant: leave %s: the handler has ended the transaction, without the record of it: %w", e.cmd.Key(), ErrTxOwned)
	}
	return e.flush(ctx, batch)
}

// flush sends the batch, which may begin the transaction, and COMMIT.
func (e *Entry) flush(ctx context.Context, batch *pgx.Batch) error {
	var tag pgconn.CommandTag
	batch.Queue(sqlCommit).Exec(func(t pgconn.CommandTag) error {
		tag = t
		return nil
	})
	err := e.conn.SendBatch(ctx, batch).Close()
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	switch {
	case err == nil:
		e.release()
		return nil
	case pg.CommitUnknown(err):
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		e.close(closing)
		e.release()
		return &CommitUnknownError{Err: fmt.Errorf("%s: %w", e.cmd.Key(), err)}
	}
	e.Abandon(ctx)
	return fmt.Errorf("participant: leave %s: %w", e.cmd.Key(), err)
}

// close closes the connection, even when it returns an error; the pool does not take it back.
func (e *Entry) close(ctx context.Context) { _ = e.conn.Conn().Close(ctx) }

func (e *Entry) release() {
	if e.tx != nil {
		e.tx.guard.end()
	}
	e.conn.Release()
	e.conn = nil
}

func (e *Entry) over() bool { return e.conn == nil }

// inquire answers from committed state, without a transaction of its own and without locks.
func (b *Barrier) inquire(ctx context.Context, cmd saga.Command) (*Entry, error) {
	var v verdictRow
	var sha []byte
	if cmd.ContentSHA256 != [32]byte{} {
		sha = cmd.ContentSHA256[:]
	}
	row := b.pool.QueryRow(ctx, sqlInquire, cmd.Tenant, uuid(cmd.Transaction), cmd.Step, string(cmd.Phase), sha, cmd.Revision)
	if err := v.scan(row); err != nil {
		return nil, fmt.Errorf("participant: inquire %s: %w", cmd.Key(), err)
	}
	return &Entry{Verdict: v.verdict(cmd), cmd: cmd}, nil
}
