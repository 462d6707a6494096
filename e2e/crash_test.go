package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

// endLimit is how long everything may take to end once nothing breaks any more (I-11).
const endLimit = 2 * time.Minute

// kill -9 of the coordinator at random instants: nothing is lost, nothing happens twice, everything ends (M1,
// I-1 to I-12).
func TestCrashOfCoordinator(t *testing.T) {
	const (
		clients     = 200
		inFlightMin = 100
	)
	total, kills := 1000*long(), 5*long()
	rnd := random(t)
	w := newWorld(t)
	l := startLoad(t, w.client, newOrders(rnd, plenty(total), 10, 10), clients)
	for n, progress := range spread(rnd, kills, total) {
		if rnd.IntN(4) > 0 { // else soon after the start
			l.reach(t, progress, endLimit)
		}
		pause(t.Context(), instant(rnd))
		before := w.atLeast(t, l, inFlightMin)
		w.coordinators[0].kill()
		l.note(t, w, n, "coordinator killed", before)
		w.startCoordinator(t, 0)
	}
	l.endAfter(total)
	l.wait(t, w, endLimit)
	w.inspect(t, l, 95)
}

// Two coordinators on one database and one NATS write the same transactions: no write is lost, nobody waits for
// a deadlock, and when one is killed the other goes on with its work (C9, I-7).
func TestCrashOfOneOfTwoCoordinators(t *testing.T) {
	const (
		clients     = 150
		inFlightMin = 50
	)
	total, kills := 500*long(), 3*long()
	rnd := random(t)
	w := newWorld(t)
	w.startCoordinator(t, 1)
	l := startLoad(t, w.client, newOrders(rnd, plenty(total), 10, 10), clients)
	for n, progress := range spread(rnd, kills, total) {
		l.reach(t, progress, endLimit)
		pause(t.Context(), instant(rnd))
		before := w.atLeast(t, l, inFlightMin)
		victim := rnd.IntN(2)
		w.coordinators[victim].kill()
		l.note(t, w, n, w.coordinators[victim].name+" killed", before)
		l.reach(t, int(l.ended.Load())+clients/3, endLimit) // by the other one
		w.startCoordinator(t, victim)
	}
	l.endAfter(total)
	l.wait(t, w, endLimit)
	w.inspect(t, l, 95)
}

// kill -9 of the banks and crashes of PostgreSQL: a business change and its barrier row are never one without
// the other, and replies are given again (M2, B5).
func TestCrashOfParticipants(t *testing.T) {
	const (
		clients     = 150
		inFlightMin = 50
	)
	total, kills := 300*long(), 3*long()
	rnd := random(t)
	w := newWorld(t)
	l := startLoad(t, w.client, newOrders(rnd, plenty(total), 10, 10), clients)
	victims := []string{bankA, bankB, "PostgreSQL"}
	for n, progress := range spread(rnd, kills, total) {
		if n%len(victims) == 0 {
			rnd.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		}
		l.reach(t, progress, endLimit)
		pause(t.Context(), instant(rnd))
		before := w.atLeast(t, l, inFlightMin)
		victim := victims[n%len(victims)]
		if victim == "PostgreSQL" {
			w.restartPostgres(t, pick(rnd, devcluster.Fast, devcluster.Immediate))
		} else {
			w.killBank(t, victim)
		}
		l.note(t, w, n, victim+" killed", before)
	}
	l.endAfter(total)
	l.wait(t, w, endLimit)
	w.inspect(t, l, 95)
}

// The whole JetStream store is deleted while transactions are under way: that costs time, nothing else (C1).
func TestNATSStoreIsWiped(t *testing.T) {
	const (
		clients     = 300
		inFlightMin = 200
	)
	rnd := random(t)
	w := newWorld(t)
	l := startLoad(t, w.client, newOrders(rnd, plenty(clients), 0, 0), clients)
	l.reach(t, 1+rnd.IntN(50), endLimit)
	before := w.atLeast(t, l, inFlightMin)
	w.cluster.NATS.Stop()
	w.atLeast(t, l, inFlightMin) // the others have ended meanwhile, and new ones were accepted
	l.note(t, w, 0, "NATS stopped", before)
	l.endAfter(0)
	w.wipeNATS(t)
	l.wait(t, w, endLimit)
	w.inspect(t, l, 100)
}

// instant is by how much a fault comes after what it waited for.
func instant(rnd *rand.Rand) time.Duration {
	return time.Duration(rnd.IntN(100_000)) * time.Microsecond
}

// atLeast waits until so many transactions have not ended, and counts them.
func (w *world) atLeast(t *testing.T, l *load, n int) (unfinished int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var err error
	enough := func() bool {
		unfinished, err = w.unfinished(ctx)
		return err == nil && unfinished >= n
	}
	if poll(ctx, enough) != nil {
		t.Fatalf("%d transactions are in flight, want %d at least; %d orders are answered and %d have ended (%v)",
			unfinished, n, l.answered.Load(), l.ended.Load(), err)
	}
	return unfinished
}

// note logs a fault, with what was under way right before it and right after.
func (l *load) note(t *testing.T, w *world, n int, what string, before int) (after int) {
	t.Helper()
	after, err := w.unfinished(t.Context())
	if err != nil {
		t.Error(err)
	}
	t.Logf("%2d. %6.3fs %s: %d transactions in flight before, %d after; %d orders answered, %d ended",
		n+1, time.Since(l.started).Seconds(), what, before, after, l.answered.Load(), l.ended.Load())
	return after
}

// wipeNATS stops NATS, deletes everything that it has stored, and starts it again.
func (w *world) wipeNATS(t *testing.T) {
	t.Helper()
	w.cluster.NATS.Stop()
	if err := w.cluster.NATS.WipeStore(); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.NATS.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// restartPostgres restarts PostgreSQL under everybody. Connections of the test are lost too.
func (w *world) restartPostgres(t *testing.T, mode devcluster.StopMode) {
	t.Helper()
	if err := w.cluster.Postgres.Restart(t.Context(), mode); err != nil {
		t.Fatal(err)
	}
	w.pool.Reset()
	for _, pool := range w.banks {
		pool.Reset()
	}
}
