package bus_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

// freezer lets the connections of a process do nothing, like a process that was paused: they stay open.
type freezer struct {
	mu     sync.Mutex
	frozen chan struct{} // closed when it may go on; nil: it runs
}

func (f *freezer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, patience)
	return &freezingConn{Conn: conn, freezer: f}, err
}

// freeze returns a function that ends it.
func (f *freezer) freeze() (thaw func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	frozen := make(chan struct{})
	f.frozen = frozen
	return func() { close(frozen) }
}

func (f *freezer) pass() {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

type freezingConn struct {
	net.Conn
	freezer *freezer
}

func (c *freezingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.freezer.pass()
	return n, err
}

func (c *freezingConn) Write(b []byte) (int, error) {
	c.freezer.pass()
	return c.Conn.Write(b)
}

// A process that is paused, and not ended, stands in the way of the others for some seconds only (M1): what the
// server hands to it meanwhile waits for AckWait.
func TestFrozenConsumerDoesNotKeepItsShare(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	live := s.connect(bus.Config{})
	var f freezer
	frozen := s.connect(bus.Config{Options: []nats.Option{nats.SetCustomDialer(&f)}})
	theirs, _ := consume(t, frozen, accounts)
	ours, _ := consume(t, live, accounts)
	next := 0
	publishOne := func() string {
		next++
		id := fmt.Sprint(next)
		if err := publish(t, live, command("accounts", id))[0]; err != nil {
			t.Fatal(err)
		}
		return id
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for shared := false; !shared; { // until both have their share
		id := publishOne()
		select {
		case d := <-theirs:
			shared = string(d.Data) == id
			_ = d.Ack() // of a message that will not come again in time
		case d := <-ours:
			_ = d.Ack()
		case <-timeout.C:
			t.Fatal("one of two consumers gets nothing")
		}
	}
	defer f.freeze()()
	const enough = 20
	lost := 0
	for row := 0; row < enough; row++ { // one after the other
		id := publishOne()
		short := time.NewTimer(100 * time.Millisecond)
		select {
		case d := <-ours:
			_ = d.Ack()
			if string(d.Data) != id {
				t.Fatalf("got %s, want %s", d.Data, id)
			}
		case <-short.C:
			lost, row = lost+1, -1
		case <-timeout.C:
			t.Fatalf("the frozen consumer still takes messages after %s: %d of %d", patience, lost, next)
		}
		short.Stop()
	}
	if lost == 0 {
		t.Error("the frozen consumer took nothing: the test shows nothing")
	}
}
