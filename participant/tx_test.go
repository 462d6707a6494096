package participant_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// handleTry adds a pivot with a try.
func handleTry(p *participant.Participant, action string, f func(ctx context.Context, tx pgx.Tx) (string, error)) {
	participant.Handle(p, action, participant.Pivot[participant.None, string]{
		Try: func(ctx context.Context, tx pgx.Tx, _ participant.Call[participant.None]) (string, error) {
			return f(ctx, tx)
		},
	})
}

const (
	sqlTake    = `UPDATE bank.accounts SET balance_cents = balance_cents - 1 WHERE id = 'alice'`
	sqlFails   = `UPDATE bank.accounts SET balance_cents = -1 WHERE id = 'alice'`
	sqlBalance = `SELECT balance_cents FROM bank.accounts WHERE id = 'alice'`
)

// What a handler does to its transaction never leaves a change without its record, or the reverse (M2).
func TestMisuseOfTheTransaction(t *testing.T) {
	t.Parallel()
	type tryOf = func(ctx context.Context, tx pgx.Tx) (string, error)
	take := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sqlTake)
		return err
	}
	tests := []struct {
		name    string
		try     tryOf
		outcome saga.Outcome
		code    string
		reason  string
		taken   bool
	}{
		{"Commit", func(ctx context.Context, tx pgx.Tx) (string, error) {
			return "", errors.Join(take(ctx, tx), tx.Commit(ctx))
		}, saga.OutcomeFault, saga.FaultHandler, "called Commit", false},
		{"Rollback", func(ctx context.Context, tx pgx.Tx) (string, error) {
			err := take(ctx, tx)
			if !errors.Is(tx.Rollback(ctx), participant.ErrTxOwned) {
				err = errors.New("not ErrTxOwned")
			}
			return "", err
		}, saga.OutcomeFault, saga.FaultHandler, "called Rollback", false},
		{"ROLLBACK as SQL", func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, "ROLLBACK")
			return "", errors.Join(err, take(ctx, tx))
		}, saga.OutcomeFault, saga.FaultHandler, "ended its transaction by SQL", false},
		{"a statement that failed, ignored", func(ctx context.Context, tx pgx.Tx) (string, error) {
			err := take(ctx, tx)
			_, _ = tx.Exec(ctx, sqlFails)
			return "", err
		}, saga.OutcomeRetry, saga.CodeError, "a statement failed", false},
		{"a statement that failed, refused", func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, sqlFails)
			return "", errors.Join(take(ctx, tx), participant.Refuse("negative", err))
		}, saga.OutcomeRefused, "negative", "violates check constraint", false},
		{"rows that are not closed", func(ctx context.Context, tx pgx.Tx) (string, error) {
			err := take(ctx, tx)
			rows, qerr := tx.Query(ctx, "SELECT generate_series(1, 1000)") //nolint:rowserrcheck // on purpose
			if !rows.Next() {
				return "", errors.New("no rows")
			}
			return "kept", errors.Join(err, qerr)
		}, saga.OutcomeDone, "", "", true},
		{"a savepoint", func(ctx context.Context, tx pgx.Tx) (string, error) {
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, sqlFails)
				return err
			})
			if err == nil {
				return "", errors.New("it did not fail")
			}
			return "kept", pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return take(ctx, tx) })
		}, saga.OutcomeDone, "", "", true},
		{"a batch and a row", func(ctx context.Context, tx pgx.Tx) (string, error) {
			var b pgx.Batch
			before, after := 0, 0
			b.Queue(sqlBalance).QueryRow(func(row pgx.Row) error { return row.Scan(&before) })
			b.Queue(sqlTake)
			if err := tx.SendBatch(ctx, &b).Close(); err != nil {
				return "", err
			}
			if err := tx.QueryRow(ctx, sqlBalance).Scan(&after); err != nil {
				return "", err
			}
			if err := tx.QueryRow(ctx, sqlBalance+" AND false").Scan(&after); !errors.Is(err, pgx.ErrNoRows) {
				return "", fmt.Errorf("want no rows, got %w", err)
			}
			return "kept", tx.QueryRow(ctx, "SELECT 1 / ($1::int - 1)", before-after+1).Scan(&after)
		}, saga.OutcomeDone, "", "", true},
		{"a lock that is not granted", func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE lock_not_available; END $$")
			return "", fmt.Errorf("wrapped: %w", err)
		}, saga.OutcomeRetry, saga.CodeBusy, "", false},
		{"Goexit", func(ctx context.Context, tx pgx.Tx) (string, error) {
			runtime.Goexit()
			return "", nil
		}, saga.OutcomeRetry, saga.CodePanic, "Goexit", false},
		{"retry after", func(ctx context.Context, tx pgx.Tx) (string, error) {
			return "", fmt.Errorf("wrapped: %w", participant.RetryAfter(1500*time.Millisecond, errors.New("later")))
		}, saga.OutcomeRetry, saga.CodeError, "later", false},
		{"a large result", func(ctx context.Context, tx pgx.Tx) (string, error) {
			return strings.Repeat("x", saga.ResultBytesMax), take(ctx, tx)
		}, saga.OutcomeFault, saga.FaultResultTooLarge, "", false},
	}
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.Concurrency = 1 }) // one connection: what one leaves behind hits the next
	for i, test := range tests {
		handleTry(p, fmt.Sprintf("a%d", i), test.try)
	}
	k.run(p)
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := k.balance()
			r := k.do(k.command(fmt.Sprintf("a%d", i), saga.KindPivot, saga.PhaseTry, nil))
			want(t, r, test.outcome, test.code)
			if !strings.Contains(r.Reason, test.reason) {
				t.Errorf("reason %q, want something with %q", r.Reason, test.reason)
			}
			if taken := before - k.balance(); taken != 0 != test.taken {
				t.Errorf("%d cents were taken", taken)
			}
			if test.name == "retry after" && r.RetryAfter != 1500*time.Millisecond {
				t.Errorf("retry after %s", r.RetryAfter)
			}
		})
	}
}

