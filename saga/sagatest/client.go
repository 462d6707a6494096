package sagatest

import (
	"errors"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Clients submit transactions through any coordinator, and ask again when they get no answer: with the same request id,
// which must give the same transaction (I-9). They click twice, cancel, come back much later, and use each other's
// request ids, which must not matter.

// submission is what a client sends.
type submission struct {
	tenant, client, requestID string
	body                      []byte
}

// order is one wish of a client, and what it was told about it.
type order struct {
	submission
	w       *world
	answer  string // "": none yet
	id      saga.ID
	since   instant // when it was told that it is accepted
	own     bool    // the client made its id
	refused bool    // it was told that it is invalid
	tries   int
}

var (
	tenants = []string{"shop", "bank"}
	clients = []string{"web", "app"}
)

// scheduleOrders plans the orders of the run.
func (w *world) scheduleOrders() {
	for range w.orderCount {
		at := w.between(0, w.active)
		if at > w.active/2 {
			at += w.gap
		}
		w.after(at, w.placeOrder)
	}
}

func (w *world) placeOrder() {
	def := w.definitions[w.rnd.IntN(len(w.definitions))]
	o := &order{w: w, submission: submission{tenant: tenants[w.rnd.IntN(2)], client: clients[w.rnd.IntN(2)]}}
	var own saga.ID
	switch w.rnd.IntN(10) {
	case 0: // unprotected
	case 1:
		own = w.newID(w.now.time())
	case 2:
		own = w.newID(w.now.time())
		o.requestID = w.nextRequestID(o.tenant, o.client)
	default:
		// The same ids for all four clients: keys are bound to whoever authenticated (I-14).
		o.requestID = w.nextRequestID(o.tenant, o.client)
	}
	o.body, o.own = w.drawBody(def, own), !own.IsZero()
	o.try()
	if w.chance(clientClickedTwice) {
		w.after(w.between(0, 10*time.Millisecond), o.try)
	}
}

// nextRequestID numbers the orders of one client.
func (w *world) nextRequestID(tenant, client string) string {
	w.numbers[tenant+client]++
	return fmt.Sprintf("r%d", w.numbers[tenant+client])
}

// triesMax is how often a client asks before it gives up. Afterwards it does not know.
const triesMax = 30

// try sends the order to any coordinator.
func (o *order) try() {
	w := o.w
	if o.tries >= triesMax || o.refused {
		return
	}
	o.tries++
	answered, asked := false, w.now
	w.ask(func(c *coordinator, done func(outcome)) { c.submit(o.submission, done) }, func(out outcome) {
		if w.chance(clientLostAnswer) {
			return
		}
		answered = true
		o.told(out, asked)
	})
	w.after(w.between(2*time.Second, 20*time.Second), func() {
		if !answered && (o.requestID != "" || w.rnd.IntN(2) == 0) {
			o.try()
		}
	})
}

// ask sends something to any coordinator that lives. Whoever asks one that dies hears nothing.
func (w *world) ask(do func(c *coordinator, done func(outcome)), answer func(outcome)) {
	c := w.coordinators[w.rnd.IntN(len(w.coordinators))]
	w.after(w.hop(), func() {
		if !c.alive || c.cut() {
			return
		}
		do(c, func(out outcome) { w.after(w.hop(), func() { answer(out) }) })
	})
}

// told takes an answer to what was asked at an instant. Two that were asked at the same time may be answered in any order:
// that it came too late, by a coordinator that looked before the other has stored it.
func (o *order) told(out outcome, asked instant) {
	w := o.w
	_, invalid := errors.AsType[*saga.InvalidError](out.err)
	switch {
	case errors.Is(out.err, saga.ErrOutcomeUnknown), errors.Is(out.err, saga.ErrStopping), errors.Is(out.err, errNotCommitted): // asked again later
	case w.mode == Disaster && (out.err != nil || o.answer != "" && o.answer != out.answer):
		w.detected["told by another answer to a client"]++
	case out.err == nil && o.answer != "" && o.requestID != "" && o.answer != out.answer:
		w.violated("I-9", o.id, "request %s was answered %s, and before %s", o.requestID, out.answer, o.answer)
	case out.err == nil:
		o.accepted(out.answer)
	case invalid && o.answer != "" && asked < o.since:
	case invalid && (o.answer == "" || o.requestID == ""): // without a key nobody knows that it was accepted (X2)
		o.refused = true
	case errors.Is(out.err, errPastRetention) && w.gone[o.id]:
	default:
		w.violated("I-9", o.id, "request %q of %s/%s was answered %v", o.requestID, o.tenant, o.client, out.err)
	}
}

// accepted notes that the client knows of its transaction, and plans what it does next.
func (o *order) accepted(answer string) {
	w := o.w
	first := o.answer == ""
	id, err := saga.ParseID(answer[len(`{"id":"`) : len(answer)-len(`"}`)])
	if err != nil {
		w.violated("I-9", noID, "the answer %s has no id", answer)
		return
	}
	o.answer, o.id = answer, id
	if first {
		o.since = w.now
	}
	w.orders[id] = o
	w.touch(id)
	if !first {
		return
	}
	if w.chance(clientCancelled) {
		w.after(w.tail(time.Millisecond, 5*time.Minute), o.cancel)
		for range w.cancelsAgain() {
			w.after(w.tail(time.Second, 5*time.Minute), o.cancel)
		}
	}
	if w.chance(clientReusedKey) && o.requestID != "" {
		w.after(w.tail(time.Millisecond, time.Minute), o.reuse)
	}
	if w.chance(clientRepeated) && o.requestID != "" {
		w.after(w.tail(time.Second, time.Hour), func() { o.tries = 0; o.try() })
	}
}

// cancel asks for a cancel, now and then twice (S2.9).
func (o *order) cancel() {
	w := o.w
	do := func(c *coordinator, done func(outcome)) {
		c.offer(&item{id: o.id, event: saga.CancelRequested{Reason: "changed my mind"}, done: done})
	}
	answer := func(out outcome) {
		_, refused := errors.AsType[*saga.StateError](out.err)
		unsure := errors.Is(out.err, saga.ErrOutcomeUnknown) || errors.Is(out.err, saga.ErrStopping)
		if out.err != nil && !refused && !unsure && !w.gone[o.id] && w.mode == Normal {
			w.violated("S2.9", o.id, "a cancel was answered %v", out.err)
		}
	}
	w.ask(do, answer)
	if w.chance(clientClickedTwice) {
		w.ask(do, answer)
	}
}

// reuse sends other content under the same key, which must be refused (I2).
func (o *order) reuse() {
	w := o.w
	other := o.submission
	if o.own && w.rnd.IntN(2) == 0 { // somebody else, with an id that is taken (S1.2)
		other.client = clients[0]
		if other.client == o.client {
			other.client = clients[1]
		}
	} else {
		other.body = append([]byte(" "), other.body...)
	}
	w.ask(func(c *coordinator, done func(outcome)) { c.submit(other, done) }, func(out outcome) {
		_, invalid := errors.AsType[*saga.InvalidError](out.err) // its times are past: nothing was looked up
		ok := invalid || errors.Is(out.err, saga.ErrKeyReused) || errors.Is(out.err, saga.ErrIDTaken) ||
			errors.Is(out.err, saga.ErrOutcomeUnknown) || errors.Is(out.err, saga.ErrStopping) ||
			errors.Is(out.err, errNotCommitted) || errors.Is(out.err, errPastRetention)
		if !ok && w.mode == Normal {
			w.violated("I-9", o.id, "other content under the request id %s was answered %q, %v", o.requestID, out.answer, out.err)
		}
	})
}
