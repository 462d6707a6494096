package participant_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// C1: a NATS server that stops while a command runs, and comes back without anything, costs time only: the
// coordinator sends again, and the barrier answers.
func TestNATSStopsAndLosesItsStore(t *testing.T) {
	k := newKit(t)
	cluster := testdb.Cluster(t)
	p := k.bank()
	var stopped atomic.Bool
	down := make(chan error, 1)
	participant.OnPoint(p, func(point string, _ saga.Command) {
		if point == participant.PointAnswered && stopped.CompareAndSwap(false, true) {
			cluster.NATS.Stop()
			down <- cluster.NATS.WipeStore()
		}
	})
	k.run(p)
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	k.send(try)
	err := wait(t, "the end of NATS", down)
	if err := errors.Join(err, cluster.NATS.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	poll(t, "the streams are there again", func() bool { return k.bus.EnsureStreams(t.Context()) == nil })
	want(t, k.do(again(try)), saga.OutcomeDone, "") // as the coordinator does when its attempt timeout is over
	k.wantRuns(try, 1)
}

// R4: while PostgreSQL is down a participant is silent, and nothing becomes poison.
func TestPostgreSQLRestarts(t *testing.T) {
	k := newKit(t)
	cluster := testdb.Cluster(t)
	p := k.bank(func(c *participant.Config) { c.DeliveriesMax = 1 })
	taken := make(chan struct{}, 100)
	participant.OnPoint(p, func(point string, _ saga.Command) {
		if point == participant.PointTaken {
			taken <- struct{}{}
		}
	})
	k.run(p)
	want(t, k.do(k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)), saga.OutcomeDone, "")
	wait(t, "the first", taken)
	if err := cluster.Postgres.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	k.send(try)
	for range 3 { // it was tried again
		wait(t, "an attempt", taken)
	}
	if n := len(k.replies()); n != 1 {
		t.Errorf("%d replies: %+v", n, k.replies())
	}
	if err := cluster.Postgres.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, k.reply(try), saga.OutcomeDone, "")
	k.wantRuns(try, 1)
}

// A participant may start before its database and before NATS has streams.
func TestStartWithoutBarrier(t *testing.T) {
	t.Parallel()
	c := participant.Config{Name: bankName, Pool: testdb.New(t, testdb.Template{}), NATS: testdb.NATS(t), Prefix: testdb.Prefix(t)}
	p, err := participant.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, participant.ErrSchema) {
		t.Fatalf("Run without the barrier: %v", err)
	}
	if err := participant.Migrate(t.Context(), c.Pool); err != nil {
		t.Fatal(err)
	}
	k := newKit(t)
	k.pool = c.Pool
	p = k.new()
	begun, release := blocking(p)
	r := k.run(p)
	cmd := k.command("block", saga.KindSaga, saga.PhaseTry, nil)
	k.send(cmd)
	wait(t, "the handler", begun)
	if err := p.Run(t.Context()); err == nil {
		t.Error("it runs twice")
	}
	close(release)
	want(t, k.reply(cmd), saga.OutcomeDone, "")
	r.stop()
	k.run(p) // again
	want(t, k.do(again(cmd)), saga.OutcomeDone, "")
}

// The bank's switches make a scenario that a person could run: panics until the switch is off.
func TestPanicWhile(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	if err := bank.Switch(t.Context(), k.pool, "bug", true); err != nil {
		t.Fatal(err)
	}
	try := k.command("deposit", saga.KindSaga, saga.PhaseTry, wish(bank.Wish{PanicWhile: "bug"}))
	want(t, k.do(try), saga.OutcomeRetry, saga.CodePanic)
	if err := bank.Switch(t.Context(), k.pool, "bug", false); err != nil {
		t.Fatal(err)
	}
	want(t, k.do(again(try)), saga.OutcomeDone, "")
	slow := k.command("deposit", saga.KindSaga, saga.PhaseTry, wish(bank.Wish{SleepMs: 5}))
	started := time.Now()
	want(t, k.do(slow), saga.OutcomeDone, "")
	if time.Since(started) < 5*time.Millisecond {
		t.Error("it did not take its time")
	}
}