func (k *kit) balance() (cents int) {
	k.t.Helper()
	if err := k.pool.QueryRow(k.t.Context(), sqlBalance).Scan(&cents); err != nil {
		k.t.Fatal(err)
	}
	return cents
}

// A handler that commits by SQL has made a change without its record. Nothing can undo that, so the row says that
// it is in doubt, and the operation is a fault from then on: a person has to look.
func TestCommitBySQL(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	handleTry(p, "commit", func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, "COMMIT")
		return "", err
	})
	k.run(p)
	cmd := k.command("commit", saga.KindPivot, saga.PhaseTry, nil)
	want(t, k.do(cmd), saga.OutcomeFault, saga.FaultHandler)
	r := k.do(again(cmd))
	want(t, r, saga.OutcomeFault, saga.FaultHandler)
	if !strings.Contains(r.Reason, "without saga.barrier_leave") {
		t.Errorf("reason %q", r.Reason)
	}
}

// A goroutine that outlives its handler cannot touch the transaction of another operation on the connection.
func TestGoroutineThatOutlivesItsHandler(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.Concurrency = 1 })
	goOn, result := make(chan struct{}), make(chan error, 3)
	handleTry(p, "leak", func(ctx context.Context, tx pgx.Tx) (string, error) {
		rows, err := tx.Query(ctx, "SELECT generate_series(1, 10)") //nolint:rowserrcheck // on purpose
		go func() {
			<-goOn
			_, err := tx.Exec(context.Background(), sqlTake)
			result <- err
			rows.Next()
			result <- rows.Err()
			result <- tx.QueryRow(context.Background(), sqlBalance).Scan(new(int))
		}()
		return "left", err
	})
	inside, leave := make(chan struct{}), make(chan struct{})
	handleTry(p, "next", func(ctx context.Context, tx pgx.Tx) (string, error) {
		close(inside)
		<-leave
		_, err := tx.Exec(ctx, "SELECT 1")
		return "fine", err
	})
	k.run(p)
	want(t, k.do(k.command("leak", saga.KindPivot, saga.PhaseTry, nil)), saga.OutcomeDone, "")
	next := k.command("next", saga.KindPivot, saga.PhaseTry, nil)
	k.send(next)
	wait(t, "the next handler", inside)
	close(goOn)
	for range 3 {
		if err := wait(t, "the goroutine", result); !errors.Is(err, participant.ErrTxOver) {
			t.Errorf("the goroutine got %v", err)
		}
	}
	close(leave)
	want(t, k.reply(next), saga.OutcomeDone, "")
	if b := k.balance(); b != seedCents {
		t.Errorf("balance %d", b)
	}
}

// A handler that takes too long is answered with retry; one that does not even end then loses its connection, and
// with it its locks.
func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new(func(c *participant.Config) { c.HandlerTimeout = 200 * time.Millisecond })
	handleTry(p, "polite", func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, sqlTake+"; SELECT pg_sleep(60)")
		return "", err
	})
	release, ended := make(chan struct{}), make(chan error, 1)
	handleTry(p, "deaf", func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, sqlTake)
		<-release
		_, err2 := tx.Exec(context.Background(), sqlTake)
		ended <- err2
		return "", err
	})
	k.run(p)
	want(t, k.do(k.command("polite", saga.KindPivot, saga.PhaseTry, nil)), saga.OutcomeRetry, participant.CodeTimeout)
	want(t, k.do(k.command("deaf", saga.KindPivot, saga.PhaseTry, nil)), saga.OutcomeRetry, participant.CodeTimeout)
	if _, err := k.pool.Exec(t.Context(), sqlTake); err != nil { // its lock is gone
		t.Fatal(err)
	}
	close(release)
	if err := wait(t, "the deaf handler", ended); err == nil {
		t.Error("the handler that was given up could still write")
	}
	if b := k.balance(); b != seedCents-1 {
		t.Errorf("balance %d", b)
	}
}
