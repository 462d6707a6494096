package dlq_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// An item is dispatched once, and only while its job is running: a coordinator that has claimed it does not replay it after
// the job was paused (D5).
func TestDispatchedOnlyWhileRunning(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	if err := queue(t, pool, buried(saga.ID(newID(t)), 1, "x"), buried(saga.ID(newID(t)), 1, "x")); err != nil {
		t.Fatal(err)
	}
	var job dlq.Job
	within := func(f func(tx pgx.Tx) error) {
		t.Helper()
		if err := pgx.BeginFunc(t.Context(), pool, f); err != nil {
			t.Fatal(err)
		}
	}
	within(func(tx pgx.Tx) (err error) {
		job, err = dlq.CreateJobTx(t.Context(), tx, dlq.JobParams{Actor: "ann", Reason: "x", Selection: dlq.Selection{Participant: "stock"}, Rate: 1})
		return err
	})
	dispatch := func(seq int) string {
		var batch pgx.Batch
		dlq.QueueDispatched(&batch, []dlq.JobItemRef{{Job: job.ID, Seq: seq}})
		return pg.Code(pool.SendBatch(t.Context(), &batch).Close())
	}
	for _, step := range []struct {
		state saga.JobState
		seq   int
		want  string
	}{
		{saga.JobPlanned, 1, dlq.CodeMoved},
		{saga.JobRunning, 1, ""},
		{saga.JobRunning, 1, dlq.CodeMoved},
		{saga.JobPaused, 2, dlq.CodeMoved},
		{saga.JobRunning, 2, ""},
	} {
		within(func(tx pgx.Tx) error {
			_, err := dlq.MoveJobTx(t.Context(), tx, job.ID, step.state, "", false)
			return err
		})
		if got := dispatch(step.seq); got != step.want {
			t.Errorf("item %d of a job that is %s: %q, want %q", step.seq, step.state, got, step.want)
		}
	}
}
