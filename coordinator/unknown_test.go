package coordinator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pgproxy"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// through returns the world as its coordinators see it whose database connections are cut where decide says.
func through(t *testing.T, decide func(pgproxy.Round) pgproxy.Cut) (direct, cut *world) {
	t.Helper()
	dsn := testdb.NewDSN(t, schema)
	direct = &world{t: t, pool: newPool(t, dsn), nc: testdb.NATS(t), prefix: testdb.Prefix(t), log: quietLog}
	direct.recordVersions()
	other := *direct
	other.pool = newPool(t, pgproxy.Start(t, dsn, decide))
	return direct, &other
}

// Connections break at any moment of any round trip, the commit's included. Nothing is lost, nothing happens
// twice, and whoever was told nothing finds the transaction by the request id (M1, C9, I-3, I-7, I-9).
func TestUnknownCommits(t *testing.T) {
	t.Parallel()
	const n = 300
	rnd := random(t)
	var cutting atomic.Bool
	var cuts [5]atomic.Int64
	w, flaky := through(t, func(pgproxy.Round) pgproxy.Cut {
		if !cutting.Load() || rnd.IntN(20) > 0 {
			return pgproxy.None
		}
		cut := pgproxy.Cut(1 + rnd.IntN(4))
		cuts[cut].Add(1)
		return cut
	})
	c1, _ := flaky.coordinator()
	c2, _ := flaky.coordinator()
	p, _ := w.participant("stock", func(c saga.Command) saga.Ran {
		if c.Step == "s3" && c.Phase == saga.PhaseTry && c.Transaction[15]%5 == 0 {
			return saga.Ran{Outcome: saga.OutcomeRefused, Code: "no_stock"}
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	})
	def := define(saga.KindTCC, 3, quick...)
	for _, c := range []*coordinator.Coordinator{c1, c2} {
		w.wait(c, w.submit(c, def, "")) // the definition is stored before the trouble begins
	}
	cutting.Store(true)
	var unknown atomic.Int64
	var all sync.WaitGroup
	places := make(chan struct{}, 64)
	for i := range n {
		places <- struct{}{}
		limit := 20 * time.Second
		if rand.IntN(4) == 0 {
			limit = time.Duration(rand.IntN(10)) * time.Millisecond // a client that gives up
		}
		all.Go(func() {
			defer func() { <-places }()
			for _, c := range []*coordinator.Coordinator{c1, c2}[:1+i%2] { // every second one asks the other one too
				_, err := c.Submit(w.ctx(limit), coordinator.SubmitParams{Caller: caller, RequestID: fmt.Sprintf("r-%d", i), Body: body(def)})
				if errors.Is(err, coordinator.ErrOutcomeUnknown) {
					unknown.Add(1)
				} else if err != nil {
					t.Errorf("submission %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	w.until("all have ended", func() bool {
		return w.count(`SELECT count(*) FROM transactions WHERE finished_at IS NOT NULL`) == n+2
	})
	cutting.Store(false)
	for i := range n { // also those whose submitter was told nothing
		v, err := c1.FindByRequest(w.ctx(10*time.Second), caller, fmt.Sprintf("r-%d", i))
		if err != nil {
			t.Errorf("request %d: %v (I-9)", i, err)
			continue
		}
		phase := saga.PhaseConfirm
		if v.Status == saga.StatusCancelled {
			phase = saga.PhaseCancel
		}
		for _, step := range steps {
			if once := p.ran(v.ID, step, saga.PhaseTry) == 1 && p.ran(v.ID, step, phase) == 1; !once && phase == saga.PhaseConfirm {
				t.Errorf("%s of committed %s: %d tries, %d confirms", step, v.ID, p.ran(v.ID, step, saga.PhaseTry), p.ran(v.ID, step, phase))
			}
			if p.ran(v.ID, step, saga.PhaseTry) != p.ran(v.ID, step, phase) {
				t.Errorf("%s of %s %s: %d tries, %d of %s", step, v.Status, v.ID, p.ran(v.ID, step, saga.PhaseTry), p.ran(v.ID, step, phase), phase)
			}
		}
	}
	w.expectSound(n + 2)
	t.Logf("cut before %d, after %d, in the middle %d, before the last message %d; %d submissions unknown",
		cuts[1].Load(), cuts[2].Load(), cuts[3].Load(), cuts[4].Load(), unknown.Load())
	for cut := pgproxy.Before; cut <= pgproxy.BeforeReady; cut++ {
		if cuts[cut].Load() == 0 {
			t.Errorf("cut %d never happened", cut)
		}
	}
}

// The commit of a replay happens and its answer is lost. The operator is told that it was carried out or that
// nobody knows, never that it was refused; the audit has what was done, once (D2, D6).
func TestUnknownReplay(t *testing.T) {
	t.Parallel()
	for _, cut := range []pgproxy.Cut{pgproxy.Before, pgproxy.After, pgproxy.Middle, pgproxy.BeforeReady} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool
			w, flaky := through(t, func(r pgproxy.Round) pgproxy.Cut {
				if r.Statements >= 6 && armed.CompareAndSwap(true, false) { // settings, update, operation, dead letter, audit, outbox
					return cut
				}
				return pgproxy.None
			})
			c, _ := flaky.coordinator(noTimers)
			id := w.submit(c, define(saga.KindSaga, 1), "")
			if err := c.Deliver(w.ctx(10*time.Second), fault(done(id, "s1", saga.PhaseTry), saga.FaultHandler)); err != nil {
				t.Fatal(err)
			}
			letters, err := c.Admin().DeadLetters(w.ctx(10*time.Second), dlq.Filter{})
			if err != nil || len(letters) != 1 {
				t.Fatalf("%d dead letters, %v", len(letters), err)
			}
			armed.Store(true)
			err = c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letters[0].ID, Reason: "fixed"})
			if armed.Load() {
				t.Fatal("the cut never happened")
			}
			if err != nil && !errors.Is(err, coordinator.ErrOutcomeUnknown) {
				t.Errorf("replay: %v", err)
			}
			if allowed, refused := w.count(`SELECT count(*) FROM audit WHERE allowed`), w.count(`SELECT count(*) FROM audit WHERE NOT allowed`); allowed != 1 || refused != 0 {
				t.Errorf("the audit has %d replays carried out and %d refused", allowed, refused)
			}
			if v := w.get(c, id); v.Steps[0].Operations[0].Attempt != 2 {
				t.Errorf("attempt %d, want 2", v.Steps[0].Operations[0].Attempt)
			}
		})
	}
}
