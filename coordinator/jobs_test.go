package coordinator_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// jobWorld is a world with many dead letters of one cause, and a participant that can be repaired.
type jobWorld struct {
	*world
	c        *coordinator.Coordinator
	p        *participant
	repaired atomic.Bool
	ids      []saga.ID
	group    string
}

func newJobWorld(t *testing.T, n int, options ...func(*coordinator.Config)) *jobWorld {
	w := &jobWorld{world: newWorld(t)}
	w.c, _ = w.coordinator(append(options, func(cfg *coordinator.Config) { cfg.AutoPause = -1 })...)
	w.p, _ = w.participant("stock", func(c saga.Command) saga.Ran {
		if w.repaired.Load() {
			return saga.Ran{Outcome: saga.OutcomeDone}
		}
		return faulty(c)
	})
	def := saga.Define("order").Timeout(time.Hour).Saga("s1", "stock", "reserve").MustBuild()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			id := w.submit(w.c, def, "")
			mu.Lock()
			defer mu.Unlock()
			w.ids = append(w.ids, id)
		})
	}
	all.Wait()
	w.until("the dead letters", func() bool { return w.count(`SELECT count(*) FROM dead_letters WHERE status = 'open'`) == n })
	w.group = w.letters(w.c, filterOf(w.ids[0]))[0].Fingerprint
	return w
}

// plan makes a job and waits for its dry run.
func (w *jobWorld) plan(canary int) coordinator.JobDetail {
	w.t.Helper()
	job, err := w.c.Admin().CreateJob(w.ctx(10*time.Second), dlq.JobParams{
		Actor: "ann", Reason: "fixed", Selection: dlq.Selection{Fingerprint: w.group}, Canary: canary, Rate: saga.JobRateMax,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.state(job, saga.JobPlanned)
}

func (w *jobWorld) state(job coordinator.JobDetail, want saga.JobState) coordinator.JobDetail {
	w.t.Helper()
	w.until("the job is "+string(want), func() bool {
		var err error
		if job, err = w.c.Admin().Job(w.ctx(10*time.Second), job.ID, ""); err != nil {
			w.t.Fatal(err)
		}
		return job.State == want
	})
	return job
}

func (w *jobWorld) command(job coordinator.JobDetail, command saga.JobCommand) (coordinator.JobDetail, error) {
	return w.c.Admin().CommandJob(w.ctx(20*time.Second), coordinator.JobParams{
		Actor: "ann", ID: job.ID, Command: command, Version: job.Version, PlanSHA256: job.PlanSHA256, Reason: "go",
	})
}

func (w *jobWorld) must(job coordinator.JobDetail, command saga.JobCommand) coordinator.JobDetail {
	w.t.Helper()
	job, err := w.command(job, command)
	if err != nil {
		w.t.Fatalf("%s: %v", command, err)
	}
	return job
}

// A plan, many who start it, two coordinators, and another job over the same dead letters: each is replayed once (D2, D5).
func TestJob(t *testing.T) {
	t.Parallel()
	const n = 40
	w := newJobWorld(t, n)
	w.coordinator()
	_, err := w.c.Admin().CreateJob(w.ctx(10*time.Second), dlq.JobParams{Actor: "ann", Reason: "all of it", Rate: 50})
	var invalid *saga.InvalidError
	if !errors.As(err, &invalid) || invalid.Code != coordinator.CodeEmptySelection {
		t.Errorf("an empty selection: %v", err)
	}
	job, second := w.plan(5), w.plan(0)
	if job.Predicted[saga.ReplayGoesForward] != n || job.Items[saga.JobItemPending] != n {
		t.Errorf("the plan is %v, %v", job.Predicted, job.Items)
	}
	if sent := w.p.countOf(saga.VerbExecute); sent != n {
		t.Errorf("the dry run has replayed: %d commands were sent for %d operations", sent, n)
	}
	other := job
	other.PlanSHA256 = second.PlanSHA256
	if _, err := w.command(other, saga.JobCommandStart); !errors.Is(err, saga.ErrPlanChanged) {
		t.Errorf("started by another plan: %v", err)
	}
	w.repaired.Store(true)
	var started atomic.Int32
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := w.command(job, saga.JobCommandStart); err == nil {
				started.Add(1)
			} else if !errors.Is(err, coordinator.ErrStale) {
				t.Errorf("start: %v", err)
			}
		})
	}
	w.must(second, saga.JobCommandStart)
	all.Wait()
	if started.Load() != 1 {
		t.Errorf("started %d times", started.Load())
	}
	job, second = w.state(job, saga.JobFinished), w.state(second, saga.JobFinished)
	if got := job.Items[saga.JobItemVerified] + second.Items[saga.JobItemVerified]; got != n {
		t.Errorf("%d are verified: %v and %v", got, job.Items, second.Items)
	}
	for _, id := range w.ids {
		if v := w.wait(w.c, id); v.Status != saga.StatusCommitted || v.Steps[0].Operations[0].Attempt != 2 {
			t.Errorf("%s is %s after attempt %d", id, v.Status, v.Steps[0].Operations[0].Attempt)
		}
		w.p.expectEffects(id, "s1", 1, 0, saga.PhaseCancel)
	}
	if replays := w.count(`SELECT count(*) FROM audit WHERE action = 'replay' AND allowed AND actor = 'ann' AND reason LIKE 'job %'`); replays != n {
		t.Errorf("%d replays are in the audit", replays)
	}
	for action, want := range map[string]int{"create_job": 2, "start_job": 2, "finish_job": 2} {
		if got := w.count(`SELECT count(*) FROM audit WHERE action = $1 AND allowed`, action); got != want {
			t.Errorf("%s is in the audit %d times, want %d", action, got, want)
		}
	}
}

