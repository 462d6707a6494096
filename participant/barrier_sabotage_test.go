package participant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/sabotage"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// safeguardChecks are short scripts, each of which needs one safeguard. They return what is wrong.
var safeguardChecks = map[string]func(*testing.T, *pgxpool.Pool) string{
	// M3, M4, I-6: cancel, then the try that hung.
	sabotage.Tombstone: func(t *testing.T, pool *pgxpool.Pool) string {
		b, id := NewBarrier(pool, 0), barrierID()
		cancelled := mustExecute(t, b, barrierCommand(id, saga.PhaseCancel), barrierDone(saga.PhaseCancel))
		late := mustExecute(t, b, barrierCommand(id, saga.PhaseTry), barrierDone(saga.PhaseTry))
		if n := barrierEffectsOf(t, pool, id, saga.PhaseTry); n != 0 || cancelled.Outcome != saga.OutcomeDone || late.Outcome != saga.OutcomeHanging {
			return fmt.Sprintf("cancel answers %s, the try after it %s with %d effects", cancelled.Outcome, late.Outcome, n)
		}
		return ""
	},
	// I-3, B3: every operation twice.
	sabotage.StoredReply: func(t *testing.T, pool *pgxpool.Pool) string {
		b, confirmed, cancelled := NewBarrier(pool, 0), barrierID(), barrierID()
		var wrong []string
		for _, cmd := range []saga.Command{
			barrierCommand(confirmed, saga.PhaseTry), barrierCommand(confirmed, saga.PhaseConfirm),
			barrierCommand(cancelled, saga.PhaseTry), barrierCommand(cancelled, saga.PhaseCancel),
		} {
			mustExecute(t, b, cmd, barrierDone(cmd.Phase))
			again := mustExecute(t, b, cmd, barrierDone(cmd.Phase))
			if n := barrierEffectsOf(t, pool, cmd.Transaction, cmd.Phase); n != 1 || !again.Replayed {
				wrong = append(wrong, fmt.Sprintf("%s has %d effects, replayed %t", cmd.Phase, n, again.Replayed))
			}
		}
		return strings.Join(wrong, "; ")
	},
	// B1: the same operation with other content.
	sabotage.ContentCheck: func(t *testing.T, pool *pgxpool.Pool) string {
		b, cmd := NewBarrier(pool, 0), barrierCommand(barrierID(), saga.PhaseTry)
		mustExecute(t, b, cmd, barrierDone(saga.PhaseTry))
		cmd.ContentSHA256[0] = 2
		if reply := mustExecute(t, b, cmd, barrierDone(saga.PhaseTry)); reply.Code != saga.FaultConflict {
			return fmt.Sprintf("other content is answered %s %s", reply.Outcome, reply.Code)
		}
		return ""
	},
}

// TestBarrierSafeguards: with all safeguards every check passes; without one, its check and no other fails. So
// each check can fail, and each safeguard is needed.
func TestBarrierSafeguards(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(safeguardChecks))
	for _, off := range append([]string{""}, names...) {
		t.Run("without "+off, func(t *testing.T) {
			t.Parallel()
			schema := barrierTemplate
			if off != "" {
				schema = barrierSabotaged(off)
			}
			pool := testdb.New(t, schema)
			for _, name := range names {
				wrong := safeguardChecks[name](t, pool)
				if (wrong != "") != (name == off) {
					t.Errorf("check %s: %q", name, wrong)
				}
			}
		})
	}
}

// TestBarrierStressDetects: the invariants of the stress test are violated without the stored reply, and without
// the tombstone, so that they can be.
func TestBarrierStressDetects(t *testing.T) {
	t.Parallel()
	for _, off := range []string{sabotage.StoredReply, sabotage.Tombstone} {
		t.Run("without "+off, func(t *testing.T) {
			t.Parallel()
			violations := stress(t, testdb.New(t, barrierSabotaged(off)), 4)
			if len(violations) == 0 {
				t.Error("no violation was found")
			}
			t.Log(len(violations), "violations")
		})
	}
}

// TestSabotageNeedsMarkers: a schema that has lost a marker, or holds it twice, is an error and no silent pass.
func TestSabotageNeedsMarkers(t *testing.T) {
	sql := SchemaSQL()
	for name := range safeguardChecks {
		off, err := sabotage.Barrier(sql, name)
		if err != nil || off == sql {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := sabotage.Barrier(off, name); err == nil {
			t.Errorf("%s was found although it is switched off", name)
		}
		if _, err := sabotage.Barrier(sql+sql, name); err == nil {
			t.Errorf("%s was found twice without an error", name)
		}
	}
	if _, err := sabotage.Barrier(sql, "luck"); err == nil {
		t.Error("an unknown safeguard is no error")
	}
}
