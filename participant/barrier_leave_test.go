package participant

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// TestLeaveNeedsItsState: B3, B6, I-6. Whatever a program says without having entered, or with a lease that is not its
// own, an operation is recorded only on a row that lets it run; any other row stays as it is.
func TestLeaveNeedsItsState(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	stale := int64(6) // the rows' own is 7
	for _, kind := range []saga.Kind{saga.KindTCC, saga.KindPivot} {
		for state, row := range barrierStates(kind) {
			for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
				for name, token := range map[string]*int64{"no lease": nil, "a stale lease": &stale} {
					cmd := barrierCommand(barrierID(), phase)
					if state != "none" {
						sql, args := barrierInsert(cmd.Transaction, row)
						if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
							t.Fatal(err)
						}
					}
					reply := saga.AnswerTo(cmd)
					reply.Outcome = saga.OutcomeDone
					_, err := pool.Exec(t.Context(), sqlLeaveLease, append(leaveArgs(reply), token)...)
					may := state == "tried" && (phase == saga.PhaseConfirm || phase == saga.PhaseCancel && kind != saga.KindPivot && token == nil)
					what := fmt.Sprintf("%s of a %s row, kind %s, with %s", phase, state, kind, name)
					if (err == nil) != may || !may && pg.Code(err) != stateNotEntered {
						t.Errorf("%s: %v", what, err)
					}
					if after := barrierRowOf(t, pool, cmd.Transaction); !may && barrierText(after) != barrierText(row) {
						t.Errorf("%s changes the row to %+v", what, after)
					}
				}
			}
		}
	}
}

// TestLeaseOfACancel: B6. Of two cancels only the one that holds the lease records its end: the other one's may be a
// void that downstream has not heard of.
func TestLeaseOfACancel(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	id := barrierID()
	enter := func(phase saga.Phase, lease time.Duration) (v verdictRow, token int64) {
		t.Helper()
		args := append(enterArgs(barrierCommand(id, phase), time.Second), lease.Milliseconds())
		if err := v.scanLease(pool.QueryRow(t.Context(), sqlEnterLease, args...), &token); err != nil {
			t.Fatal(err)
		}
		return v, token
	}
	leave := func(token int64) error {
		reply := saga.AnswerTo(barrierCommand(id, saga.PhaseCancel))
		reply.Outcome = saga.OutcomeDone
		_, err := pool.Exec(t.Context(), sqlLeaveLease, append(leaveArgs(reply), token)...)
		return err
	}
	enter(saga.PhaseTry, 0) // a process that ends here
	_, stale := enter(saga.PhaseCancel, 0)
	v, owner := enter(saga.PhaseCancel, time.Hour)
	if v.verdict(barrierCommand(id, saga.PhaseCancel)).Do != saga.DoInquire || owner <= stale {
		t.Fatalf("the second cancel got token %d after %d: %+v", owner, stale, v)
	}
	if err := leave(stale); pg.Code(err) != stateNotEntered {
		t.Errorf("a stale cancel: %v", err)
	}
	if err := leave(owner); err != nil {
		t.Error(err)
	}
	if row := barrierRowOf(t, pool, id); row.State != saga.BarrierCancelled {
		t.Errorf("%+v", row)
	}
}
