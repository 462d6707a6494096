package coordinatortest_test

import (
	"context"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/saga"
)

// Retries, delays and timeouts of hours take no time.
func TestTimeMovesByItself(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	began, clock := time.Now(), c.Now()
	c.Participant("p").On("do", saga.KindSaga,
		coordinatortest.RetryAfter(time.Hour), coordinatortest.Delay(time.Hour, coordinatortest.Done(nil)))
	def := one(saga.KindSaga, saga.AttemptTimeout(time.Hour), saga.RetryBackoff(saga.StrategyFixed, time.Second, 2*time.Hour))
	tx := submit(t, c, def, func(s *client.Submission) { s.StartAt = clock.Add(time.Hour) })
	wantStatus(t, tx, saga.StatusCommitted)
	wantCalls(t, c, "a/try retry error", "a/try done")
	if passed := tx.FinishedAt.Sub(clock); passed < 3*time.Hour || passed > 3*time.Hour+time.Second {
		t.Errorf("it took %s of the test's time, want 3h", passed)
	}
	if real := time.Since(began); real > limit/2 {
		t.Errorf("it took %s", real)
	}
}

// A silent participant's victims wait until the deadline (S2.8), and what is cancelled then needs no answer of user code.
func TestDeadline(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Silent(coordinatortest.Always))
	began := time.Now()
	tx := submit(t, c, one(saga.KindSaga)) // the default deadline: 24 hours, some 2,000 attempts
	wantCause(t, tx, saga.WhyDeadline, "", "")
	if n := len(c.Calls()); n < 1000 {
		t.Errorf("%d attempts in a day, want more", n)
	}
	t.Logf("a day of silence took %s", time.Since(began))
}

// One who never answers does not keep the clock moving for ever.
func TestEndlessSilence(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindTCC).Confirm(coordinatortest.Silent(12_000))
	tx := submit(t, c, one(saga.KindTCC))
	wantStatus(t, tx, saga.StatusConfirming)
	if tx.Suspended {
		t.Error("silence exhausted a confirm (S2.8)")
	}
	clock := c.Now()
	if again := c.Transaction(tx.ID); again.Version != tx.Version || !c.Now().Equal(clock) {
		t.Errorf("the clock moves on: version %d, then %d", tx.Version, again.Version)
	}
	c.Advance(24 * 365 * time.Hour)
	wantStatus(t, c.Transaction(tx.ID), saga.StatusCommitted)
}

// The clock does not run to the deadline of what waits for a person; Advance does.
func TestSuspendedWaits(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Fault("a bug"))
	tx := submit(t, c, one(saga.KindSaga))
	if !tx.Suspended || tx.Status != saga.StatusRunning || tx.Result != saga.ResultUnknown {
		t.Fatalf("it does not wait for a person: %+v", tx)
	}
	c.Advance(saga.DefaultTimeout)
	wantCause(t, c.Transaction(tx.ID), saga.WhyDeadline, "", "")
}

func TestManualTime(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t, coordinatortest.ManualTime())
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Retry(1))
	start := c.Now().Add(time.Hour)
	tx := submit(t, c, one(saga.KindSaga, saga.RetryBackoff(saga.StrategyFixed, time.Minute, time.Minute)),
		func(s *client.Submission) { s.StartAt = start })
	wantStatus(t, tx, saga.StatusAccepted)
	c.Advance(59 * time.Minute)
	wantStatus(t, c.Last(), saga.StatusAccepted)
	c.Advance(90 * time.Second)
	wantStatus(t, c.Last(), saga.StatusRunning)
	wantCalls(t, c, "a/try retry error")
	c.Advance(time.Minute)
	wantStatus(t, c.Last(), saga.StatusCommitted)
	if at := c.Calls()[1].At.Sub(start); at < time.Minute || at > time.Minute+time.Second {
		t.Errorf("the second attempt began %s after the start, want a minute", at)
	}
}

// With real time a wait lasts as long as it says.
func TestRealTime(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t, coordinatortest.RealTime())
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Retry(2), coordinatortest.Delay(50*time.Millisecond, coordinatortest.Done(nil)))
	began := time.Now()
	def := one(saga.KindSaga, saga.RetryBackoff(saga.StrategyFixed, 50*time.Millisecond, time.Second))
	wantStatus(t, submit(t, c, def), saga.StatusCommitted)
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("it took %s, want 150ms or more", took)
	}
	defer func() {
		if recover() == nil {
			t.Error("Advance moved real time")
		}
	}()
	c.Advance(time.Hour)
}

// A wait ends at once if nothing more can happen by itself, and not before if something can.
func TestWaits(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	release := make(chan struct{})
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Fault("a bug"), coordinatortest.Do(func(coordinatortest.Call) coordinatortest.Answer {
		<-release
		return coordinatortest.Done(nil)
	}))
	began := time.Now()
	tx := submit(t, c, one(saga.KindSaga))
	if took := time.Since(began); took > limit/4 {
		t.Errorf("waiting for what cannot end took %s", took)
	}
	l := letter(t, c.Client())
	if err := c.Client().Replay(within(t), l.ID, l.Version, "repaired"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan client.Transaction, 1)
	ctx := within(t)
	go func() {
		got, err := c.Client().Wait(ctx, tx.ID)
		if err != nil {
			t.Error(err)
		}
		ended <- got
	}()
	select {
	case got := <-ended:
		t.Fatalf("the wait ended while the handler runs: %+v", got)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	select {
	case got := <-ended:
		wantStatus(t, got, saga.StatusCommitted)
	case <-ctx.Done():
		t.Fatal("the wait did not end", context.Cause(ctx))
	}
	c.Settle()
}
