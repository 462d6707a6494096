package dlq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// An approval is used once, in the write that carries the replay out: one that was used or revoked, or has expired by the
// database's clock, makes the whole batch fail (D4).
func TestApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	if err := queue(t, pool, buried(saga.ID(newID(t)), 1, "no answer")); err != nil {
		t.Fatal(err)
	}
	letter := list(t, pool, dlq.Filter{})[0]
	approve := func(expiry time.Duration) dlq.Approval {
		t.Helper()
		a, err := dlq.NewApproval(&letter, nasty, nasty)
		if err != nil {
			t.Fatal(err)
		}
		if a, err = dlq.InsertApproval(t.Context(), pool, a, expiry); err != nil {
			t.Fatal(err)
		}
		return a
	}
	use := func(id uuid.UUID) error {
		var batch pgx.Batch
		if err := dlq.Queue(&batch, buried(saga.ID(newID(t)), 1, "stored with it or not at all")); err != nil {
			t.Fatal(err)
		}
		dlq.QueueUse(&batch, id, nasty)
		return pool.SendBatch(t.Context(), &batch).Close()
	}
	once, revoked, short := approve(time.Hour), approve(time.Hour), approve(time.Hour)
	if once.Approver != dlq.ActorText(nasty) || once.DeadLetter != letter.ID || once.LetterVersion != 1 || once.Tenant != "acme" ||
		once.ExpiresAt.Sub(once.CreatedAt).Round(time.Second) != time.Hour {
		t.Errorf("stored %+v", once)
	}
	if _, err := revoke(t.Context(), pool, revoked.ID); err != nil {
		t.Fatal(err)
	}
	if err := use(once.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE approvals SET expires_at = clock_timestamp() WHERE id = $1`, short.ID); err != nil {
		t.Fatal(err)
	}
	for what, id := range map[string]uuid.UUID{"used": once.ID, "revoked": revoked.ID, "expired": short.ID, "none": newID(t)} {
		if err := use(id); pg.Code(err) != dlq.CodeMoved {
			t.Errorf("use of an approval that is %s: %v", what, err)
		}
	}
	if n := len(list(t, pool, dlq.Filter{})); n != 2 {
		t.Errorf("%d dead letters: the batch of a refused use was stored in part", n)
	}
	for id, code := range map[uuid.UUID]string{once.ID: saga.CodeApprovalUsed, revoked.ID: saga.CodeApprovalRevoked, short.ID: saga.CodeApprovalExpired} {
		_, err := revoke(t.Context(), pool, id)
		if state, ok := errors.AsType[*saga.StateError](err); !ok || state.Code != code {
			t.Errorf("revoke: %v, want %s", err, code)
		}
	}
	if _, err := revoke(t.Context(), pool, newID(t)); !errors.Is(err, dlq.ErrNoApproval) {
		t.Errorf("revoke of none: %v", err)
	}
}

func revoke(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID) (a dlq.Approval, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		a, err = dlq.RevokeApproval(ctx, tx, dlq.RevokeParams{ID: id, Actor: "eve"})
		return err
	})
	return a, err
}
