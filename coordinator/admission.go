package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/saga/flow"
)

// RateError says that there are too many submissions per second. Nothing was done. Cancels, replies and what operators do
// are never refused by it (R3).
type RateError struct {
	Tenant     bool          // it is the tenant's own limit, not that of all together
	RetryAfter time.Duration // when it would be taken if nobody else came; above zero
}

// Error says whose limit it is and when to come back.
func (e *RateError) Error() string {
	whose := "all tenants together"
	if e.Tenant {
		whose = "the tenant"
	}
	return fmt.Sprintf("too many submissions per second of %s; repeat it after %s with the same request id", whose, e.RetryAfter)
}

// entrance lets submissions in by the rules of flow.Admission.
type entrance struct {
	mu    sync.Mutex
	rules *flow.Admission
	freed chan struct{} // has a value after bytes were given back
}

func newEntrance(p flow.AdmissionPolicy) *entrance {
	return &entrance{rules: flow.NewAdmission(p), freed: make(chan struct{}, 1)}
}

// enter admits a submission. release gives back what it holds; it may be called again. Errors: *RateError, ErrOverloaded.
func (e *entrance) enter(tenant string, bodyBytes int) (release func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slot, as, wait := e.rules.Admit(tenant, bodyBytes, time.Now())
	switch as {
	case flow.Admitted:
		return func() { e.release(slot) }, nil
	case flow.RefusedBytes:
		return nil, ErrOverloaded
	default:
		return nil, &RateError{Tenant: as == flow.RefusedTenant, RetryAfter: wait}
	}
}

// await waits until there is room for a submission that NATS keeps until it is taken, so that no rate is for it. It
// returns an error when ctx ends or the coordinator stops.
func (e *entrance) await(ctx context.Context, stopping <-chan struct{}, tenant string, bodyBytes int) (release func(), err error) {
	for {
		e.mu.Lock()
		slot := e.rules.Hold(tenant, bodyBytes, time.Now())
		e.mu.Unlock()
		if slot != nil {
			return func() { e.release(slot) }, nil
		}
		select {
		case <-e.freed:
		case <-stopping:
			return nil, errStopping
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (e *entrance) release(s *flow.Slot) {
	e.mu.Lock()
	e.rules.Release(s)
	e.mu.Unlock()
	select {
	case e.freed <- struct{}{}:
	default:
	}
}
