package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/bench"
)

// What several coordinators on one database have to reach (P10).
const (
	nodesMax       = 3
	severalRateMin = 1.0
	takeOverMax    = 5.0 // seconds
	takeOverWait   = time.Minute
	takeOverAsk    = 20 * time.Millisecond
)

// several compares two and three coordinators on one database with one, and kills one of two.
func (st *stand) several(ctx context.Context, r *report) error {
	s, err := st.newSite(ctx, "several")
	if err != nil {
		return err
	}
	deadlocks, err := s.deadlocks(ctx)
	if err != nil {
		return err
	}
	sides := make(map[int][]side, len(st.cfg.clients)) // by clients, then by coordinators
	for _, clients := range st.cfg.clients {
		for count := 1; count <= nodesMax; count++ {
			sides[clients] = append(sides[clients], side{label: nodesLabel(count)})
		}
	}
	for round := range st.cfg.pairs {
		st.say("p10, round %d of %d", round+1, st.cfg.pairs)
		for i := range nodesMax {
			if err := s.measureNodes(ctx, (round+i)%nodesMax+1, sides); err != nil {
				return err
			}
		}
	}
	for _, clients := range st.cfg.clients {
		for _, more := range sides[clients][1:] {
			what := fmt.Sprintf("noop, %d clients", clients)
			r.add(
				compare("P10", what, metricRate, more, sides[clients][0]).atLeast(severalRateMin),
				compare("P10", what, metricP99, more, sides[clients][0]),
			)
		}
	}
	if err := s.takeOvers(ctx, r); err != nil {
		return err
	}
	after, err := s.deadlocks(ctx)
	if err != nil {
		return err
	}
	r.add(figure{ID: "P10", What: "deadlocks in PostgreSQL, in all of it", Got: fmt.Sprint(after - deadlocks), Want: "0", Verdict: judge(after == deadlocks)})
	return nil
}

func nodesLabel(count int) string {
	if count == 1 {
		return "1 coordinator"
	}
	return fmt.Sprintf("%d coordinators", count)
}

// measureNodes starts so many coordinators, measures them with all numbers of clients, and stops them.
func (s *site) measureNodes(ctx context.Context, count int, sides map[int][]side) error {
	if err := s.startNodes(ctx, count); err != nil {
		return err
	}
	for _, clients := range s.st.cfg.clients {
		row, err := s.load(ctx, nodesLabel(count), clients)
		if err != nil {
			return err
		}
		mine := &sides[clients][count-1]
		mine.rows = append(mine.rows, row)
	}
	return s.stopNodes()
}

// deadlocks reads how many PostgreSQL has counted. Backends report when they end at the latest: nothing else runs now.
func (s *site) deadlocks(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, sqlDeadlocks).Scan(&n)
	return n, err
}

// takeOvers kills one of two coordinators, again and again, and says when the last of its transactions had ended.
func (s *site) takeOvers(ctx context.Context, r *report) error {
	clients := slices.Max(s.st.cfg.clients)
	var seconds, inFlight []float64
	var errs int64
	for i := range s.st.cfg.pairs {
		one, err := s.takeOver(ctx, clients)
		if err != nil {
			return err
		}
		s.st.say("p10, kill -9 %d of %d: %d transactions in flight, the last ended after %.2f s; %d errors of the other's clients",
			i+1, s.st.cfg.pairs, one.inFlight, one.seconds, one.errors)
		seconds, inFlight = append(seconds, one.seconds), append(inFlight, float64(one.inFlight))
		errs += one.errors
	}
	what := fmt.Sprintf("kill -9 one of 2, %d clients", clients)
	last, flight := bench.SpreadOf(seconds...), bench.SpreadOf(inFlight...)
	r.add(
		figure{
			ID: "P10", What: what + ": s until all of its transactions have ended", Setting: flight.String() + " in flight", Value: &last,
			Want: fmt.Sprintf("≤ %g", takeOverMax), Verdict: judge(last.Max <= takeOverMax && flight.Min > 0),
		},
		figure{ID: "P10", What: what + ": errors of the other's clients", Got: fmt.Sprint(errs), Want: "0", Verdict: judge(errs == 0)},
	)
	return nil
}

// takeOver is what followed the death of a coordinator.
type takeOver struct {
	inFlight int     // transactions of its clients that had not ended
	seconds  float64 // until the last of them had
	errors   int64   // that the clients of the other coordinator saw
}

func (s *site) takeOver(ctx context.Context, clients int) (takeOver, error) {
	if err := s.startNodes(ctx, 2); err != nil {
		return takeOver{}, err
	}
	doomed, other := s.nodes[0], s.nodes[1]
	prefix := "doomed-" + uuid.NewString() + "-"
	doomedCtx, leave := context.WithCancel(ctx)
	otherCtx, stop := context.WithCancel(ctx)
	defer stop()
	defer leave()
	var running sync.WaitGroup
	running.Go(func() {
		_, _ = s.drive(doomedCtx, clients/2, func(ctx context.Context, number int64) error {
			return doomed.do(ctx, number, fmt.Sprint(prefix, number))
		})
	})
	var errs int64
	var first error
	running.Go(func() {
		errs, first = s.drive(otherCtx, clients-clients/2, func(ctx context.Context, number int64) error { return other.do(ctx, number, "") })
	})
	result, err := s.killUnder(ctx, doomed, leave, prefix)
	stop()
	running.Wait()
	if result.errors = errs; errs > 0 {
		s.st.say("  first error of the other's clients: %s", first)
	}
	return result, errors.Join(err, s.stopNodes())
}

// drive runs clients until ctx ends, and returns how many errors they saw before, and the first.
func (s *site) drive(ctx context.Context, clients int, do func(ctx context.Context, number int64) error) (int64, error) {
	load := bench.Load{Clients: max(clients, 1), Duration: 24 * time.Hour, Do: func(ctx context.Context) error {
		return do(ctx, s.st.next.Add(1))
	}}
	r, err := load.Run(ctx, func() {}, func() {})
	if r == nil {
		return 0, err
	}
	return r.Errors, r.FirstError // err says that ctx ended, which is what ends it
}

// killUnder kills a coordinator while its clients work, whom leave stops, and waits until all they began has ended.
func (s *site) killUnder(ctx context.Context, doomed *node, leave func(), prefix string) (result takeOver, err error) {
	if !pause(ctx, s.st.cfg.warmup+s.st.cfg.duration/2) {
		return result, ctx.Err()
	}
	var killed time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&killed); err != nil {
		return result, err
	}
	doomed.child.Kill()
	leave()
	began := time.Now()
	for left := -1; left != 0; {
		if err := s.pool.QueryRow(ctx, sqlUnended, prefix).Scan(&left); err != nil {
			return result, err
		}
		if time.Since(began) > takeOverWait {
			return takeOver{inFlight: left, seconds: takeOverWait.Seconds()}, nil
		}
		if !pause(ctx, takeOverAsk) {
			return result, ctx.Err()
		}
	}
	err = s.pool.QueryRow(ctx, sqlEndedAfter, prefix, killed).Scan(&result.inFlight, &result.seconds)
	return result, err
}

// pause lets time go by in which clients work. It reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
