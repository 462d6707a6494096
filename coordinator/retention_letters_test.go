package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// What operators have done about a dead letter goes with what it belongs to: an edit with its transaction, approvals and
// notes with the dead letter, a bulk replay once it has ended. While the dead letter is open everything stays (I-10).
func TestRetentionOfWhatOperatorsDid(t *testing.T) {
	t.Parallel()
	e, c := newEditing(t, func(w *world) *coordinator.Coordinator { c, _ := w.coordinator(allowEdit); return c }, saga.KindSaga)
	l := e.letter(c, func(dlq.DeadLetter) bool { return true })
	note := coordinator.GroupParams{Actor: "ann", Fingerprint: l.Fingerprint, Text: "it is the new version"}
	if _, err := c.Admin().NoteGroup(e.ctx(10*time.Second), note); err != nil {
		t.Fatal(err)
	}
	for _, state := range []saga.JobState{saga.JobAborted, saga.JobPaused, saga.JobPlanned} {
		e.oldJob(c, state)
	}
	if err := e.edit(c, l, rightInput); err != nil {
		t.Fatal(err)
	}
	l = e.letter(c, reserved)
	approval, err := e.approve(c, l)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when, want string) {
		t.Helper()
		got := ""
		for _, table := range []string{"dead_letters", "approvals", "group_notes", "edits", "jobs", "job_items"} {
			got += fmt.Sprintf("%d %s, ", e.count(`SELECT count(*) FROM `+table), table)
		}
		if got != want {
			t.Errorf("%s there are %swant %s", when, got, want)
		}
	}

	e.retain(c, 80*day)
	expect("before their time", "1 dead_letters, 1 approvals, 1 group_notes, 1 edits, 3 jobs, 3 job_items, ")
	e.retain(c, 100*day)
	expect("while it is open", "1 dead_letters, 1 approvals, 1 group_notes, 1 edits, 1 jobs, 1 job_items, ")
	if n := e.count(`SELECT count(*) FROM jobs WHERE state = 'paused'`); n != 1 {
		t.Error("the job that is paused is gone")
	}
	if err := e.replay(c, l, approval.ID); err != nil {
		t.Fatal(err)
	}
	if v := e.wait(c, e.id); v.Status != saga.StatusCommitted {
		t.Errorf("it is %s", v.Status)
	}
	e.retain(c, 20*day)
	expect("when it has ended", "1 dead_letters, 1 approvals, 1 group_notes, 1 edits, 1 jobs, 1 job_items, ")
	e.retain(c, 40*day)
	expect("without the transaction", "1 dead_letters, 1 approvals, 1 group_notes, 0 edits, 1 jobs, 1 job_items, ")
	e.retain(c, 100*day)
	expect("without the dead letter", "0 dead_letters, 0 approvals, 0 group_notes, 0 edits, 1 jobs, 1 job_items, ")
}

// oldJob makes a job of the dead letter that is in a state, and that no coordinator looks after.
func (e *editing) oldJob(c *coordinator.Coordinator, state saga.JobState) {
	e.t.Helper()
	job, err := c.Admin().CreateJob(e.ctx(10*time.Second), dlq.JobParams{
		Actor: "ann", Reason: "x", Selection: dlq.Selection{Transaction: e.id.String()}, Rate: 1,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.until("it is planned", func() bool {
		now, err := c.Admin().Job(e.ctx(10*time.Second), job.ID, "")
		if err != nil {
			e.t.Fatal(err)
		}
		return now.State == saga.JobPlanned
	})
	if _, err := e.pool.Exec(e.ctx(10*time.Second), `UPDATE jobs SET state = $2 WHERE id = $1`, job.ID, string(state)); err != nil {
		e.t.Fatal(err)
	}
}
