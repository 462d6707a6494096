package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is a closed loop: each client begins its next transaction when the last one has ended.
type Load struct {
	Clients  int
	Warmup   time.Duration // not measured
	Duration time.Duration
	Do       func(ctx context.Context) error // one transaction, from submission to result
}

// Latency is in microseconds, up to a minute, with three significant digits.
const (
	latencyMaxUs  = 60_000_000
	latencyDigits = 3
)

// LoadResult is what the clients saw.
type LoadResult struct {
	Transactions int64
	Errors       int64
	FirstError   error
	Elapsed      time.Duration
	Latency      *hdrhistogram.Histogram // in microseconds
}

// PerSecond returns the throughput.
func (r *LoadResult) PerSecond() float64 { return float64(r.Transactions) / r.Elapsed.Seconds() }

// Run drives the load: a warm-up, then begin is called, then the measured part, then end. It ends early, with
// an error, when ctx does.
func (l Load) Run(ctx context.Context, begin, end func()) (*LoadResult, error) {
	if err := l.phase(ctx, l.Warmup, nil); err != nil {
		return nil, err
	}
	begin()
	started := time.Now()
	r := &LoadResult{Latency: hdrhistogram.New(1, latencyMaxUs, latencyDigits)}
	err := l.phase(ctx, l.Duration, r)
	r.Elapsed = time.Since(started)
	end()
	return r, err
}

// phase runs all clients for a while; with a nil result it measures nothing.
func (l Load) phase(ctx context.Context, duration time.Duration, into *LoadResult) error {
	var clients sync.WaitGroup
	var mu sync.Mutex
	until := time.Now().Add(duration)
	for range l.Clients {
		clients.Go(func() {
			own := LoadResult{Latency: hdrhistogram.New(1, latencyMaxUs, latencyDigits)}
			for ctx.Err() == nil && time.Now().Before(until) {
				own.one(ctx, l.Do)
			}
			if into == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			into.merge(&own)
		})
	}
	clients.Wait()
	return ctx.Err()
}

func (r *LoadResult) one(ctx context.Context, do func(context.Context) error) {
	started := time.Now()
	err := do(ctx)
	switch {
	case err == nil:
		r.Transactions++
		_ = r.Latency.RecordValue(min(time.Since(started).Microseconds(), latencyMaxUs))
	case !errors.Is(err, context.Canceled):
		r.Errors++
		if r.FirstError == nil {
			r.FirstError = err
		}
	}
}

func (r *LoadResult) merge(other *LoadResult) {
	r.Transactions += other.Transactions
	r.Errors += other.Errors
	if r.FirstError == nil {
		r.FirstError = other.FirstError
	}
	r.Latency.Merge(other.Latency)
}
