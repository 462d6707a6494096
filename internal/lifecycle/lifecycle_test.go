package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagacity-tx/sagacity/internal/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal records what happens, in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

func (j *journal) component(name string, startErr error) lifecycle.Component {
	return lifecycle.Hook(
		func(context.Context) error { j.add("start " + name); return startErr },
		func(context.Context) error { j.add("stop " + name); return nil },
	)
}

func (j *journal) want(t *testing.T, events ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.events, events) {
		t.Errorf("happened: %q, want %q", j.events, events)
	}
}

func TestGroupStartsInOrderAndStopsInReverse(t *testing.T) {
	var j journal
	var g lifecycle.Group
	g.Add("a", j.component("a", nil))
	g.Add("b", j.component("b", nil))
	ctx, cancel := context.WithCancel(t.Context())
	g.Add("c", lifecycle.Loop("c", func(ctx context.Context) error {
		j.add("run c")
		cancel()
		<-ctx.Done()
		j.add("end c")
		return ctx.Err()
	}))
	if err := g.Run(ctx); err != nil {
		t.Fatal(err)
	}
	j.want(t, "start a", "start b", "run c", "end c", "stop b", "stop a")
	if err := g.Stop(t.Context()); err != nil { // again: nothing happens
		t.Fatal(err)
	}
	j.want(t, "start a", "start b", "run c", "end c", "stop b", "stop a")
}

func TestGroupStopsWhatItStartedWhenAStartFails(t *testing.T) {
	var j journal
	boom := errors.New("boom")
	var g lifecycle.Group
	g.Add("a", j.component("a", nil))
	g.Add("b", j.component("b", boom))
	g.Add("c", j.component("c", nil))
	if err := g.Run(t.Context()); !errors.Is(err, boom) || err.Error() != "start b: boom" {
		t.Fatalf("Run: %v", err)
	}
	j.want(t, "start a", "start b", "stop a")
}

func TestFirstFailureStopsTheGroup(t *testing.T) {
	var j journal
	boom := errors.New("boom")
	var g lifecycle.Group
	g.Add("a", j.component("a", nil))
	g.Add("b", lifecycle.Loop("b", func(context.Context) error { return boom }))
	if err := g.Run(t.Context()); !errors.Is(err, boom) {
		t.Fatalf("Run: %v", err)
	}
	j.want(t, "start a", "stop a")
}

func TestLoopThatEndsByItselfFails(t *testing.T) {
	l := lifecycle.Loop("l", func(context.Context) error { return nil })
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-l.Failed(); !errors.Is(err, lifecycle.ErrEnded) {
		t.Fatalf("failed with %v", err)
	}
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestStopBeforeStart(t *testing.T) {
	var g lifecycle.Group
	l := lifecycle.Loop("l", func(context.Context) error { return nil })
	h := lifecycle.Hook(nil, func(context.Context) error { t.Error("stopped, never started"); return nil })
	if err := errors.Join(l.Stop(t.Context()), h.Stop(t.Context()), g.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestStopDoesNotWaitForever(t *testing.T) {
	release := make(chan struct{})
	var g lifecycle.Group
	g.StopTimeout = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	stubborn := lifecycle.Loop("stubborn", func(context.Context) error { cancel(); <-release; return nil })
	g.Add("stubborn", stubborn)
	if err := g.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Run: %v", err)
	}
	close(release)
	if err := stubborn.Stop(t.Context()); err != nil { // now it ends
		t.Fatal(err)
	}
}

func TestStopReportsTheLoopsError(t *testing.T) {
	boom := errors.New("boom")
	l := lifecycle.Loop("l", func(ctx context.Context) error { <-ctx.Done(); return boom })
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Stop(t.Context()); !errors.Is(err, boom) {
			t.Fatalf("Stop: %v", err)
		}
	}
}
