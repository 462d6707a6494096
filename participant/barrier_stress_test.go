package participant

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// barrierInvariants are queries that return a line for each violation. They compare what handlers did with
// what is recorded, for steps whose rows began absent.
var barrierInvariants = map[string]string{
	"I-1, confirmed and cancelled": `SELECT c.transaction_id::text FROM effects c JOIN effects x USING (transaction_id)
		WHERE c.phase = 'confirm' AND x.phase = 'cancel'`,
	"I-3, more than one effect": `SELECT transaction_id || ' ' || phase || ' ' || count(*) FROM effects GROUP BY transaction_id, phase HAVING count(*) > 1`,
	"I-4, confirm without a try": `SELECT c.transaction_id::text FROM effects c WHERE c.phase = 'confirm'
		AND NOT EXISTS (SELECT FROM effects t WHERE t.transaction_id = c.transaction_id AND t.phase = 'try' AND t.id < c.id)`,
	"I-6, try after cancel": `SELECT t.transaction_id::text FROM effects c JOIN effects t USING (transaction_id)
		WHERE c.phase = 'cancel' AND t.phase = 'try' AND t.id > c.id`,
	"I-6, try of a refused or null-cancelled step": `SELECT b.transaction_id::text FROM saga.barrier b JOIN effects e USING (transaction_id)
		WHERE b.state IN ('refused', 'null_cancelled')`,
	"M4, user code called by a null compensation": `SELECT c.transaction_id::text FROM effects c WHERE c.phase = 'cancel'
		AND NOT EXISTS (SELECT FROM effects t WHERE t.transaction_id = c.transaction_id AND t.phase = 'try' AND t.id < c.id)`,
	"M2, record without effect or effect without record": `SELECT coalesce(b.transaction_id, e.transaction_id) || ' ' || coalesce(b.state, 'no row') || ' ' || coalesce(e.phases, 'no effects')
		FROM saga.barrier b FULL JOIN (SELECT transaction_id, string_agg(DISTINCT phase, ' ' ORDER BY phase) phases FROM effects GROUP BY transaction_id) e USING (transaction_id)
		WHERE (CASE b.state WHEN 'tried' THEN 'try' WHEN 'confirmed' THEN 'confirm try' WHEN 'cancelled' THEN 'cancel try' ELSE '' END) <> coalesce(e.phases, '')`,
	"B2, a try that was entered and never left": `SELECT transaction_id::text FROM saga.barrier WHERE state = 'entered'`,
}

// checkInvariants returns the violations.
func checkInvariants(ctx context.Context, pool *pgxpool.Pool) (violations []string, err error) {
	for name, query := range barrierInvariants {
		rows, err := pool.Query(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return nil, err
			}
			violations = append(violations, name+": "+line)
		}
		if rows.Err() != nil {
			return nil, rows.Err()
		}
	}
	return violations, nil
}

// replies checks what was answered. B3, I-5: the definitive replies of an operation are all the same. I-6: a try
// that is sent after its cancel was answered with done is not answered with done.
type replies struct {
	mu         sync.Mutex
	given      map[saga.OperationKey]string
	violations []string
}

func (r *replies) add(reply saga.Reply, cancelled bool) {
	if reply.Outcome != saga.OutcomeDone && reply.Outcome != saga.OutcomeRefused {
		return
	}
	text := fmt.Sprintf("%s %q %q %q %q", reply.Outcome, reply.Code, reply.Reason, reply.Result.Type, reply.Result.Data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.given[reply.Key()]; ok && before != text {
		r.violations = append(r.violations, fmt.Sprintf("I-5: %s answers %s, then %s", reply.Key(), before, text))
	}
	if cancelled && reply.Phase == saga.PhaseTry && reply.Outcome == saga.OutcomeDone {
		r.violations = append(r.violations, fmt.Sprintf("I-6: %s answers done after its cancel", reply.Key()))
	}
	r.given[reply.Key()] = text
}

// cancelled reports whether the cancel of the command's step was answered with done.
func (r *replies) cancelled(cmd saga.Command) bool {
	key := cmd.Key()
	key.Phase = saga.PhaseCancel
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given[key] != ""
}

var errStressAbort = errors.New("the test aborts")

// stressOne executes a random operation on one of the ids.
func stressOne(ctx context.Context, b *Barrier, rnd *rand.Rand, ids []saga.ID, all *replies) error {
	phases := []saga.Phase{saga.PhaseTry, saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel}
	cmd := barrierCommand(ids[rnd.IntN(len(ids))], phases[rnd.IntN(len(phases))])
	if rnd.IntN(12) == 0 {
		cmd.ContentSHA256[0] = 2
	}
	if rnd.IntN(6) == 0 {
		cmd.Verb = saga.VerbInquire
	}
	cancelled := all.cancelled(cmd)
	e, err := b.Enter(ctx, cmd)
	if err != nil {
		return err
	}
	defer e.Abandon(ctx)
	if e.Verdict.Do == saga.DoReply {
		all.add(e.Verdict.Reply, cancelled)
		return nil
	}
	if err := barrierEffect(ctx, e.Tx(), cmd); err != nil {
		return err
	}
	ran := barrierDone(cmd.Phase)
	switch rnd.IntN(6) {
	case 0, 1:
		return errStressAbort
	case 2:
		ran = saga.Ran{Outcome: saga.OutcomeRefused, Code: "no"}
	}
	reply, err := e.Conclude(ctx, ran)
	if err != nil {
		return err
	}
	all.add(reply, cancelled)
	return nil
}

// stress runs random operations on few keys at once and returns the violations.
func stress(t *testing.T, pool *pgxpool.Pool, rounds int) []string {
	t.Helper()
	const sessions, keys, operations = 16, 4, 12
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	b := NewBarrier(pool, 10*time.Second)
	all := &replies{given: map[saga.OperationKey]string{}}
	for round := range rounds {
		ids := make([]saga.ID, keys)
		for i := range ids {
			ids[i] = barrierID()
		}
		var wg sync.WaitGroup
		for session := range sessions {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(seed), uint64(round*sessions+session)))
				for range operations {
					if err := stressOne(t.Context(), b, rnd, ids, all); err != nil && !errors.Is(err, errStressAbort) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	violations, err := checkInvariants(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return append(violations, all.violations...)
}

// TestBarrierStress: 16 sessions × random operations on few keys × random aborts. I-1, I-3, I-4, I-5, I-6, M2,
// M4, and no deadlock (B2).
func TestBarrierStress(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	for _, v := range stress(t, pool, 25) {
		t.Error(v)
	}
	var deadlocks, effects int
	if err := pool.QueryRow(t.Context(), "SELECT (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()), (SELECT count(*) FROM effects)").Scan(&deadlocks, &effects); err != nil {
		t.Fatal(err)
	}
	if deadlocks != 0 {
		t.Errorf("%d deadlocks", deadlocks)
	}
	if effects == 0 {
		t.Error("nothing was executed")
	}
}
