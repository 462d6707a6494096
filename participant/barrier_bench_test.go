package participant

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// BenchmarkBarrier compares one business statement in a transaction of three round trips, as services write it
// today, with the same under the barrier, and with a repeated command.
func BenchmarkBarrier(b *testing.B) {
	pool := testdb.New(b, barrierTemplate)
	barrier := NewBarrier(pool, 0)
	const business = "UPDATE once SET id = id WHERE id = 1"
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(b.Context(), business)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	run := func(b *testing.B, cmd saga.Command) {
		e, err := barrier.Enter(b.Context(), cmd)
		if err != nil {
			b.Fatal(err)
		}
		if e.Verdict.Do == saga.DoReply {
			return
		}
		if _, err := e.Tx().Exec(b.Context(), business); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Conclude(b.Context(), barrierDone(cmd.Phase)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("barrier", func(b *testing.B) {
		for b.Loop() {
			run(b, barrierCommand(barrierID(), saga.PhaseTry))
		}
	})
	b.Run("repeated", func(b *testing.B) {
		cmd := barrierCommand(barrierID(), saga.PhaseTry)
		for b.Loop() {
			run(b, cmd)
		}
	})
}
