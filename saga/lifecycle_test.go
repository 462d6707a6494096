package saga_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Which lifecycle events follow from a write is read off the transaction before and after it (C11).
func TestLifecycles(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	dead := []saga.StepState{{Try: saga.Operation{State: saga.OperationDead}}}
	replaying := []saga.StepState{{Try: saga.Operation{State: saga.OperationSent, Replaying: true}}}
	done := []saga.StepState{{Try: saga.Operation{State: saga.OperationDone}}}
	running := saga.Transaction{Status: saga.StatusRunning}
	suspended := saga.Transaction{Status: saga.StatusRunning, Steps: dead}
	confirming := saga.Transaction{Status: saga.StatusConfirming, DecidedAt: at}
	stuck := saga.Transaction{Status: saga.StatusCancelling, DecidedAt: at, Steps: dead}
	committed := saga.Transaction{Status: saga.StatusCommitted, DecidedAt: at, FinishedAt: at, Steps: done}
	cancelled := saga.Transaction{Status: saga.StatusCancelled, DecidedAt: at, FinishedAt: at}
	resolved := saga.Transaction{Status: saga.StatusResolved, DecidedAt: at, FinishedAt: at}
	for _, c := range []struct {
		name   string
		before *saga.Transaction
		after  saga.Transaction
		want   []saga.Lifecycle
	}{
		{"submitted", nil, running, []saga.Lifecycle{saga.LifecycleAccepted}},
		{"delayed", nil, saga.Transaction{Status: saga.StatusAccepted}, []saga.Lifecycle{saga.LifecycleAccepted}},
		{"nothing to do", nil, committed, []saga.Lifecycle{saga.LifecycleAccepted, saga.LifecycleDecided, saga.LifecycleCommitted}},
		{"a reply", &running, running, nil},
		{"decided", &running, confirming, []saga.Lifecycle{saga.LifecycleDecided}},
		{"ended", &confirming, committed, []saga.Lifecycle{saga.LifecycleCommitted}},
		{"cancelled at once", &running, cancelled, []saga.Lifecycle{saga.LifecycleDecided, saga.LifecycleCancelled}},
		{"a dead letter", &running, suspended, []saga.Lifecycle{saga.LifecycleSuspended}},
		{"decided with a dead letter", &running, stuck, []saga.Lifecycle{saga.LifecycleDecided, saga.LifecycleSuspended}},
		{"its replay", &suspended, saga.Transaction{Status: saga.StatusRunning, Steps: replaying}, nil},
		{"replayed", &suspended, saga.Transaction{Status: saga.StatusRunning, Steps: done}, []saga.Lifecycle{saga.LifecycleResumed}},
		{"replayed and ended", &suspended, committed, []saga.Lifecycle{saga.LifecycleDecided, saga.LifecycleResumed, saga.LifecycleCommitted}},
		{"resolved", &stuck, resolved, []saga.Lifecycle{saga.LifecycleResolved}},
		{"after the end", &committed, committed, nil},
	} {
		if got := saga.Lifecycles(c.before, &c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for l, want := range map[saga.Lifecycle]bool{
		saga.LifecycleAccepted: false, saga.LifecycleDecided: false, saga.LifecycleCommitted: false, saga.LifecycleCancelled: false,
		saga.LifecycleSuspended: true, saga.LifecycleResumed: true, saga.LifecycleResolved: true,
	} {
		if l.Exceptional() != want {
			t.Errorf("%s: exceptional %t", l, !want)
		}
	}
}
