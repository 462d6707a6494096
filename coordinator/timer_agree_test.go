package coordinator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/saga"
)

// stored is how an instant at which something is due stands in the table: infinity if only a person can go on.
func stored(at time.Time) pgtype.Timestamptz {
	if at.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: at, Valid: true}
}

// timers is one database transaction, of which nothing stays.
type timers struct {
	*world
	tx pgx.Tx
}

func newTimers(t *testing.T) *timers {
	t.Helper()
	w := newWorld(t)
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return &timers{world: w, tx: tx}
}

func (x *timers) exec(sql string, args ...any) {
	x.t.Helper()
	if _, err := x.tx.Exec(x.ctx(10*time.Second), sql, args...); err != nil {
		x.t.Fatal(err)
	}
}

func (x *timers) insert(wakeAt pgtype.Timestamptz) uuid.UUID {
	x.t.Helper()
	id := uuid.Must(uuid.NewV7())
	x.exec(`INSERT INTO transactions (id, version, status, tenant, client, definition, definition_name, created_at, wake_at)
		VALUES ($1, 1, 'running', 't', 'c', '', 'd', now(), $2)`, id, wakeAt)
	return id
}

func (x *timers) expect(id uuid.UUID, want pgtype.Timestamptz, tolerance time.Duration, what string) {
	x.t.Helper()
	var got pgtype.Timestamptz
	if err := x.tx.QueryRow(x.ctx(10*time.Second), `SELECT wake_at FROM transactions WHERE id = $1`, id).Scan(&got); err != nil {
		x.t.Fatal(err)
	}
	if got.Valid != want.Valid || got.InfinityModifier != want.InfinityModifier || got.Time.Sub(want.Time).Abs() > tolerance {
		x.t.Errorf("%s: the timer is at %v, want %v", what, got, want)
	}
}

// The statement that writes transactions moves their timers as saga.MoveTimer says.
func TestTimersMoveAsDecided(t *testing.T) {
	t.Parallel()
	x, update := newTimers(t), coordinatorStatements(t)["sqlUpdate"]
	now := time.Now().UTC().Truncate(time.Second)
	instants := []time.Time{{}, now.Add(-time.Hour), now.Add(time.Hour), now.Add(2 * time.Hour)}
	for _, before := range instants {
		for _, wake := range instants {
			for _, woken := range []bool{false, true} {
				for _, ended := range []bool{false, true} {
					id, finished := x.insert(stored(before)), pgtype.Timestamptz{}
					want := stored(saga.MoveTimer(before, wake, woken, ended))
					if ended {
						want, finished = pgtype.Timestamptz{}, stored(now)
					}
					none := []string{""}
					x.exec(update, []uuid.UUID{id}, []int64{1}, []string{"running"}, []bool{false}, none, none, none, none,
						[]pgtype.Timestamptz{{}}, []pgtype.Timestamptz{finished}, []pgtype.Timestamptz{stored(wake)}, []bool{woken})
					x.expect(id, want, 0, fmt.Sprintf("from %s with %s, woken %t, ended %t", before, wake, woken, ended))
				}
			}
		}
	}
}

// The statement that claims timers takes what saga.TimerDue says, until what saga.ClaimTimer says.
func TestTimersAreClaimedAsDecided(t *testing.T) {
	t.Parallel()
	x, claim := newTimers(t), coordinatorStatements(t)["sqlClaimTimers"]
	now := time.Now().UTC()
	due := map[uuid.UUID]time.Time{}
	for _, at := range []time.Time{{}, now.Add(-time.Hour), now.Add(-time.Second), now.Add(time.Hour)} {
		due[x.insert(stored(at))] = at
	}
	x.exec(claim, 10, saga.TimerLease)
	for id, at := range due {
		want := at
		if saga.TimerDue(at, now) {
			want = saga.ClaimTimer(time.Now())
		}
		x.expect(id, stored(want), saga.TimerLease-time.Millisecond, fmt.Sprintf("due at %s", at))
	}
}
