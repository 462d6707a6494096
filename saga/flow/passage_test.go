package flow_test

import (
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// What a write has asked for and does not store is as if it had not asked: places in flight, and slots of every kind.
func TestPassageIsAbandoned(t *testing.T) {
	g := flow.NewGate(func(string) flow.Policy { return flow.Policy{InFlightMax: 1} })
	g.Pause([]flow.Pause{{Scope: flow.ScopeParticipant, Participant: "paused"}})
	ask := func(p *flow.Passage, participant string) (saga.Wait, time.Time) {
		return p.Ask(saga.SendRequest{Command: &saga.Command{Participant: participant, Timeout: time.Second}}, at(0))
	}
	var slots []time.Time
	for range 3 {
		part, whole := g.Passage(), g.Passage()
		if wait, _ := ask(&part, "x"); wait != saga.WaitNone {
			t.Fatalf("the first waits for %s", wait)
		}
		for participant, want := range map[string]saga.Wait{"x": saga.WaitLimit, "paused": saga.WaitPause} {
			wait, until := ask(&part, participant)
			if wait != want {
				t.Fatalf("another one to %s waits for %q", participant, wait)
			}
			if participant == "x" {
				slots = append(slots, until)
			}
		}
		whole.Take(&part)
		whole.Abandon()
		whole.Abandon() // gives nothing back twice
	}
	if n := g.Flow("x").InFlight(at(0)); n != 0 {
		t.Errorf("%d are in flight", n)
	}
	if !slots[2].Equal(slots[0]) {
		t.Errorf("the slots move on: %s", slots[2].Sub(slots[0]))
	}
}
