package participant

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/sagacity-tx/sagacity/saga"
)

// lease is the right to act on an external effect and to say what became of it (B6).
type lease struct {
	cmd   saga.Command
	token int64
}

// claim commits the claim that enter has put into the open transaction, and ends the entry.
func (e *Entry) claim(ctx context.Context) (lease, error) {
	if e.over() {
		return lease{}, ErrTxOver
	}
	l := lease{cmd: e.cmd, token: e.token}
	return l, e.commit(ctx, &pgx.Batch{})
}

// leave stores the reply of the operation, if the lease is still its own.
func (b *Barrier) leave(ctx context.Context, l lease, r saga.Reply) error {
	return b.write(ctx, l.cmd, sqlLeaveLease, append(leaveArgs(r), l.token)...)
}

// found stores what became of the try, whichever phase has found it out, if the lease is still its own.
func (b *Barrier) found(ctx context.Context, l lease, r saga.Reply) error {
	return b.write(ctx, l.cmd, sqlFound, l.cmd.Tenant, uuid(l.cmd.Transaction), l.cmd.Step, l.token, string(r.Outcome),
		zeronull.Text(r.Code), zeronull.Text(r.Reason), r.Result.Data,
		zeronull.Text(saga.CleanText(r.Result.Type, saga.ReasonBytesMax)))
}

// release ends the lease before its time. With nothing, the try is as if it had never come.
func (b *Barrier) release(ctx context.Context, l lease, nothing bool) error {
	return b.write(ctx, l.cmd, sqlRelease, l.cmd.Tenant, uuid(l.cmd.Transaction), l.cmd.Step, l.token, nothing)
}

// suspectBegin counts that user code of an operation is about to begin, see saga.barrier_suspect_begin.
func (b *Barrier) suspectBegin(ctx context.Context, cmd saga.Command, delivery uint64, sharedMax *int) (begun int, err error) {
	err = b.row(ctx, cmd, sqlSuspectBegin, func(row pgx.Row) error { return row.Scan(&begun) },
		cmd.Tenant, uuid(cmd.Transaction), cmd.Step, string(cmd.Phase), cmd.Attempt, int64(delivery), sharedMax)
	return begun, err
}

func (b *Barrier) suspectEnd(ctx context.Context, cmd saga.Command) error {
	return b.write(ctx, cmd, sqlSuspectEnd, cmd.Tenant, uuid(cmd.Transaction), cmd.Step, string(cmd.Phase))
}

func (b *Barrier) suspectPurge(ctx context.Context) error {
	return b.write(ctx, saga.Command{}, sqlSuspectPurge)
}

// write runs one statement in a transaction of its own, in one round trip. Its error may be a *CommitUnknownError.
func (b *Barrier) write(ctx context.Context, cmd saga.Command, sql string, args ...any) error {
	return b.row(ctx, cmd, sql, nil, args...)
}

func (b *Barrier) row(ctx context.Context, cmd saga.Command, sql string, scan func(pgx.Row) error, args ...any) error {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("participant: %w", err)
	}
	e := &Entry{cmd: cmd, conn: conn}
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	q := batch.Queue(sql, args...)
	if scan != nil {
		q.QueryRow(scan)
	}
	return e.flush(ctx, &batch)
}
