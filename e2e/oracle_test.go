package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// The checks of the crash tests notice a bank that runs repeated operations again: without that, their silence
// would mean nothing (I-3, I-12).
func TestInspectionNoticesSabotage(t *testing.T) {
	const clients = 100
	w := newWorld(t, "--sabotage", "stored-reply")
	orders := slices.DeleteFunc(newOrders(random(t), plenty(clients), 0, 0), func(o *order) bool {
		// A hold that is confirmed twice is not there any more: such a transaction would wait for a person.
		return slices.ContainsFunc(o.def.Steps, func(s saga.StepDefinition) bool { return s.Kind == saga.KindTCC })
	})
	l := startLoad(t, w.client, orders, clients)
	l.reach(t, 10, endLimit)
	w.atLeast(t, l, clients/2)
	w.coordinators[0].kill()
	l.endAfter(0)
	for last := -1; last != w.effects(t); pause(t.Context(), 500*time.Millisecond) {
		last = w.effects(t) // until the banks have nothing to do
	}
	w.wipeNATS(t) // their replies are lost: every command comes again
	w.startCoordinator(t, 0)
	l.wait(t, w, endLimit)
	all := strings.Join(w.findings(t, l, 100), "\n")
	for _, rule := range []string{"(I-3)", "(I-12)"} {
		if !strings.Contains(all, rule) {
			t.Errorf("no effect happened twice, or nobody noticed: want a finding that cites %s; there are:\n%s", rule, all)
		}
	}
}

// effects counts the runs of all handlers.
func (w *world) effects(t *testing.T) (total int) {
	t.Helper()
	for _, pool := range w.banks {
		var n int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM bank.effects`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}
