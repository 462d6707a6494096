package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/saga"
)

// errGroupOver: a handler has ended the group's transaction or lost its connection. What was done in it is not known.
var errGroupOver = errors.New("participant: the transaction of the group is over")

// groupEntry runs several operations, one after the other, in one local transaction on one connection:
//
//	enter      SAVEPOINT, the barrier's decision: one round trip, with what the operation before left to send
//	handler    its statements
//	conclude   the reply is stored, the savepoint is released: sent with what comes next
//	commit     COMMIT, with what the last operation left to send: one round trip
//
// Each operation is entered, run and stored before the next one is entered: a handler that ends the transaction by SQL
// leaves only its own row in doubt, as when it is alone. One savepoint, before the row, undoes an operation as if it had
// not come. There is none behind it: a refusal, which is rare, enters again instead.
type groupEntry struct {
	entry       *Entry // of the operation under way, with the connection; over: everything is rolled back, or nobody knows
	lockTimeout time.Duration
	next        *pgx.Batch // goes with the next round trip
	tx          pgx.Tx     // nil: not begun
	trips       int        // of enter so far
	trippedFor  time.Duration
	began       bool // the savepoint of the operation under way is set
}

// group begins a transaction for several operations. They have to be of different steps, and to come in the order of
// their rows' keys: several groups that run at one time then do not wait for each other in a circle.
func (b *Barrier) group(ctx context.Context, lockTimeout time.Duration) (*groupEntry, error) {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("participant: begin a group: %w", err)
	}
	g := &groupEntry{entry: &Entry{conn: conn}, lockTimeout: min(lockTimeout, b.lockTimeout), next: &pgx.Batch{}}
	g.next.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	return g, nil
}

// enter asks the barrier about a command. With ok its verdict is in the entry: after saga.DoRun call the handler with the
// entry's transaction, then conclude or undo; after saga.DoReply too call one of them. Without ok the command is not part
// of the group, and has to run by itself. An error ends the group.
func (g *groupEntry) enter(ctx context.Context, cmd saga.Command) (ok bool, err error) {
	e, batch := g.entry, g.next
	e.cmd = cmd
	g.next, g.began = &pgx.Batch{}, false
	var v verdictRow
	batch.Queue(sqlSavepointGroup).Exec(g.saved)
	batch.Queue(sqlEnter, enterArgs(cmd, g.lockTimeout)...).QueryRow(v.scan)
	sent := time.Now()
	results := e.conn.SendBatch(ctx, batch)
	err = results.Close()
	g.trips, g.trippedFor = g.trips+1, g.trippedFor+time.Since(sent)
	if g.tx == nil {
		g.tx = results.Tx()
	}
	e.tx = &guardedTx{guard: &guard{conn: e.conn.Conn().PgConn()}, tx: g.tx}
	switch {
	case err == nil:
		e.Verdict = v.verdict(cmd)
		return true, nil
	case g.began && e.conn.Conn().PgConn().TxStatus() == 'E': // the barrier's statement failed, and nothing before it
		return false, g.undo(ctx)
	}
	e.Abandon(ctx)
	return false, fmt.Errorf("participant: enter %s in a group: %w", cmd.Key(), err)
}

func (g *groupEntry) saved(pgconn.CommandTag) error {
	g.began = true
	return nil
}

// trip is how long a round trip to the barrier takes on average.
func (g *groupEntry) trip() time.Duration { return g.trippedFor / time.Duration(max(1, g.trips)) }

// keep keeps what the barrier has written with a verdict that is a reply.
func (g *groupEntry) keep() {
	g.next.Queue(sqlReleaseGroup)
	g.began = false
}

// undo takes away all that the operation under way has done, and lets go of its locks.
func (g *groupEntry) undo(ctx context.Context) error {
	g.began = false
	if _, err := g.entry.conn.Exec(ctx, sqlUndoGroup); err != nil {
		g.entry.Abandon(ctx)
		return fmt.Errorf("participant: undo %s in a group: %w", g.entry.cmd.Key(), err)
	}
	return nil
}

// conclude is what Entry.Conclude is to one operation. The reply counts only after commit. Without ok the command is not
// part of the group any more.
func (g *groupEntry) conclude(ctx context.Context, ran saga.Ran) (reply saga.Reply, ok bool, err error) {
	cmd := g.entry.cmd
	verdict, _ := saga.Conclude(saga.BarrierRow{}, cmd, ran)
	if !verdict.Store || verdict.Reply.Outcome == saga.OutcomeRefused {
		if err := g.undo(ctx); err != nil {
			return saga.Reply{}, false, err
		}
	}
	if !verdict.Store {
		return verdict.Reply, true, nil
	}
	if verdict.Reply.Outcome == saga.OutcomeRefused {
		// The row has been free for a moment, so the barrier has to be asked again.
		if ok, err := g.enter(ctx, cmd); !ok || err != nil {
			return saga.Reply{}, false, err
		}
		if g.entry.Verdict.Do != saga.DoRun {
			return saga.Reply{}, false, g.undo(ctx)
		}
	}
	g.next.Queue(sqlLeave, leaveArgs(verdict.Reply)...)
	g.keep()
	return verdict.Reply, true, nil
}

// commit commits all operations. An error means that all are rolled back, except a *CommitUnknownError. It ends the group
// in every case.
func (g *groupEntry) commit(ctx context.Context) error { return g.entry.commit(ctx, g.next) }

// abandon rolls all operations back, if the group has not ended.
func (g *groupEntry) abandon(ctx context.Context) { g.entry.Abandon(ctx) }
