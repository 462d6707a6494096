package dlq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// D5: a job takes as many items as its rate and its canary allow, whatever plan PostgreSQL chooses.
func TestClaimJobItemsWithAnyPlan(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	const items = 60
	for i, off := range [][]string{
		{}, {}, {"hashjoin", "mergejoin"}, {"hashjoin", "mergejoin", "material"}, {"hashjoin", "mergejoin", "hashagg", "sort"}, {"nestloop", "mergejoin"}, {"nestloop", "hashjoin"},
	} {
		if i == 1 {
			if _, err := pool.Exec(t.Context(), "ANALYZE job_items"); err != nil {
				t.Fatal(err)
			}
		}
		id := newID(t)
		if _, err := pool.Exec(t.Context(), `INSERT INTO job_items (job_id, seq, dead_letter_id, letter_version)
			SELECT $1, n, gen_random_uuid(), 1 FROM generate_series(1, $2::integer) AS n`, id, items); err != nil {
			t.Fatal(err)
		}
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for _, join := range off {
				if _, err := tx.Exec(t.Context(), "SET LOCAL enable_"+join+" = off"); err != nil {
					return err
				}
			}
			for n := range 3 {
				taken, err := dlq.ClaimJobItemsTx(t.Context(), tx, id, 3, time.Minute)
				if err != nil {
					return err
				}
				if len(taken) != 3 {
					return fmt.Errorf("the %d. time %d items were taken, want 3", n+1, len(taken))
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("without %v: %v", off, err)
		}
	}
}
