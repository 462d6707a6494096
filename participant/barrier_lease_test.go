package participant

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// A cancel whose lease has passed to another must not write: the other may have found that the effect happened, and
// nobody has undone it (B6).
func TestStaleLeaseOfACancel(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const id, sha = "01a22c72-f8d9-7000-8000-000000000001", `'\x01'::bytea || decode(repeat('00', 31), 'hex')`
	enter := func(phase, lease string) (verdict string, token int64) {
		t.Helper()
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT verdict, COALESCE(lease_token, 0) FROM saga.barrier_enter('acme', '`+id+`', 's', '`+phase+`', 'saga',
				'execute', `+sha+`, 1, p_lease => $1::text::interval)`, lease).Scan(&verdict, &token)
		})
		if err != nil {
			t.Fatal(err)
		}
		return verdict, token
	}
	leave := func(phase string, token int64) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT saga.barrier_leave('acme', '`+id+`', 's', '`+phase+`', `+sha+`, 1, 'done', NULL, NULL, NULL, NULL, $1)`, token)
			return err
		})
	}
	enter("try", "1 microsecond") // a process that ends here
	verdict, stale := enter("cancel", "1 microsecond")
	if verdict != "inquire" {
		t.Fatalf("the cancel may %s", verdict)
	}
	verdict, token := enter("try", "1 minute")
	if verdict != "inquire" || token == stale {
		t.Fatalf("the try may %s with token %d", verdict, token)
	}
	if err := leave("try", token); err != nil {
		t.Fatal(err)
	}
	if err := leave("cancel", stale); pg.Code(err) != "SG003" {
		t.Errorf("a cancel with an old lease: %v", err)
	}
	var state string
	if err := pool.QueryRow(ctx, `SELECT state FROM saga.barrier WHERE transaction_id = '`+id+`'`).Scan(&state); err != nil || state != "tried" {
		t.Errorf("the row is %s, %v", state, err)
	}
}
