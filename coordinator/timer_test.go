package coordinator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// wakeAt returns what a transaction's timer is set to: a time, "infinity" or "never".
func (w *world) wakeAt(id saga.ID) (text string) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx(10*time.Second), `SELECT COALESCE(wake_at::text, 'never') FROM transactions WHERE id = $1`, id.String()).Scan(&text)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// "wake_at is set" means "has not ended": infinity when only a person can go on, NULL after the end.
func TestTimerStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	def := define(saga.KindTCC, 1)
	deliver := func(r saga.Reply) {
		t.Helper()
		if err := c.Deliver(w.ctx(10*time.Second), r); err != nil {
			t.Fatal(err)
		}
	}
	id := w.submit(c, def, "")
	if at := w.wakeAt(id); at == "infinity" || at == "never" {
		t.Errorf("running: wakes at %s", at)
	}
	deliver(done(id, "s1", saga.PhaseTry))
	deliver(fault(done(id, "s1", saga.PhaseConfirm), saga.FaultHandler))
	if err := c.Wake(w.ctx(10*time.Second), id); err != nil { // lazy: it is moved when it fires
		t.Fatal(err)
	}
	if at := w.wakeAt(id); at != "infinity" {
		t.Errorf("suspended: wakes at %s, want infinity", at)
	}
	if v := w.get(c, id); !v.WakeAt.IsZero() || !v.Suspended {
		t.Errorf("view: %+v", v)
	}
	letter := w.letters(c, filterOf(id))[0]
	if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, Reason: "fixed"}); err != nil {
		t.Fatal(err)
	}
	if at := w.wakeAt(id); at == "infinity" || at == "never" {
		t.Errorf("replayed: wakes at %s", at)
	}
	deliver(done(id, "s1", saga.PhaseConfirm))
	if at := w.wakeAt(id); at != "never" {
		t.Errorf("ended: wakes at %s", at)
	}
	if err := c.Wake(w.ctx(10*time.Second), id); err != nil {
		t.Fatal(err)
	}
	if at := w.wakeAt(id); at != "never" {
		t.Errorf("woken after its end: wakes at %s", at)
	}
}

// A timer is moved to an earlier instant by whoever brings one, and to a later one only by the wake itself (lazy
// timers never lose a wake).
func TestLazyTimers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id := w.submit(c, saga.Define("order").Saga("s1", "stock", "reserve", saga.AttemptTimeout(time.Hour)).
		Saga("s2", "stock", "reserve", saga.AttemptTimeout(time.Minute)).
		Saga("s3", "stock", "reserve", saga.AttemptTimeout(time.Hour)).MustBuild(), "")
	first := w.wakeAt(id)
	if err := c.Deliver(w.ctx(10*time.Second), done(id, "s1", saga.PhaseTry)); err != nil {
		t.Fatal(err)
	}
	second := w.wakeAt(id)
	if second >= first {
		t.Errorf("s2 is due at %s, but the timer is at %s", second, first)
	}
	if err := c.Deliver(w.ctx(10*time.Second), done(id, "s2", saga.PhaseTry)); err != nil {
		t.Fatal(err)
	}
	if third := w.wakeAt(id); third != second {
		t.Errorf("a reply moved the timer from %s to the later %s", second, third)
	}
	if err := c.Wake(w.ctx(10*time.Second), id); err != nil {
		t.Fatal(err)
	}
	if fourth := w.wakeAt(id); fourth <= second {
		t.Errorf("the wake left the timer at %s", fourth)
	}
	if v := w.get(c, id); v.Version != 3 {
		t.Errorf("moving the timer counts as a write: version %d", v.Version)
	}
}

// Every instant that something is due at is met in time by the database's clock when idle: a delayed start, the
// deadline, an attempt's timeout, with clocks that differ by minutes. Never early, at most 250 ms late (C10); later only by
// what a busy machine makes a trivial query wait, ten times: so many statements may stand between an instant and its mark.
func TestPunctual(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	const late = 250 * time.Millisecond
	waits := w.watchWaits()
	check := func(what string, due, happened time.Time, most time.Duration) {
		t.Helper()
		if d := happened.Sub(due); d < 0 || d > most {
			t.Errorf("%s: %s late, want %s at most", what, d, most)
		}
	}
	clock := func() (now time.Time) {
		t.Helper()
		if err := w.pool.QueryRow(w.ctx(5*time.Second), `SELECT clock_timestamp()`).Scan(&now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	def := saga.Define("order").Saga("s1", "nobody", "reserve").MustBuild()
	starts := make(map[saga.ID]time.Time)
	for i := range 5 {
		start := clock().Add(time.Second + time.Duration(i)*130*time.Millisecond).Truncate(time.Microsecond)
		s, err := c.Submit(w.ctx(10*time.Second), coordinator.SubmitParams{Caller: caller, Body: bodyWith(def, map[string]any{"start_at": start, "timeout": "1s"})})
		if err != nil {
			t.Fatal(err)
		}
		v := w.get(c, s.ID)
		if early := v.Status == saga.StatusAccepted && v.Result == saga.ResultAccepted && len(v.Steps[0].Operations) == 0; !early && clock().Before(start) {
			t.Errorf("got %s, %s before its start", v.Status, v.Result)
		}
		starts[s.ID] = start
	}
	for id, start := range starts {
		var v coordinator.View
		w.until("it is decided", func() bool { v = w.get(c, id); return !v.DecidedAt.IsZero() })
		most := late + 10*waits()
		if v.Cause.Why != saga.WhyDeadline {
			t.Errorf("decided because of %s", v.Cause.Why)
		}
		if !v.Deadline.Equal(start.Add(time.Second)) {
			t.Errorf("the deadline is %s after the start", v.Deadline.Sub(start))
		}
		if sent := v.Steps[0].Operations; len(sent) > 0 {
			check("start", start, sent[0].SentAt, most)
		} else {
			check("start, in vain,", start, v.DecidedAt, most)
		}
		check("deadline", v.Deadline, v.DecidedAt, most)
	}
}

// watchWaits asks the database for nothing again and again until the test ends. The function that it returns tells the longest
// time that an answer has taken so far.
func (w *world) watchWaits() (longest func() time.Duration) {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var most atomic.Int64
	var asking sync.WaitGroup
	asking.Go(func() {
		const every = 5 * time.Millisecond
		for ctx.Err() == nil {
			began := time.Now()
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
			if _, err := w.pool.Exec(ctx, `SELECT`); err != nil && ctx.Err() == nil {
				w.t.Error(err)
				return
			}
			most.Store(max(most.Load(), int64(time.Since(began)-every)))
		}
	})
	w.t.Cleanup(func() { stop(); asking.Wait() })
	return func() time.Duration { return time.Duration(most.Load()) }
}

// A wave of timers that are due at once does not lose one.
func TestManyTimersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(func(cfg *coordinator.Config) { cfg.TimerBatchMax = 50 })
	const n = 300
	def := saga.Define("order").Saga("s1", "nobody", "reserve").Timeout(time.Second).MustBuild()
	for range n {
		w.submit(c, def, "")
	}
	w.until("all are cancelling", func() bool {
		return w.count(`SELECT count(*) FROM transactions WHERE status = 'cancelling' AND why = 'deadline'`) == n
	})
	if early := w.count(`SELECT count(*) FROM transactions WHERE decided_at < deadline`); early != 0 {
		t.Errorf("%d were decided early", early)
	}
}
