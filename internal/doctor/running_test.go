package doctor_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/doctor"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// While transactions of all kinds are at work, committing and cancelling, nothing is reported that is only under way;
// and a violation among them is.
func TestWhileRunning(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, testdb.Template{Name: "migrated", Migrate: func(ctx context.Context, dsn string) error {
		p, err := pgxpool.New(ctx, dsn)
		if err != nil {
			return err
		}
		defer p.Close()
		return migrateAll(ctx, dsn, p)
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &world{t: t, ctx: ctx, pool: pool}
	stop, err := w.start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	move := func(account string, cents int64) bank.Move { return bank.Move{Account: account, Cents: cents} }
	def := saga.Define("mix").Saga("take", "bank", bank.ActionWithdraw, saga.After()).TCC("hold", "bank", bank.ActionDebit, saga.After()).
		Pivot("pay", "bank", bank.ActionCharge, saga.After("take", "hold")).Retriable("send", "bank", bank.ActionPayout, saga.After("pay")).MustBuild()

	enough := make(chan struct{})
	var submitters sync.WaitGroup
	for n := range 4 {
		submitters.Go(func() {
			for i := n; ; i++ {
				select {
				case <-enough:
					return
				default:
				}
				cents := int64(1)
				if i%2 == 0 {
					cents = 1_000_000 // nobody has that much: refused, and the rest is cancelled
				}
				id, err := w.submit(def, map[string]any{"take": move("alice", 1), "hold": move("bob", 1), "pay": move("alice", cents), "send": move("bob", 2)}, "", time.Time{})
				if err == nil {
					_, err = w.coordinator.Wait(ctx, caller, id)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	examined := 0
	for range 3 {
		r := examine(t, pool, func(o *doctor.Options) { o.PageMax, o.RecheckAfter = 20, 500*time.Millisecond })
		if r.Problems() > 0 || r.Unfinished() > 0 {
			t.Errorf("got %+v", r.Checks)
		}
		examined = r.Transactions
	}
	exec(t, pool, `UPDATE saga.barrier SET state = 'tried' WHERE (transaction_id, step) = (SELECT transaction_id, step FROM saga.barrier WHERE state = 'cancelled' ORDER BY transaction_id LIMIT 1)`)
	if r := examine(t, pool, func(o *doctor.Options) { o.RecheckAfter = 500 * time.Millisecond }); r.Problems() != 1 {
		t.Errorf("got %+v", r.Checks)
	}
	close(enough)
	submitters.Wait()
	if examined < 20 {
		t.Errorf("only %d transactions were looked at", examined)
	}
	t.Logf("%d transactions", examined)
}
