package coordinator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/asyncapi"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

func publish(mode coordinator.EventsMode) func(*coordinator.Config) {
	return func(c *coordinator.Config) { c.Events = mode }
}

// listen returns a function that waits for the next lifecycle event and returns its type and what it says.
func (w *world) listen() func() (string, map[string]any) {
	w.t.Helper()
	sub, err := w.nc.SubscribeSync(w.prefix + ".event.>")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.nc.Flush(); err != nil {
		w.t.Fatal(err)
	}
	return func() (string, map[string]any) {
		w.t.Helper()
		m, err := sub.NextMsg(20 * time.Second)
		if err != nil {
			w.t.Fatal(err)
		}
		var data map[string]any
		if err := json.Unmarshal(m.Data, &data); err != nil {
			w.t.Fatalf("%v in %s", err, m.Data)
		}
		w.checkEvent(m, data)
		return strings.TrimPrefix(m.Header["ce-type"][0], "sagacity.transaction."), data
	}
}

// checkEvent checks what every event has.
func (w *world) checkEvent(m *nats.Msg, data map[string]any) {
	w.t.Helper()
	kind := strings.TrimPrefix(m.Header["ce-type"][0], "sagacity.transaction.")
	contract, err := asyncapi.Read("../docs/asyncapi.json")
	if err == nil {
		err = contract.Check("events", "event", w.prefix, m.Subject, m.Header, m.Data, true)
	}
	if err != nil {
		w.t.Errorf("%s is not as the document says: %v", kind, err)
	}
	id := fmt.Sprintf("%v/%v/%s", data["transaction"], data["version"], kind)
	if m.Subject != w.prefix+".event.acme.order" || m.Header["ce-id"][0] != id || m.Header["Nats-Msg-Id"][0] != id {
		w.t.Errorf("%s goes to %s as %v", id, m.Subject, m.Header)
	}
}

// A transaction tells of its life, in order, with stable ids (C11).
func TestLifecycleEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next := w.listen()
	w.participant("stock", nil)
	c, _ := w.coordinator(publish(coordinator.EventsAll))
	id := w.submit(c, define(saga.KindTCC, 2, quick...), "order-1")
	w.wait(c, id)
	got := map[string]map[string]any{} // the publisher keeps no order (C6)
	for range 3 {
		kind, data := next()
		if data["transaction"] != id.String() || data["request_id"] != "order-1" || data["client"] != caller.Client {
			t.Errorf("%s says %v", kind, data)
		}
		got[kind] = data
	}
	for kind, status := range map[string]string{"accepted": "running", "decided": "confirming", "committed": "committed"} {
		if got[kind] == nil || got[kind]["status"] != status {
			t.Errorf("%s says %v", kind, got[kind])
		}
	}
	if v, err := c.Get(w.ctx(5*time.Second), caller, id); err != nil || got["committed"]["version"] != float64(v.Version) {
		t.Errorf("it ends at version %d, the event says %v (%v)", v.Version, got["committed"]["version"], err)
	}
}

// By default only what a person may have to know of is published: nothing of a transaction that goes well, and so
// nothing on the hot path.
func TestLifecycleEventsOfExceptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next := w.listen()
	c, _ := w.coordinator(noTimers)
	good := w.submit(c, define(saga.KindSaga, 1), "")
	w.deliver(c, done(good, "s1", saga.PhaseTry))
	w.wait(c, good)
	id, letter := w.stuck(c, 1)
	if _, err := w.discard(c, letter); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		kind, data := next()
		if data["transaction"] != id.String() || !slices.Contains([]string{"suspended", "resolved"}, kind) || data["result"] != "unknown" {
			t.Errorf("%s says %v", kind, data)
		}
	}
}

// Events are outbox rows, stored with the state that they tell of; with none there are none.
func TestLifecycleEventsAreStoredWithTheState(t *testing.T) {
	t.Parallel()
	for mode, want := range map[coordinator.EventsMode]int{coordinator.EventsAll: 3, coordinator.EventsExceptions: 0, coordinator.EventsNone: 0} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c, _ := w.unstarted(publish(mode), noTimers) // its relay does not run: rows stay
			ctx := w.ctx(time.Minute)
			var running sync.WaitGroup
			running.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Errorf("coordinator: %v", err)
				}
			})
			id := w.submit(c, define(saga.KindSaga, 1), "")
			w.deliver(c, done(id, "s1", saga.PhaseTry))
			if got := w.count(`SELECT count(*) FROM outbox WHERE subject = $1`, w.prefix+".event.acme.order"); got != want {
				t.Errorf("%d rows of events, want %d", got, want)
			}
			if got := w.count(`SELECT count(*) FROM outbox WHERE message_id LIKE $1`, id.String()+"/%"); got != want {
				t.Errorf("%d rows are named after the transaction, want %d", got, want)
			}
		})
	}
}

// A full stream of events drops the oldest of them, and holds up nothing.
func TestFullEventStreamBlocksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("stock", nil)
	small, err := bus.New(w.nc, bus.Config{Prefix: w.prefix, Logger: w.log, Streams: bus.StreamSettings{EventsMax: 5}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(small.Close)
	c, _ := w.coordinator(publish(coordinator.EventsAll), func(c *coordinator.Config) { c.Bus = small })
	for range 10 {
		w.wait(c, w.submit(c, define(saga.KindSaga, 1, quick...), ""))
	}
	js, err := jetstream.New(w.nc)
	if err != nil {
		t.Fatal(err)
	}
	w.until("all events are published, and the last five are kept", func() bool {
		s, err := js.Stream(w.ctx(5*time.Second), small.StreamName(bus.Events))
		if err != nil {
			t.Fatal(err)
		}
		state := s.CachedInfo().State
		return state.LastSeq == 30 && state.Msgs == 5 && w.count(`SELECT count(*) FROM outbox`) == 0
	})
}
