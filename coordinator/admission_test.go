package coordinator_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func admit(p flow.AdmissionPolicy) func(*coordinator.Config) {
	return func(cfg *coordinator.Config) { cfg.Admission = p }
}

// Over its rate a tenant is told when to come back, and nothing is done. What was accepted before is still answered with
// its first answer, other content under its key is refused as ever, other tenants are let in, and so are cancels (R3, I7).
func TestRateOfSubmissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("stock", nil)
	c, _ := w.coordinator(admit(flow.AdmissionPolicy{PerTenant: 1, Burst: time.Second})) // two at once
	def := define(saga.KindSaga, 1)
	submit := func(tenant, key string, body []byte) (coordinator.Submitted, error) {
		return c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{
			Caller: coordinator.Caller{Tenant: tenant, Client: "shop"}, RequestID: key, Body: body,
		})
	}
	first, err := submit("acme", "k-first", body(def))
	if err != nil {
		t.Fatal(err)
	}
	var limit *coordinator.RateError
	for i := 0; limit == nil; i++ {
		_, err := submit("acme", fmt.Sprint("k-", i), body(def))
		if err != nil && (!errors.As(err, &limit) || !limit.Tenant || limit.RetryAfter <= 0) || i > 1000 {
			t.Fatalf("submission %d: %v", i, err)
		}
	}
	before := w.count(`SELECT count(*) FROM transactions`)
	const copies = 200
	var all sync.WaitGroup
	for i := range copies { // far more than the rate lets in
		all.Go(func() {
			again, err := submit("acme", "k-first", body(def))
			if err != nil || !again.Replayed || !bytes.Equal(first.Answer, again.Answer) {
				t.Errorf("repetition %d: %+v, %v", i, again, err)
			}
		})
	}
	all.Wait()
	if _, v, err := c.SubmitAndWait(w.ctx(20*time.Second), w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "k-first", Body: body(def)}); err != nil || v.ID != first.ID {
		t.Errorf("a repetition that waits: %v, %v", v.ID, err)
	}
	if _, err := submit("acme", "k-first", append(body(def), ' ')); !errors.Is(err, coordinator.ErrKeyReused) {
		t.Errorf("other content: %v", err)
	}
	if after := w.count(`SELECT count(*) FROM transactions`); after != before {
		t.Errorf("%d transactions were begun by repetitions", after-before)
	}
	if s, err := submit("other", "k-first", body(def)); err != nil || s.Replayed {
		t.Errorf("another tenant: %+v, %v", s, err)
	}
	if _, err := c.Cancel(w.ctx(5*time.Second), caller, first.ID, ""); err != nil && errors.As(err, &limit) {
		t.Errorf("cancel: %v", err)
	}
}

// Bytes are bounded however the submissions end: while nothing can be stored they are refused at the limit, also when
// their callers have gone, and afterwards all of it is given back (R3).
func TestBytesOfSubmissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("stock", nil)
	c, _ := w.coordinator(admit(flow.AdmissionPolicy{BytesMax: flow.AdmissionBytesMin}))
	def := define(saga.KindSaga, 1)
	first := w.submit(c, def, "k-first")
	large := bodyWith(def, map[string]any{"input": string(bytes.Repeat([]byte{'x'}, 100<<10))})
	release := w.hold(`LOCK TABLE transactions IN EXCLUSIVE MODE`)
	var overloaded, unknown int
	for i := range 80 { // 4 MiB and a little, of which one tenant may hold half
		b := large
		if i >= 40 {
			b = body(def) // where the large ones leave a gap
		}
		_, err := c.Submit(w.ctx(20*time.Millisecond), coordinator.SubmitParams{Caller: caller, RequestID: fmt.Sprint("k-", i), Body: b})
		switch {
		case errors.Is(err, coordinator.ErrOverloaded):
			overloaded++
		case errors.Is(err, coordinator.ErrOutcomeUnknown):
			unknown++
		default:
			t.Errorf("submission %d: %v", i, err)
		}
	}
	if overloaded < 40 || unknown < 15 || c.SubmissionBytes() > flow.AdmissionBytesMin {
		t.Errorf("%d refused, %d unknown, %d bytes held", overloaded, unknown, c.SubmissionBytes())
	}
	s, err := c.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "k-first", Body: body(def)})
	if err != nil || s.ID != first || !s.Replayed {
		t.Errorf("a repetition while there is no room: %+v, %v", s, err)
	}
	release()
	w.until("all is given back", func() bool { return c.SubmissionBytes() == 0 })
	if n := w.count(`SELECT count(*) FROM transactions`); n != 1+unknown {
		t.Errorf("%d transactions, want %d", n, 1+unknown)
	}
	w.submit(c, def, "k-last")
}

// A full queue answers what is stored, and nothing else (I7).
func TestFullQueueReplays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(oneLane, noTimers, func(cfg *coordinator.Config) { cfg.QueueMax, cfg.BatchMax = 1, 1 })
	def := define(saga.KindSaga, 1)
	first := w.submit(c, def, "k-first")
	release := w.hold(`LOCK TABLE transactions IN EXCLUSIVE MODE`)
	full := false
	for i := 0; !full && i < 10; i++ {
		_, err := c.Submit(w.ctx(100*time.Millisecond), coordinator.SubmitParams{Caller: caller, RequestID: fmt.Sprint("k-", i), Body: body(def)})
		full = errors.Is(err, coordinator.ErrOverloaded)
	}
	if !full {
		t.Fatal("the queue never was full")
	}
	s, err := c.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "k-first", Body: body(def)})
	if err != nil || s.ID != first || !s.Replayed {
		t.Errorf("a repetition while the queue is full: %+v, %v", s, err)
	}
	release()
	w.until("all is given back", func() bool { return c.SubmissionBytes() == 0 })
}

// Submissions over NATS wait there until there is room for their bytes, and all of them begin (R3).
func TestBytesOfSubmissionsOverNATS(t *testing.T) {
	t.Parallel()
	const n = 40 // 4 MiB, of which one tenant may hold half
	w := newWorld(t)
	w.participant("stock", nil)
	c, _ := w.coordinator(admit(flow.AdmissionPolicy{BytesMax: flow.AdmissionBytesMin}))
	def := define(saga.KindSaga, 1)
	w.submit(c, def, "k-first") // stores the definition
	large := bodyWith(def, map[string]any{"input": string(bytes.Repeat([]byte{'x'}, 100<<10))})
	release := w.hold(`LOCK TABLE transactions IN EXCLUSIVE MODE`)
	for i := range n {
		w.publish(wire.Message{
			Subject: wire.SubmitSubject(w.prefix, caller.Tenant), Data: large,
			Header: map[string][]string{"Saga-Request-Id": {fmt.Sprint("k-", i)}},
		})
	}
	const room = flow.AdmissionBytesMin / 2
	w.until("there is no room for another", func() bool { return c.SubmissionBytes() > room-len(large)-flow.AdmissionOverhead })
	if held := c.SubmissionBytes(); held > room {
		t.Errorf("%d bytes are held, more than %d", held, room)
	}
	release()
	w.until("all have begun", func() bool { return w.count(`SELECT count(*) FROM transactions`) == n+1 })
	w.until("all is given back", func() bool { return c.SubmissionBytes() == 0 && w.stored(bus.Submissions) == 0 })
}
