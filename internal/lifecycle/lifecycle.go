// Package lifecycle is the one contract of everything that runs, and the order in which a process starts
// and stops its parts.
//
// A Group starts its components in the order they were added, each ready before the next begins, and
// stops them in reverse. The first component that fails, or the end of the context, stops all. It owns
// the goroutines of Loop components only.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Component is something that runs.
type Component interface {
	// Start returns when the component is ready, or why it is not. ctx bounds the start only. It is
	// called once.
	Start(ctx context.Context) error
	// Stop ends the component in order: it takes no new work, finishes what it has while ctx lasts, and
	// returns when nothing of it runs any more or ctx has ended. Later calls return the same as the
	// first; a component that was never started has nothing to stop.
	Stop(ctx context.Context) error
	// Failed delivers at most one error, when the component has ended without being asked to. It may be
	// nil for a component that cannot.
	Failed() <-chan error
}

// ErrEnded is the failure of a Loop whose function returned nil before it was asked to stop.
var ErrEnded = errors.New("ended without being asked to")

// Loop makes a component of a function that runs until its context ends. It is ready as soon as it is
// started. An error that run returns after it was asked to stop is the result of Stop, unless it only
// says that the context ended.
func Loop(name string, run func(ctx context.Context) error) Component {
	return &loop{name: name, run: run, failed: make(chan error, 1), done: make(chan struct{})}
}

type loop struct {
	name   string
	run    func(ctx context.Context) error
	failed chan error
	done   chan struct{}

	mu     sync.Mutex
	cancel context.CancelFunc // nil before Start
	err    error
}

func (l *loop) Start(ctx context.Context) error {
	// The loop outlives the start, so it keeps the values of ctx and not its end.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.mu.Lock()
	l.cancel = cancel
	l.mu.Unlock()
	go func() {
		defer close(l.done)
		err := l.run(ctx)
		if ctx.Err() == nil {
			if err == nil {
				err = ErrEnded
			}
			l.failed <- fmt.Errorf("%s: %w", l.name, err)
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			l.mu.Lock()
			l.err = fmt.Errorf("%s: %w", l.name, err)
			l.mu.Unlock()
		}
	}()
	return nil
}

func (l *loop) Stop(ctx context.Context) error {
	l.mu.Lock()
	cancel := l.cancel
	l.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-l.done:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("%s: still running when the time to stop was over: %w", l.name, context.Cause(ctx))
	}
}

func (l *loop) Failed() <-chan error { return l.failed }

// Hook makes a component of two functions; either may be nil. It fits resources that are opened and
// closed and do not fail by themselves.
func Hook(start, stop func(ctx context.Context) error) Component {
	return &hook{start: start, stop: stop}
}

type hook struct {
	start, stop func(ctx context.Context) error
	mu          sync.Mutex
	started     bool
	stopOnce    sync.Once
	err         error
}

func (h *hook) Start(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.start != nil {
		if err := h.start(ctx); err != nil {
			return err
		}
	}
	h.started = true
	return nil
}

func (h *hook) Stop(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.started || h.stop == nil {
		return nil
	}
	h.stopOnce.Do(func() { h.err = h.stop(ctx) })
	return h.err
}

func (h *hook) Failed() <-chan error { return nil }
