package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestLoad checks what is counted, and nothing about speed.
func TestLoad(t *testing.T) {
	broken := errors.New("broken")
	var calls, marks atomic.Int64
	load := Load{Clients: 3, Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Do: func(context.Context) error {
		if calls.Add(1)%2 == 0 {
			return broken
		}
		return nil
	}}
	mark := func() { marks.Add(1) }
	r, err := load.Run(t.Context(), mark, mark)
	if err != nil {
		t.Fatal(err)
	}
	if r.Transactions == 0 || r.Errors == 0 || !errors.Is(r.FirstError, broken) {
		t.Errorf("%d transactions, %d errors, first %v; want some of each", r.Transactions, r.Errors, r.FirstError)
	}
	if r.Latency.TotalCount() != r.Transactions {
		t.Errorf("%d latencies of %d transactions", r.Latency.TotalCount(), r.Transactions)
	}
	if marks.Load() != 2 {
		t.Errorf("begin and end were called %d times in all, want 2", marks.Load())
	}
}

func TestLoadStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	load := Load{Clients: 2, Warmup: time.Hour, Duration: time.Hour, Do: func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	if _, err := load.Run(ctx, func() {}, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
