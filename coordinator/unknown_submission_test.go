package coordinator_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/pgproxy"
	"github.com/sagacity-tx/sagacity/saga"
)

// The commit of a submission without a request id happens or not, and its answer is lost. No key could tell that it is
// stored, so the transaction is looked up before it is tried again: it begins once, and its submitter is told so (C9).
func TestUnknownSubmission(t *testing.T) {
	t.Parallel()
	for _, cut := range []pgproxy.Cut{pgproxy.Before, pgproxy.After, pgproxy.Middle, pgproxy.BeforeReady} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool
			w, flaky := through(t, func(r pgproxy.Round) pgproxy.Cut {
				if r.Statements >= 5 && armed.CompareAndSwap(true, false) { // settings, transaction, submission, operation, outbox
					return cut
				}
				return pgproxy.None
			})
			c, _ := flaky.coordinator(noTimers)
			def := define(saga.KindSaga, 1)
			w.submit(c, def, "") // stores the definition
			armed.Store(true)
			s, err := c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, Body: body(def)})
			if armed.Load() {
				t.Fatal("the cut never happened")
			}
			if err != nil || s.Replayed {
				t.Errorf("got replayed %t, %v, want a new transaction", s.Replayed, err)
			}
			if n := w.count(`SELECT count(*) FROM transactions`); n != 2 {
				t.Errorf("%d transactions, want 2", n)
			}
			if err == nil && w.get(c, s.ID).ID != s.ID {
				t.Errorf("transaction %s is not found", s.ID)
			}
		})
	}
}
