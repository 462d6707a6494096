package bank_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/sabotage"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var empty = testdb.Template{}

// Anyone may migrate and seed again, at the same time as others.
func TestMigrateAndSeed(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), testdb.New(t, empty)
	ended := make(chan error, 4)
	for range cap(ended) {
		go func() {
			ended <- errors.Join(bank.Migrate(ctx, pool), bank.Seed(ctx, pool, 500, "alice", "bob"))
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if _, err := pool.Exec(ctx, "UPDATE bank.accounts SET balance_cents = 400, held_cents = 70, incoming_cents = 5 WHERE id = 'bob'"); err != nil {
		t.Fatal(err)
	}
	if err := bank.Seed(ctx, pool, 500, "bob"); err != nil {
		t.Fatal(err)
	}
	total, err := bank.Total(ctx, pool)
	held, err2 := bank.HeldTotal(ctx, pool)
	balance, err3 := bank.Balance(ctx, pool, "bob")
	if err := errors.Join(err, err2, err3); err != nil || total != 970 || held != 75 || balance != 400 {
		t.Errorf("total %d, held %d, balance %d, %v", total, held, balance, err)
	}
	if _, err := pool.Exec(ctx, "UPDATE bank.accounts SET balance_cents = -1"); err == nil {
		t.Error("a balance can be negative")
	}
}

// The bank shows what a safeguard is good for: without the stored reply a repeated try takes the money again.
func TestRepeatedShowsWhatTheBarrierPrevents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		alter []func(string) (string, error)
		runs  int
	}{
		{"with the barrier", nil, 1},
		{"without stored replies", []func(string) (string, error){
			func(sql string) (string, error) { return sabotage.Barrier(sql, sabotage.StoredReply) },
		}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, pool := t.Context(), testdb.New(t, empty)
			for range 2 { // the second time changes nothing
				if err := errors.Join(bank.Migrate(ctx, pool, test.alter...), bank.Seed(ctx, pool, 500, "alice")); err != nil {
					t.Fatal(err)
				}
			}
			cmd := saga.Command{
				Verb: saga.VerbExecute, Tenant: "acme", Transaction: saga.ID{6: 0x70, 8: 0x80, 15: 1}, Step: "s",
				Phase: saga.PhaseTry, Kind: saga.KindSaga, Action: bank.ActionWithdraw, Attempt: 1, Revision: 1, ContentSHA256: [32]byte{1},
			}
			for range 2 {
				withdraw(ctx, t, pool, cmd)
			}
			runs, err := bank.Runs(ctx, pool, cmd.Key())
			repeated, err2 := bank.Repeated(ctx, pool)
			if err := errors.Join(err, err2); err != nil || runs != test.runs || len(repeated) != test.runs-1 {
				t.Errorf("it ran %d times, want %d; %q; %v", runs, test.runs, repeated, err)
			}
			if len(repeated) > 0 && !strings.HasSuffix(repeated[0], "/s/try ran 2 times") {
				t.Error(repeated[0])
			}
		})
	}
}

// withdraw does what a participant does with a command, as far as the barrier goes.
func withdraw(ctx context.Context, t *testing.T, pool *pgxpool.Pool, cmd saga.Command) {
	t.Helper()
	entry, err := participant.NewBarrier(pool, 0).Enter(ctx, cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Abandon(ctx)
	if entry.Verdict.Do != saga.DoRun {
		return
	}
	if err := effect(ctx, entry.Tx(), cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Conclude(ctx, saga.Ran{Outcome: saga.OutcomeDone}); err != nil {
		t.Fatal(err)
	}
}

func effect(ctx context.Context, tx pgx.Tx, cmd saga.Command) error {
	_, err := tx.Exec(ctx, `INSERT INTO bank.effects (tenant, transaction_id, step, phase, action, account, cents)
		VALUES ($1, $2, $3, $4, $5, 'alice', 1)`, cmd.Tenant, [16]byte(cmd.Transaction), cmd.Step, string(cmd.Phase), cmd.Action)
	return err
}
