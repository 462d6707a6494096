package coordinator_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

// While the database is blocked queues fill to their limits and no further: submissions are refused, replies
// stay in NATS. When it answers again everything that was taken is finished (M5).
func TestBlockedDatabase(t *testing.T) {
	t.Parallel()
	const queueMax, batchMax, inFlight = 20, 10, 50 // in flight: more than both together
	w := newWorld(t)
	w.recordVersions()
	c, _ := w.coordinator(oneLane, noTimers, func(cfg *coordinator.Config) {
		cfg.QueueMax, cfg.BatchMax, cfg.RepliesInFlight = queueMax, batchMax, inFlight
	})
	def := define(saga.KindSaga, 1)
	var waiting []saga.ID
	for range 2 * inFlight {
		waiting = append(waiting, w.submit(c, def, ""))
	}
	release := w.hold(`LOCK TABLE transactions IN EXCLUSIVE MODE`)
	for _, id := range waiting {
		w.publishReply(done(id, "s1", saga.PhaseTry))
	}
	w.until("the queue is full", func() bool { return c.Queued() == queueMax })
	if unacked := w.stored(bus.Replies); unacked != len(waiting) {
		t.Errorf("NATS keeps %d of %d replies", unacked, len(waiting))
	}
	if _, err := c.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "too-much", Body: body(def)}); !errors.Is(err, coordinator.ErrOverloaded) {
		t.Errorf("submission to a full queue: %v", err)
	}
	if _, err := c.Cancel(w.ctx(5*time.Second), caller, waiting[0], ""); !errors.Is(err, coordinator.ErrOverloaded) {
		t.Errorf("cancel through a full queue: %v", err)
	}
	release()
	for _, id := range waiting {
		if v := w.wait(c, id); v.Status != saga.StatusCommitted || v.Version != 2 {
			t.Errorf("got %s at version %d", v.Status, v.Version)
		}
	}
	if _, err := c.FindByRequest(w.ctx(5*time.Second), caller, "too-much"); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("the refused submission: %v", err)
	}
	w.until("all are acknowledged", func() bool { return w.stored(bus.Replies) == 0 })
	w.expectSound(len(waiting))
}

// A coordinator that is asked to stop under load takes nothing new, finishes what it holds and returns in time.
// Another one goes on at once; nobody's effect is lost or doubled (I-3), and every submitter knows where they
// stand.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recordVersions()
	first, stop := w.coordinator()
	p, _ := w.participant("stock", nil)
	def := define(saga.KindTCC, 3, saga.AttemptTimeout(5*time.Minute)) // for a reply: what a stop leaves behind would show
	var stopping sync.WaitGroup
	var submitted, refused, unknown atomic.Int64
	halt := make(chan struct{})
	for client := range 16 {
		stopping.Go(func() {
			for i := 0; ; i++ {
				_, err := first.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: fmt.Sprintf("r-%d-%d", client, i), Body: body(def)})
				switch {
				case err == nil:
					submitted.Add(1)
				case errors.Is(err, coordinator.ErrOutcomeUnknown):
					unknown.Add(1)
				case errors.Is(err, coordinator.ErrOverloaded):
					refused.Add(1)
				default:
					t.Errorf("submission: %v", err)
				}
				select {
				case <-halt:
					return
				default:
				}
			}
		})
	}
	w.until("it is under load", func() bool { return submitted.Load() >= 300 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the stop took %s", took)
	}
	close(halt)
	stopping.Wait()
	second, _ := w.coordinator()
	began = time.Now()
	total := w.count(`SELECT count(*) FROM transactions`)
	w.until("all have ended", func() bool { return w.count(`SELECT count(*) FROM transactions WHERE finished_at IS NULL`) == 0 })
	if took := time.Since(began); took > time.Minute {
		t.Errorf("what the stop left behind took %s", took)
	}
	if s, u := int(submitted.Load()), int(unknown.Load()); total < s || total > s+u {
		t.Errorf("%d transactions of %d submitted and %d unknown", total, s, u)
	}
	list, err := second.List(w.ctx(10*time.Second), caller, coordinator.Filter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		for _, step := range steps {
			p.expectEffects(v.ID, step, 1, 1, saga.PhaseConfirm)
		}
	}
	w.expectSound(total)
	t.Logf("%d submitted, %d refused, %d unknown", submitted.Load(), refused.Load(), unknown.Load())
	if _, err := first.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, Body: body(def)}); !errors.Is(err, coordinator.ErrOverloaded) {
		t.Errorf("submission to a coordinator that has stopped: %v", err)
	}
}

// A stop while the database does not answer gives up after its timeout: what it held is not acknowledged, and
// the next coordinator does it.
func TestStopWhileBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, stop := w.coordinator(oneLane, noTimers, func(cfg *coordinator.Config) { cfg.StopTimeout = 2 * time.Second })
	id := w.submit(c, define(saga.KindSaga, 1), "")
	release := w.hold(`LOCK TABLE transactions IN EXCLUSIVE MODE`)
	w.publishReply(done(id, "s1", saga.PhaseTry))
	w.untilBlocked(1)
	answer := make(chan error, 1)
	go func() {
		_, err := c.Submit(w.ctx(time.Minute), coordinator.SubmitParams{Caller: caller, RequestID: "r", Body: body(define(saga.KindSaga, 1))})
		answer <- err
	}()
	w.until("the submission waits", func() bool { return c.Queued() == 1 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 20*time.Second { // the relay needs time too
		t.Errorf("the stop took %s", took)
	}
	if err := <-answer; !errors.Is(err, coordinator.ErrOutcomeUnknown) && !errors.Is(err, coordinator.ErrOverloaded) {
		t.Errorf("submission: %v", err)
	}
	release()
	if v := w.get(c, id); v.Status != saga.StatusRunning {
		t.Errorf("got %s", v.Status)
	}
}
