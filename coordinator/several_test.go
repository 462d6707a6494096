package coordinator_test

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// replyShards of the coordinators of these tests.
const replyShards = 4

func fewShards(cfg *coordinator.Config) { cfg.ReplyShards = replyShards }

// replyTakers returns what counts the coordinators that wait for the replies of each shard.
func (w *world) replyTakers() func() [replyShards]int {
	w.t.Helper()
	js, err := jetstream.New(w.nc)
	if err != nil {
		w.t.Fatal(err)
	}
	stream := w.bus().StreamName(bus.Replies)
	return func() (n [replyShards]int) {
		for i := range n {
			c, err := js.Consumer(w.ctx(5*time.Second), stream, fmt.Sprintf("coordinator-%d", i))
			if err == nil {
				n[i] = c.CachedInfo().NumWaiting
			}
		}
		return n
	}
}

// Each of two coordinators takes the replies to its own commands, and when one stops the other one takes all (P10): what was
// begun by the one that stopped ends at once, not after an attempt's timeout.
func TestRepliesOfSeveralCoordinators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, _ := w.coordinator(fewShards)
	second, stop := w.coordinator(fewShards)
	takers := w.replyTakers()
	w.until("both take the replies of all shards", func() bool { return takers() == [replyShards]int{2, 2, 2, 2} })
	w.until("each shard's replies go to one", func() bool { return takers() == [replyShards]int{1, 1, 1, 1} })

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
	w.until("the other one takes all", func() bool { return takers() == [replyShards]int{1, 1, 1, 1} })
}

// valve is a way to NATS that can be shut.
type valve struct {
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

// Dial implements nats.CustomDialer.
func (v *valve) Dial(network, address string) (net.Conn, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut {
		return nil, errors.New("the valve is shut")
	}
	conn, err := net.Dial(network, address)
	if err == nil {
		v.conns = append(v.conns, conn)
	}
	return conn, err
}

// valve returns a way to NATS and the option of a coordinator that takes it.
func (w *world) valve() (*valve, func(*coordinator.Config)) {
	w.t.Helper()
	way := &valve{}
	nc, err := nats.Connect(w.nc.ConnectedUrl(), nats.SetCustomDialer(way), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	b, err := bus.New(nc, bus.Config{Prefix: w.prefix, Logger: w.log})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(b.Close)
	return way, func(cfg *coordinator.Config) { cfg.Bus = b }
}

func (v *valve) turn(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
	for _, c := range v.conns {
		_ = c.Close()
	}
	v.conns = nil
}

// A coordinator that reaches its database and not NATS leaves its replies to the other one, until it is back.
func TestRepliesOfACoordinatorWithoutNATS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	way, through := w.valve()
	first, _ := w.coordinator(fewShards)
	second, _ := w.coordinator(fewShards, through)
	takers := w.replyTakers()
	all := [replyShards]int{1, 1, 1, 1}
	w.until("each shard's replies go to one", func() bool { return takers() == all })
	way.turn(true)
	w.until("some replies are taken by nobody", func() bool { return takers() != all })
	w.until("the first one takes all", func() bool { return takers() == all })
	way.turn(false)
	w.until("the second one is back", func() bool { return takers() != all })
	w.until("each shard's replies go to one again", func() bool { return takers() == all })
	_, _ = w.participant("stock", nil)
	for _, c := range []*coordinator.Coordinator{first, second} {
		if v := w.wait(c, w.submit(c, define(saga.KindSaga, 2), "")); v.Status != saga.StatusCommitted {
			t.Errorf("got %s", v.Status)
		}
	}
}

// Coordinators without NATS still count among those that share a participant's limit (R3): what they have sent is under way.
func TestLimitOverAnOutageOfNATS(t *testing.T) {
	t.Parallel()
	const limit = 10
	w := newWorld(t)
	p, _ := w.participant("stock", nil)
	p.mu.Lock()
	p.drop = func(saga.Command, saga.Reply) bool { return true } // it has not answered yet
	p.mu.Unlock()
	seen := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.effects) // a command may come twice
	}
	limited := func(cfg *coordinator.Config) { cfg.Flow = flow.Policy{InFlightMax: limit} }
	ways := make([]*valve, 2)
	coordinators := make([]*coordinator.Coordinator, 2)
	for i := range ways {
		var through func(*coordinator.Config)
		ways[i], through = w.valve()
		coordinators[i], _ = w.coordinator(limited, through)
	}
	w.until("both run", func() bool { return w.count(`SELECT count(*) FROM coordinators`) == 2 })
	<-time.After(5 * time.Second) // and have met: what is in flight before that is counted anew
	def := define(saga.KindSaga, 1, saga.AttemptTimeout(5*time.Minute))
	for range limit {
		w.submit(coordinators[0], def, "")
	}
	w.until("as much as may be is in flight", func() bool {
		return seen() == limit && w.count(`SELECT count(*) FROM coordinators WHERE in_flight = '{10}'`) == 1
	})
	<-time.After(5 * time.Second) // the other one reads that once a second
	for _, c := range coordinators {
		for range limit {
			w.submit(c, def, "")
		}
	}
	<-time.After(2 * time.Second)
	if n := seen(); n != limit {
		t.Fatalf("%d commands are out, want %d", n, limit)
	}
	for _, way := range ways {
		way.turn(true)
	}
	<-time.After(7 * time.Second) // longer than what a coordinator that is gone has in flight is remembered
	for _, way := range ways {
		way.turn(false)
	}
	<-time.After(4 * time.Second)
	if n := seen(); n != limit {
		t.Errorf("after the outage %d commands are out, want %d", n, limit)
	}
}
