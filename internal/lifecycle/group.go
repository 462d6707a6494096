package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// DefaultStopTimeout is how long a Group gives its components to stop, all together.
const DefaultStopTimeout = 30 * time.Second

// Group runs components together. Its zero value is ready for use; add all components before it starts.
// It is itself a Component.
type Group struct {
	// StopTimeout is how long Run gives the components to stop; zero means DefaultStopTimeout.
	StopTimeout time.Duration

	members []member
	failed  chan error

	mu       sync.Mutex
	started  []member // in order
	watchers sync.WaitGroup
	stopping chan struct{}
	stopOnce sync.Once
	stopErr  error
}

type member struct {
	name string
	Component
}

// Add appends a component. The name is what errors call it.
func (g *Group) Add(name string, c Component) {
	g.members = append(g.members, member{name: name, Component: c})
}

// Start starts the components in order. When one fails, those before it are stopped again and the error
// says which it was.
func (g *Group) Start(ctx context.Context) error {
	g.mu.Lock()
	g.failed = make(chan error, 1)
	g.stopping = make(chan struct{})
	g.mu.Unlock()
	for _, m := range g.members {
		err := ctx.Err()
		if err == nil {
			err = m.Start(ctx)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", m.name, err), g.stopNow(ctx))
		}
		g.mu.Lock()
		g.started = append(g.started, m)
		g.mu.Unlock()
		g.watch(m)
	}
	return nil
}

// watch passes on the first failure of any component.
func (g *Group) watch(m member) {
	failed := m.Failed()
	if failed == nil {
		return
	}
	g.watchers.Go(func() {
		select {
		case err := <-failed:
			select {
			case g.failed <- err:
			default: // another was first
			}
		case <-g.stopping:
		}
	})
}

// Stop stops the components in reverse order, every one of them, and returns all their errors.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	started, stopping := g.started, g.stopping
	g.mu.Unlock()
	if stopping == nil {
		return nil // never started
	}
	g.stopOnce.Do(func() {
		close(stopping)
		g.watchers.Wait()
		var errs []error
		for i := len(started) - 1; i >= 0; i-- {
			if err := started[i].Stop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", started[i].name, err))
			}
		}
		g.stopErr = errors.Join(errs...)
	})
	return g.stopErr
}

// Failed delivers the first failure of a component.
func (g *Group) Failed() <-chan error { return g.failed }

// Run starts the components, waits until ctx ends or one of them fails, and stops them all. It returns
// nil only when ctx ended and every component stopped in order.
func (g *Group) Run(ctx context.Context) error {
	if err := g.Start(ctx); err != nil {
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-g.failed:
	}
	return errors.Join(failure, g.stopNow(ctx))
}

// stopNow stops within StopTimeout, although ctx may have ended.
func (g *Group) stopNow(ctx context.Context) error {
	timeout := DefaultStopTimeout
	if g.StopTimeout > 0 {
		timeout = g.StopTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return g.Stop(ctx)
}
