package participanttest_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/sabotage"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/participant/participanttest"
	"github.com/sagacity-tx/sagacity/saga"
)

// outsider is a participant of the SDK whose handlers write on a connection of their own instead of in the
// transaction that they are given.
type outsider struct {
	pool  *pgxpool.Pool
	lives atomic.Int32
	begun chan struct{} // a try of the third life has written
}

func (o *outsider) write(ctx context.Context, op participant.Operation, n int) error {
	_, err := o.pool.Exec(ctx, `INSERT INTO ledger (transaction_id, n) VALUES ($1, $2)`, [16]byte(op.Transaction), n)
	return err
}

func (o *outsider) try(ctx context.Context, _ pgx.Tx, c participant.Call[errand]) (int, error) {
	if err := o.write(ctx, c.Operation, 1); err != nil {
		return 0, err
	}
	if o.lives.Load() == 3 { // the one that is killed at work
		select {
		case o.begun <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	switch {
	case c.Input.Fail && c.Attempt == 1:
		return 0, errors.New("not now")
	case c.Input.Refuse != "":
		return 0, participant.Refuse(c.Input.Refuse, nil)
	}
	return c.Input.N, nil
}

func (o *outsider) cancel(ctx context.Context, _ pgx.Tx, c participant.Settle[errand, int]) error {
	return o.write(ctx, c.Operation, -1)
}

// A business change outside of the given transaction survives what rolls that back, and happens again when the
// command comes again.
func TestOutsideOfTheTransaction(t *testing.T) {
	t.Parallel()
	o := &outsider{pool: testdb.New(t, testdb.Template{}), begun: make(chan struct{}, 1)}
	if _, err := o.pool.Exec(t.Context(), `CREATE TABLE ledger (transaction_id uuid NOT NULL, n int NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	if err := participant.Migrate(t.Context(), o.pool); err != nil {
		t.Fatal(err)
	}
	prefix := testdb.Prefix(t)
	p := start(t, func(own *nats.Conn) *participant.Participant {
		o.lives.Add(1)
		one, err := participant.New(participant.Config{
			Name: "outsider", Pool: o.pool, NATS: own, Prefix: prefix, Concurrency: 4, DrainTimeout: 1, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Error(err)
		}
		participant.Handle(one, "take", participant.Saga[errand, int]{Try: o.try, Cancel: o.cancel})
		return one
	})
	c := participanttest.Config{
		NATS: testdb.NATS(t), Prefix: prefix, Participant: "outsider", Seed: 1,
		Restart: func(ctx context.Context) error {
			if o.lives.Load() == 3 {
				select {
				case <-o.begun:
				case <-time.After(20 * time.Second):
					return errors.New("no try has begun")
				}
			}
			return p.restart(ctx)
		},
		Actions: []participanttest.Action{{
			Name: "take", Kind: saga.KindSaga,
			Input:    func(n int) []byte { return input(errand{N: n}) },
			Refusing: func(n int) []byte { return input(errand{N: n, Refuse: "no"}) },
			Failing:  func(n int) []byte { return input(errand{N: n, Fail: true}) },
			Effects: func(ctx context.Context, c participanttest.Case) (e participanttest.Effect, err error) {
				err = o.pool.QueryRow(ctx, `SELECT coalesce(sum(n), 0) FROM ledger WHERE transaction_id = $1`, [16]byte(c.Transaction)).Scan(&e.Final)
				return e, err
			},
		}},
	}
	report, err := participanttest.Torture(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	last := &report.Checks[slices.IndexFunc(report.Checks, func(c participanttest.Check) bool { return c.Name == "killed-at-work" })]
	if last.Verdict != participanttest.Wrong || last.Came != `done, result `+last.Came[len("done, result "):len(last.Came)-len("; effect: final 2")]+"; effect: final 2" {
		t.Errorf("killed at work: %+v", last)
	}
	last.Verdict = participanttest.OK // which one of the ten was at work differs
	wantWrong(t, report, []string{"failure", "refusal", "cancel-after-refusal"}, "outside-of-the-transaction")
}

// A bank whose barrier lacks one safeguard, on a real database.
func TestSabotagedBank(t *testing.T) {
	t.Parallel()
	for safeguard, wants := range map[string][]string{
		sabotage.Tombstone:    {"late-try", "confirm-after-cancel"},
		sabotage.StoredReply:  {"repeated-try", "confirm", "cancel"},
		sabotage.ContentCheck: {"conflict", "confirm-conflict", "cancel-conflict"},
	} {
		t.Run(safeguard, func(t *testing.T) {
			t.Parallel()
			pool := bankDatabase(t, func(sql string) (string, error) { return sabotage.Barrier(sql, safeguard) })
			prefix := testdb.Prefix(t)
			start(t, func(own *nats.Conn) *participant.Participant { return newBank(t, pool, own, prefix) })
			report, err := participanttest.Torture(t.Context(), participanttest.Config{
				NATS: testdb.NATS(t), Prefix: prefix, Participant: "bank", Actions: []participanttest.Action{bankAction(pool, bank.ActionDebit)}, Seed: 1, Patience: 5 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			wrong := map[string]bool{}
			for _, c := range report.Checks {
				wrong[c.Name] = c.Verdict == participanttest.Wrong
			}
			for _, name := range wants {
				if !wrong[name] {
					t.Errorf("%s is not WRONG:\n%s", name, report)
				}
			}
			if wrong["try"] || wrong["unknown-action"] || wrong["wrong-hash"] {
				t.Errorf("what has nothing to do with it is WRONG:\n%s", report)
			}
		})
	}
}
