package coordinatortest_test

import (
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/saga"
)

// What is paused waits, however long the clock stands still, until it is resumed or its deadline comes.
func TestPause(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("bank").On("debit", saga.KindSaga, coordinatortest.Done(nil))
	def := saga.Define("transfer").Saga("debit", "bank", "debit").Timeout(time.Hour).MustBuild()
	scope := client.Scope{Scope: client.ScopeParticipant, Participant: "bank"}
	pause := func() client.Pause {
		p, err := c.Client().Pause(within(t), scope, "to see")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	resume := func(p client.Pause) {
		if _, err := c.Client().Resume(within(t), p.ID, "seen"); err != nil {
			t.Fatal(err)
		}
	}
	first := pause()
	if again := pause(); again.ID != first.ID {
		t.Errorf("paused twice: %+v", again)
	}
	submit := func() saga.ID {
		h, err := c.Client().Submit(within(t), client.Submission{Definition: def}, client.SubmitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return h.ID
	}
	tx := submit()
	c.Settle()
	if got := c.Transaction(tx); got.Status != saga.StatusRunning || got.Steps[0].Operations[0].Wait != saga.WaitPause || len(c.Calls()) != 0 {
		t.Errorf("while it is paused: %+v, %v", got, c.Calls())
	}
	states, err := c.Client().Participants(within(t))
	if err != nil || len(states.Participants) != 1 || states.Participants[0].Waiting["pause"] != 1 || len(states.Participants[0].Paused) != 1 {
		t.Errorf("participants: %+v, %v", states, err)
	}
	resume(first)
	c.Settle()
	wantStatus(t, c.Transaction(tx), saga.StatusCommitted)

	second := pause()
	late := submit()
	c.Advance(2 * time.Hour)
	wantCause(t, c.Transaction(late), saga.WhyDeadline, "", "")
	resume(second)
	c.Settle()
	if calls := c.Calls(); len(calls) != 1 {
		t.Errorf("calls: %v", calls)
	}
}
