package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

// Each of two coordinators takes the replies to its own commands, and when one stops the other one takes all (P10): what was
// begun by the one that stopped ends at once, not after an attempt's timeout.
func TestRepliesOfSeveralCoordinators(t *testing.T) {
	t.Parallel()
	const shards = 4
	w := newWorld(t)
	some := func(cfg *coordinator.Config) { cfg.ReplyShards = shards }
	first, _ := w.coordinator(some)
	second, stop := w.coordinator(some)
	js, err := jetstream.New(w.nc)
	if err != nil {
		t.Fatal(err)
	}
	stream := w.bus().StreamName(bus.Replies)
	takers := func() (n [shards]int) {
		for i := range n {
			c, err := js.Consumer(w.ctx(5*time.Second), stream, fmt.Sprintf("coordinator-%d", i))
			if err == nil {
				n[i] = c.CachedInfo().NumWaiting
			}
		}
		return n
	}
	w.until("both take the replies of all shards", func() bool { return takers() == [shards]int{2, 2, 2, 2} })
	w.until("each shard's replies go to one", func() bool { return takers() == [shards]int{1, 1, 1, 1} })

	p, down := w.participant("stock", nil)
	def := define(saga.KindSaga, 2, saga.AttemptTimeout(5*time.Minute))
	for range 20 {
		for _, c := range []*coordinator.Coordinator{first, second} {
			if v := w.wait(c, w.submit(c, def, "")); v.Status != saga.StatusCommitted {
				t.Errorf("got %s", v.Status)
			}
		}
	}
	down()
	left := w.submit(second, def, "")
	stop()
	p.start()
	if v := w.wait(first, left); v.Status != saga.StatusCommitted {
		t.Errorf("what the stopped one began is %s", v.Status)
	}
	w.until("the other one takes all", func() bool { return takers() == [shards]int{1, 1, 1, 1} })
}
