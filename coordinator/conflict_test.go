package coordinator_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// Three coordinators share one database, all of them with timers, caches that are often outdated, and lost
// replies. Nothing is merged twice, no wake is lost, and PostgreSQL never has to end a deadlock (C9).
func TestThreeCoordinators(t *testing.T) {
	t.Parallel()
	const n = 150
	log := logOf(t, testdb.Cluster(t))
	w := newWorld(t)
	w.recordVersions()
	var all []*coordinator.Coordinator
	for range 3 {
		c, _ := w.coordinator(func(cfg *coordinator.Config) { cfg.TimerInterval = 20 * time.Millisecond })
		all = append(all, c)
	}
	rnd := random(t)
	p, _ := w.participant("stock", nil)
	p.drop = func(saga.Command, saga.Reply) bool { return rnd.IntN(5) == 0 }
	def := define(saga.KindTCC, 3, append(quick, saga.Root())...) // in parallel: several replies of one transaction at once
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id := w.submit(all[i%3], def, "")
			if v := w.wait(all[(i+1)%3], id); v.Status != saga.StatusCommitted {
				t.Errorf("got %s, %+v", v.Status, v.Cause)
			}
			for _, step := range steps {
				p.expectEffects(id, step, 1, 1, saga.PhaseConfirm)
			}
		})
	}
	wg.Wait()
	w.expectSound(n)
	expectNoDeadlock(t, log())
}

// The same request ids come to several lanes and coordinators at once, in any order. Whoever is second gets the
// first one's answer, and nobody waits in a circle (I2, C9).
func TestSameRequestsInAnyOrder(t *testing.T) {
	t.Parallel()
	const keys, rounds = 40, 2
	log := logOf(t, testdb.Cluster(t))
	w := newWorld(t)
	_, err := w.pool.Exec(w.ctx(10*time.Second), `
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END';
		CREATE TRIGGER slow BEFORE INSERT ON requests FOR EACH ROW EXECUTE FUNCTION slow()`)
	if err != nil {
		t.Fatal(err) // so that the inserts of several batches overlap
	}
	var all []*coordinator.Coordinator
	for range 3 {
		c, _ := w.coordinator(noTimers)
		all = append(all, c)
	}
	def := define(saga.KindSaga, 1)
	for round := range rounds {
		var mu sync.Mutex
		answers := map[string]map[string]bool{}
		var wg sync.WaitGroup
		release := w.hold(`LOCK TABLE requests IN SHARE MODE`) // so that batches grow
		for i := range 3 * keys {
			wg.Go(func() {
				number := i % keys
				if i/keys == 1 { // the other way round
					number = keys - 1 - number
				}
				key := fmt.Sprintf("k-%d-%d", round, number)
				s, err := all[i/keys].Submit(w.ctx(30*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: key, Body: body(def)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if answers[key] == nil {
					answers[key] = map[string]bool{}
				}
				answers[key][string(s.Answer)] = true
			})
		}
		w.untilBlocked(6)
		release()
		wg.Wait()
		for key, different := range answers {
			if len(different) != 1 {
				t.Errorf("%s has %d answers", key, len(different))
			}
		}
	}
	if n := w.count(`SELECT count(*) FROM transactions`); n != keys*rounds {
		t.Errorf("%d transactions, want %d", n, keys*rounds)
	}
	expectNoDeadlock(t, log())
}

// A transaction whose coordinator is gone is picked up by another one in seconds, also when the one that is gone had just
// claimed its timer.
func TestOrphanedTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, stop := w.coordinator()
	id := w.submit(first, define(saga.KindSaga, 2, quick...), "")
	w.until("its attempts time out", func() bool { return w.count(`SELECT count(*) FROM attempts`) >= 1 })
	stop()
	if _, err := w.pool.Exec(w.ctx(5*time.Second), `UPDATE transactions SET wake_at = clock_timestamp() + interval '5 seconds'`); err != nil {
		t.Fatal(err) // what a claim does
	}
	second, _ := w.coordinator()
	began := time.Now()
	w.participant("stock", nil)
	if v := w.wait(second, id); v.Status != saga.StatusCommitted {
		t.Errorf("got %s, %+v", v.Status, v.Cause)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("picked up after %s", took)
	}
}

// A client's own id is unique over clients and submissions.
func TestOwnIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c1, _ := w.coordinator()
	c2, _ := w.coordinator()
	id := newID(t)
	own := bodyWith(define(saga.KindSaga, 1), map[string]any{"id": id})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s, err := []*coordinator.Coordinator{c1, c2}[i%2].Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, Body: own})
			if err != nil || s.ID != id {
				t.Errorf("the same submission again: %s, %v", s.ID, err)
			}
		})
	}
	wg.Wait()
	other := coordinator.Caller{Tenant: caller.Tenant, Client: "other"}
	for _, p := range []coordinator.SubmitParams{
		{Caller: other, Body: own},
		{Caller: caller, RequestID: "key", Body: own},
		{Caller: caller, Body: bodyWith(define(saga.KindSaga, 2), map[string]any{"id": id})},
	} {
		for _, c := range []*coordinator.Coordinator{c1, c2} {
			if _, err := c.Submit(w.ctx(20*time.Second), p); !errors.Is(err, coordinator.ErrIDTaken) {
				t.Errorf("%+v: %v", p.Caller, err)
			}
		}
	}
	if n := w.count(`SELECT count(*) FROM transactions`); n != 1 {
		t.Errorf("%d transactions", n)
	}
}
