package participant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// BatchTryFunc queues the statements of a try on b instead of running them. They go to the database together with the
// barrier's own and, in a group, with those of other commands: one round trip for all, where a TryFunc has one for each
// statement. Use it where no statement depends on the result of another one.
//
// A callback of a queued statement (pgx.QueuedQuery.Exec, Query, QueryRow) sees its result before anything is committed. It
// may set *out, and its error ends the try as one of a TryFunc would: Refuse, RetryAfter, Fault or any other. Without a
// callback nobody looks at how many rows a statement has changed.
//
// The function may be called more than once for one command, and must do nothing but queue. A statement that ends the
// transaction or sets a savepoint is a fault.
type BatchTryFunc[In, Out any] func(b *pgx.Batch, c Call[In], out *Out) error

// BatchSettleFunc is to SettleFunc what BatchTryFunc is to TryFunc.
type BatchSettleFunc[In, Out any] func(b *pgx.Batch, c Settle[In, Out]) error

// BatchTCC is a TCC of functions that queue their statements.
type BatchTCC[In, Out any] struct {
	Try     BatchTryFunc[In, Out]
	Confirm BatchSettleFunc[In, Out]
	Cancel  BatchSettleFunc[In, Out]
}

// BatchSaga is a Saga of functions that queue their statements.
type BatchSaga[In, Out any] struct {
	Try    BatchTryFunc[In, Out]
	Cancel BatchSettleFunc[In, Out]
}

// BatchPivot is a Pivot whose function queues its statements.
type BatchPivot[In, Out any] struct {
	Try BatchTryFunc[In, Out]
}

// BatchRetriable is a Retriable whose function queues its statements.
type BatchRetriable[In, Out any] struct {
	Try BatchTryFunc[In, Out]
}

func (h BatchTCC[In, Out]) compile() handler {
	return compileBatch(saga.KindTCC, h.Try, h.Confirm, h.Cancel, saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel)
}

func (h BatchSaga[In, Out]) compile() handler {
	return compileBatch(saga.KindSaga, h.Try, nil, h.Cancel, saga.PhaseTry, saga.PhaseCancel)
}

func (h BatchPivot[In, Out]) compile() handler {
	return compileBatch(saga.KindPivot, h.Try, nil, nil, saga.PhaseTry)
}

func (h BatchRetriable[In, Out]) compile() handler {
	return compileBatch(saga.KindRetriable, h.Try, nil, nil, saga.PhaseTry)
}

// compileBatch makes a handler that queues, and that can also run by itself in a transaction, as any other.
func compileBatch[In, Out any](kind saga.Kind, try BatchTryFunc[In, Out], confirm, cancel BatchSettleFunc[In, Out], phases ...saga.Phase) handler {
	h := compile(kind, sendTry(try), sendSettle(confirm), sendSettle(cancel), phases...)
	h.queue = func(b *pgx.Batch, op Operation, body wire.Body) (result func() (saga.Payload, error), err error) {
		if op.Phase == saga.PhaseTry {
			return queueTry(try, b, op, body)
		}
		f := confirm
		if op.Phase == saga.PhaseCancel {
			f = cancel
		}
		c, err := settleOf[In, Out](op, body)
		if err != nil {
			return nil, err
		}
		return func() (saga.Payload, error) { return saga.Payload{}, nil }, f(b, c)
	}
	return h
}

func queueTry[In, Out any](f BatchTryFunc[In, Out], b *pgx.Batch, op Operation, body wire.Body) (result func() (saga.Payload, error), err error) {
	c, err := callOf[In](op, body)
	if err != nil {
		return nil, err
	}
	out := new(Out)
	return func() (saga.Payload, error) { return encode(*out) }, f(b, c, out)
}

// sendTry makes a TryFunc of a function that queues.
func sendTry[In, Out any](f BatchTryFunc[In, Out]) TryFunc[In, Out] {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, tx pgx.Tx, c Call[In]) (out Out, err error) {
		err = send(ctx, tx, func(b *pgx.Batch) error { return f(b, c, &out) })
		return out, err
	}
}

// sendSettle makes a SettleFunc of a function that queues.
func sendSettle[In, Out any](f BatchSettleFunc[In, Out]) SettleFunc[In, Out] {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, tx pgx.Tx, c Settle[In, Out]) error {
		return send(ctx, tx, func(b *pgx.Batch) error { return f(b, c) })
	}
}

// send runs in tx what queue has queued.
func send(ctx context.Context, tx pgx.Tx, queue func(*pgx.Batch) error) error {
	var b pgx.Batch
	if err := queue(&b); err != nil {
		return err
	}
	if err := checkQueued(&b); err != nil || b.Len() == 0 {
		return err
	}
	guardCallbacks(&b)
	n := b.Len()
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if b.Len() != n {
		return Fault(errQueuedLate)
	}
	return nil
}

var errQueuedLate = errors.New("a callback queued a statement: the batch was sent before, and nobody runs it")

// checkQueued returns a fault if a queued statement would end the transaction that the participant began, or set a savepoint,
// which the handler's own transaction could not have beside the statements of others.
func checkQueued(b *pgx.Batch) error {
	for _, q := range b.QueuedQueries {
		if q == nil {
			return Fault(errors.New("the handler queued nil in place of a statement"))
		}
		switch first, _ := firstWords(q.SQL); first {
		case "SAVEPOINT", "RELEASE", "ROLLBACK":
			return Fault(fmt.Errorf("the handler queued %q: %w", q.SQL, ErrTxOwned))
		}
		if endsTransaction(q.SQL) {
			return Fault(fmt.Errorf("the handler queued %q: %w", q.SQL, ErrTxOwned))
		}
	}
	return nil
}

// endsTransaction reports whether a statement begins or ends a transaction. In the middle of a batch nothing else would
// notice: what stands behind it runs in a transaction of its own.
func endsTransaction(sql string) bool {
	first, rest := firstWords(sql)
	switch first {
	case "BEGIN", "START", "COMMIT", "END", "ABORT":
		return true
	case "PREPARE":
		second, _ := firstWords(rest)
		return second == "TRANSACTION"
	case "ROLLBACK":
		second, rest := firstWords(rest)
		if second == "WORK" || second == "TRANSACTION" {
			second, _ = firstWords(rest)
		}
		return second != "TO"
	}
	return false
}

// firstWords returns the first word of a statement in capitals, behind white space, comments and empty statements, and what
// follows it.
func firstWords(sql string) (word, rest string) {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			sql = behindComment(sql)
		default:
			n := strings.IndexFunc(sql, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
			if n < 0 {
				n = len(sql)
			}
			return strings.ToUpper(sql[:n]), sql[n:]
		}
	}
}

// behindComment returns what follows a comment, which may have comments inside.
func behindComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return sql[i+1:]
			}
		}
	}
	return ""
}

// guardCallbacks makes an error of a callback that panics: pgx would be left in the middle of the results.
func guardCallbacks(b *pgx.Batch) {
	for _, q := range b.QueuedQueries {
		if f := q.Fn; f != nil {
			q.Fn = func(results pgx.BatchResults) (err error) {
				defer func() {
					if value := recover(); value != nil {
						err = errors.Join(err, &panicked{value: value})
					}
				}()
				return f(results)
			}
		}
	}
}
