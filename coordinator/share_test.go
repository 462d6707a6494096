package coordinator_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// All commands come from one coordinator, and the replies go to either: what is in flight is counted all the same, also
// when one of them has never sent to that participant, and when it goes (R3, I-11).
func TestLimitOfTwoCoordinators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	few := func(c *coordinator.Config) { c.Flow = flow.Policy{InFlightMax: 20, RetryFloor: 1000} }
	sends, _ := w.coordinator(few)
	_, stopOther := w.coordinator(few)
	w.participant("stock", nil)
	w.until("they have met", func() bool { return w.count(`SELECT count(*) FROM coordinators`) == 2 })
	def := define(saga.KindSaga, 1)
	for range 60 {
		w.wait(sends, w.submit(sends, def, ""))
	}
	stopOther()
	for range 20 {
		w.wait(sends, w.submit(sends, def, ""))
	}
}