// countOf counts the commands of a verb.
func (p *participant) countOf(verb saga.Verb) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.seen {
		if p.seen[i].Verb == verb {
			n++
		}
	}
	return n
}

// A canary that fails again halts the job: nothing else is sent before a person has looked at it. Pause, resume and abort.
func TestJobCanary(t *testing.T) {
	t.Parallel()
	const n, canary = 12, 3
	w := newJobWorld(t, n)
	job := w.must(w.plan(canary), saga.JobCommandStart)
	job = w.state(job, saga.JobPaused)
	failed := job.Items[saga.JobItemFailedAgain] // not all of it, if the first ones fail before the others are due
	if job.Why == "" || failed < 1 || failed > canary || job.Items[saga.JobItemPending] != n-failed {
		t.Errorf("halted with %v: %q", job.Items, job.Why)
	}
	if sent := w.p.countOf(saga.VerbExecute); sent != n+failed {
		t.Errorf("%d commands were sent, want %d", sent, n+failed)
	}
	w.repaired.Store(true)
	if _, err := w.command(job, saga.JobCommandPause); err == nil {
		t.Error("what is paused was paused")
	}
	job = w.state(w.must(job, saga.JobCommandResume), saga.JobFinished)
	if job.Items[saga.JobItemVerified] != n-failed || job.Items[saga.JobItemFailedAgain] != failed {
		t.Errorf("finished with %v", job.Items)
	}
	rest := w.plan(0)
	if rest.Items[saga.JobItemPending] != failed {
		t.Errorf("the rest is %v", rest.Items)
	}
	rest = w.must(rest, saga.JobCommandAbort)
	if rest.State != saga.JobAborted || rest.Items[saga.JobItemSkipped] != failed {
		t.Errorf("aborted: %s with %v", rest.State, rest.Items)
	}
	items, err := w.c.Admin().JobItems(w.ctx(10*time.Second), rest.ID, "", dlq.JobItemFilter{State: saga.JobItemSkipped, Limit: 2})
	if err != nil || len(items) != min(failed, 2) || items[0].Code != "aborted" || items[0].Seq != 1 {
		t.Errorf("its items are %+v, %v", items, err)
	}
	for command, want := range map[saga.JobCommand]string{saga.JobCommandStart: saga.CodeJobState, saga.JobCommandResume: saga.CodeJobState} {
		_, err := w.command(rest, command)
		var state *saga.StateError
		if !errors.As(err, &state) || state.Code != want {
			t.Errorf("%s of an aborted job: %v", command, err)
		}
	}
	if got := fmt.Sprint(w.count(`SELECT count(*) FROM audit WHERE action = 'halt_job'`)); got != "1" {
		t.Errorf("the halt is in the audit %s times", got)
	}
}

// A dead letter that has changed since it was selected is not replayed: somebody else has looked after it meanwhile (D5).
func TestJobRefusesWhatHasChanged(t *testing.T) {
	t.Parallel()
	const n = 3
	w := newJobWorld(t, n)
	job := w.plan(0)
	letter := w.letters(w.c, filterOf(w.ids[0]))[0]
	if err := w.c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "bob", DeadLetter: letter.ID, Reason: "to see"}); err != nil {
		t.Fatal(err)
	}
	w.until("it has failed again", func() bool {
		now := w.letters(w.c, filterOf(w.ids[0]))[0]
		return now.Status == saga.DeadLetterOpen && now.Version > letter.Version
	})
	w.repaired.Store(true)
	job = w.state(w.must(job, saga.JobCommandStart), saga.JobFinished)
	if job.Items[saga.JobItemVerified] != n-1 || job.Items[saga.JobItemRefused] != 1 {
		t.Errorf("finished with %v", job.Items)
	}
	items, err := w.c.Admin().JobItems(w.ctx(10*time.Second), job.ID, "", dlq.JobItemFilter{State: saga.JobItemRefused})
	if err != nil || len(items) != 1 || items[0].DeadLetter != letter.ID || items[0].Code != "stale" {
		t.Errorf("refused: %+v, %v", items, err)
	}
}
