package sagatest

import (
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// coordinator is one process of several on one database: a queue of events, a lane that judges them in batches and
// stores each batch in one commit, a cache that others do not keep fresh, a relay and timers. What it decides it asks of
// package saga; what is here is only the order of things.
type coordinator struct {
	*process
	drift    time.Duration // of its reading of the database's clock
	queue    []*item
	parts    []*batch // of a batch that failed, still to be tried one by one
	busy     bool
	cache    map[saga.ID]*record
	heard    map[string]saga.Heard
	floor    saga.ID
	relay    *publisher
	gate     *gate
	chores   bool // the next turn of raiseFloor and meet is scheduled
	stopping bool
	timerAt  instant // when the next look at the timers is scheduled; zero: never
}

// item is one event on its way through a lane.
type item struct {
	id      saga.ID
	event   saga.Event
	submit  *record // with Submitted: what begins
	sent    bool    // a commit of it was tried
	stored  bool    // a commit has changed something for it, whether or not that was answered
	version int64   // of the transaction that an operator's event is about; zero: any
	letter  *letter // the dead letter that it is about, as it was judged; nil: none
	use     *use    // the approval that it uses up; nil: none
	done    func(outcome)
}

// outcome is what became of an event.
type outcome struct {
	rec    *record
	answer string
	err    error
}

func newCoordinator(w *world, name string) *coordinator {
	c := &coordinator{process: &process{w: w, name: name}}
	c.relay = &publisher{c: c}
	c.process.start = c.begin
	return c
}

// begin starts a life: nothing is in memory.
func (c *coordinator) begin() {
	w := c.w
	c.queue, c.parts, c.busy, c.stopping = nil, nil, false, false
	c.cache, c.heard = map[saga.ID]*record{}, map[string]saga.Heard{}
	c.drift = w.between(-driftMax, driftMax)
	c.timerAt = 0
	c.floor = noID
	c.gate = newGate(c)
	c.relay.reset()
	c.armTimer()
	c.chores = false
	c.armChores()
	w.bag.resume(replies)
}

// driftMax is how far a coordinator's reading of the database's clock is off.
const driftMax = 2 * time.Millisecond

// clock is the coordinator's reading of the database's clock (C10).
func (c *coordinator) clock() time.Time {
	return c.w.database.now().Add(c.drift).Truncate(time.Microsecond)
}

// batchMax is small, so that batches are full now and then.
const batchMax = 6

// offer queues an event.
func (c *coordinator) offer(it *item) {
	if c.stopping {
		it.done(outcome{err: saga.ErrStopping})
		return
	}
	c.queue = append(c.queue, it)
	if !c.busy {
		c.next()
	}
}

// stop ends the process as an operator's restart does: what is queued is refused, and the batch in hand has a little time.
func (c *coordinator) stop() {
	c.w.note(noID, c.name, "stops")
	c.stopping = true
	queued := c.queue
	c.queue = nil
	for _, it := range queued {
		it.done(outcome{err: saga.ErrStopping})
	}
	c.after(c.w.between(time.Second, 5*time.Second), c.crash)
}

// next takes the next batch through to its end.
func (c *coordinator) next() {
	if len(c.parts) > 0 {
		b := c.parts[0]
		c.parts = c.parts[1:]
		b.judge()
		return
	}
	c.busy = len(c.queue) > 0
	if !c.busy {
		return
	}
	n := min(len(c.queue), batchMax)
	b := &batch{c: c, items: slices.Clone(c.queue[:n])}
	c.queue = c.queue[n:]
	c.then(pointBatchBuilt, b.judge)
}

// takeReply brings a reply to the lane. It is acknowledged when it is stored or known to be a repetition.
func (c *coordinator) takeReply(d *delivery) {
	reply, err := wire.DecodeReply(d.Message)
	if err != nil {
		d.term() // set aside with its exact bytes (C5)
		return
	}
	c.heard[reply.Participant] = c.heard[reply.Participant].After(reply.Key(), c.clock())
	c.w.hear(&reply, c.clock())
	c.w.note(reply.Transaction, c.name, "receives %s", replyText{reply})
	it := &item{id: reply.Transaction, event: saga.Replied{Reply: reply}}
	it.done = func(o outcome) {
		c.then(pointBeforeAck, func() {
			switch saga.AckReply(o.err, false) {
			case saga.AckAgain:
				d.nak()
			case saga.AckLeave:
			case saga.AckSetAside:
				d.term()
			default:
				c.w.checkMerged(reply, o.err)
				d.ack()
			}
		})
	}
	if c.w.sabotaged(AckedBeforeCommit) {
		done := it.done
		it.done = func(outcome) {}
		done(outcome{})
	}
	c.then(pointReplyReceived, func() { c.offer(it) })
}
