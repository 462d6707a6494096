package coordinator_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
	"github.com/sagacity-tx/sagacity/saga"
)

// breakMidway runs 300 transactions and breaks something while at least 100 of them are in flight. All of them
// commit, each effect happens once, and a bystander that has nothing to do is not touched.
func breakMidway(t *testing.T, hurt func(w *world, c *devcluster.Cluster)) {
	const n, inFlightMin = 300, 100
	w, cluster := ownCluster(t)
	c, _ := w.coordinator()
	def := saga.Define("order").TCC("s1", "stock", "reserve", quick...).TCC("s2", "stock", "reserve", quick...).
		Saga("s3", "stock", "reserve", quick...).MustBuild()
	later := time.Now().Add(time.Hour)
	bystander, err := c.Submit(w.ctx(10*time.Second), coordinator.SubmitParams{Caller: caller, Body: bodyWith(def, map[string]any{"start_at": later})})
	if err != nil {
		t.Fatal(err)
	}
	before := w.row(bystander.ID)
	list := make([]saga.ID, n)
	for i := range list { // nobody answers yet
		list[i] = w.submit(c, def, "")
	}
	midway, goOn := make(chan struct{}), make(chan struct{})
	resume := sync.OnceFunc(func() { close(goOn) })
	handled := 0
	p, _ := w.participant("stock", func(saga.Command) saga.Ran {
		if handled++; handled == 2*n { // of the five that each of them takes
			close(midway)
			<-goOn
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	})
	t.Cleanup(resume)
	<-midway
	if inFlight := w.count(`SELECT count(*) FROM transactions WHERE status IN ('running', 'confirming')`); inFlight < inFlightMin {
		t.Fatalf("only %d transactions are in flight", inFlight)
	}
	resume()
	hurt(w, cluster)
	for _, id := range list {
		var v coordinator.View
		w.until("a connection that has survived finds the end", func() (ended bool) { // a pool finds out about the others one by one
			v, err = c.Wait(w.ctx(20*time.Second), caller, id)
			return err == nil
		})
		if v.Status != saga.StatusCommitted {
			t.Errorf("got %s, %+v", v.Status, v.Cause)
		}
		p.expectEffects(id, "s1", 1, 1, saga.PhaseConfirm)
		p.expectEffects(id, "s2", 1, 1, saga.PhaseConfirm)
		p.expectEffects(id, "s3", 1, 0, saga.PhaseCancel)
	}
	w.expectSound(n + 1)
	if after := w.row(bystander.ID); after != before {
		t.Errorf("the bystander was touched:\n%s\n%s", before, after)
	}
}

// row returns a transaction's row as text.
func (w *world) row(id saga.ID) (text string) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.ctx(10*time.Second), `SELECT t::text FROM transactions t WHERE id = $1`, id.String()).Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	return text
}

// M1: PostgreSQL is shut down in order, and then crashes.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	for _, mode := range []devcluster.StopMode{devcluster.Fast, devcluster.Immediate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			breakMidway(t, func(w *world, c *devcluster.Cluster) {
				if err := c.Postgres.Restart(w.ctx(time.Minute), mode); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// M2, C1: NATS loses everything it had: streams, consumers, commands and replies.
func TestNATSLosesEverything(t *testing.T) {
	t.Parallel()
	breakMidway(t, func(w *world, c *devcluster.Cluster) {
		c.NATS.Stop()
		if err := c.NATS.WipeStore(); err != nil {
			t.Fatal(err)
		}
		if err := c.NATS.Start(context.WithoutCancel(w.ctx(time.Minute))); err != nil {
			t.Fatal(err)
		}
	})
}
