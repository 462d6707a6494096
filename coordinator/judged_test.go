package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// What a client is told about its cancel is what came of the cancel, not of what followed in the same batch: with a
// pivot's outcome open that is "running", also if the pivot's reply commits right behind it (S2.9).
func TestAnswerOfTheEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(oneLane, noTimers)
	def := saga.Define("order").Pivot("s1", "nobody", "pay").MustBuild()
	first, second := w.submit(c, def, ""), w.submit(c, def, "")
	view, err := c.Get(w.ctx(5*time.Second), caller, second)
	if err != nil {
		t.Fatal(err)
	}
	done := func(id saga.ID) saga.Reply {
		return saga.Reply{
			Verb: saga.VerbExecute, Tenant: caller.Tenant, Transaction: id, Step: "s1", Phase: saga.PhaseTry, Participant: "nobody",
			Attempt: 1, Revision: 1, ContentSHA256: view.Steps[0].Operations[0].ContentSHA256, Outcome: saga.OutcomeDone,
		}
	}
	release := w.hold(`SELECT FROM transactions WHERE id = '` + first.String() + `' FOR UPDATE`)
	go func() { _ = c.Deliver(context.Background(), done(first)) }()
	w.untilBlocked(1)
	type answer struct {
		view coordinator.View
		err  error
	}
	cancelled := make(chan answer, 1)
	go func() {
		v, err := c.Cancel(w.ctx(10*time.Second), caller, second, "changed my mind")
		cancelled <- answer{v, err}
	}()
	w.until("the cancel waits", func() bool { return c.Queued() == 1 })
	go func() { _ = c.Deliver(context.Background(), done(second)) }()
	w.until("the reply waits behind it", func() bool { return c.Queued() == 2 })
	release()
	a := <-cancelled
	if a.err != nil || a.view.Status != saga.StatusRunning {
		t.Errorf("the cancel was answered %s, %v", a.view.Status, a.err)
	}
	if v := w.wait(c, second); v.Status != saga.StatusCommitted {
		t.Errorf("got %s", v.Status)
	}
}

// A coordinator that is stopped before it could begin answers who asks, at once.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.unstarted()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := c.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, Body: body(define(saga.KindSaga, 1))})
	if !errors.Is(err, coordinator.ErrOverloaded) {
		t.Errorf("a submission: %v", err)
	}
}
