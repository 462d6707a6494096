package sagatest

import (
	"bytes"
	"errors"
	"time"

	"github.com/sagacity-tx/sagacity/saga/relay"
)

// publisher is a coordinator's relay: it publishes the rows of the outbox, those it is handed after a commit and those
// that its poll finds left over. All of its decisions are package relay's.
type publisher struct {
	c       *coordinator
	items   map[relay.RowID]*published // rows that this process is busy with
	bytes   int
	failing bool
	sweep   relay.Sweep
	armed   bool // a poll is scheduled
}

// published is a row in the memory of a process.
type published struct {
	row     *outboxRow
	expiry  time.Time
	age     time.Duration
	claimed bool
}

// Settings of the relay, as package outbox has them.
const (
	relayGrace    = 2 * time.Second
	relayInterval = time.Second
	relayClaim    = 30 * time.Second
	relayBatch    = 500
)

var relayLimit = relay.Usage{Count: 1000, Bytes: 16 << 20}

func (p *publisher) reset() {
	*p = publisher{c: p.c, items: map[relay.RowID]*published{}}
	p.arm(p.c.w.between(0, relayInterval))
}

func (p *publisher) use() relay.Usage { return relay.Usage{Count: len(p.items), Bytes: p.bytes} }

// handOff takes rows that were just committed.
func (p *publisher) handOff(rows []*outboxRow) {
	if !p.c.w.sabotaged(OnlyHandedOff) {
		p.arm(relayGrace)
	}
	for _, row := range rows {
		if p.items[row.id] != nil || !p.use().Fits(row.size, relayLimit) {
			continue
		}
		p.enqueue(&published{row: row, expiry: row.expires})
	}
}

func (p *publisher) enqueue(it *published) {
	p.items[it.row.id] = it
	p.bytes += it.row.size
	p.c.then(pointHandedOff, func() { p.publish(it) })
}

func (p *publisher) publish(it *published) {
	c := p.c
	if relay.IsExpired(it.expiry, c.clock()) {
		p.settle(it, relay.Expired)
		return
	}
	if !it.expiry.IsZero() && c.clock().After(it.expiry) {
		c.w.violated("C12", it.row.about, "%s is published, whose attempt is over since %s", messageText{it.row.msg}, it.expiry)
	}
	c.w.note(it.row.about, c.name, "publishes %s", messageText{it.row.msg})
	c.w.bag.publish(c.process, it.row.msg, it.row.about, func(err error) {
		c.then(pointPubAcked, func() { p.settle(it, resultOf(err)) })
	})
	if c.w.sabotaged(RemovedBeforePubAck) {
		c.w.database.remove(map[relay.RowID]bool{it.row.id: true})
	}
	c.then(pointPublished, func() {})
}

func resultOf(err error) relay.Result {
	switch {
	case err == nil:
		return relay.Acknowledged
	case errors.Is(err, errQueueFull):
		return relay.Blocked
	}
	return relay.Transient
}

// settle does with a row what its message's answer means.
func (p *publisher) settle(it *published, res relay.Result) {
	c := p.c
	if failing, told := relay.Failing(res); told {
		p.failing = failing
	}
	d := c.w.database
	forget := func() {
		if p.items[it.row.id] == it {
			delete(p.items, it.row.id)
			p.bytes -= it.row.size
		}
	}
	var apply func() error
	switch relay.Settle(res, it.claimed) {
	case relay.Delete:
		apply = func() error {
			d.remove(map[relay.RowID]bool{it.row.id: true})
			return nil
		}
	case relay.Release:
		delay := relay.RetryDelay(res, it.age, c.w.rnd.Float64())
		apply = func() error {
			it.row.claimedUntil = d.now().Add(delay)
			return nil
		}
	default:
		forget()
		p.arm(relayInterval)
		return
	}
	d.commit(c.process, apply, func() {}, func(err error) {
		if err != nil { // the row may be there: again, until it is settled
			c.after(c.w.between(100*time.Millisecond, 2*time.Second), func() { p.settle(it, res) })
			return
		}
		forget()
	})
}

// arm schedules the next poll, if none is.
func (p *publisher) arm(d time.Duration) {
	if p.armed {
		return
	}
	p.armed = true
	p.c.after(d, p.poll)
}

// poll recovers rows that nobody published. An empty table is not polled: the next hand-off or poll of another
// coordinator finds a table that is not.
func (p *publisher) poll() {
	p.armed = false
	c := p.c
	d := c.w.database
	if len(d.outbox) == 0 || c.w.sabotaged(OnlyHandedOff) {
		return
	}
	room := relay.PollRoom(relayBatch, p.failing, p.use(), relayLimit)
	if room.Count == 0 {
		p.arm(relayInterval)
		return
	}
	var took relay.Claimed
	var found []*published
	claim := func() error {
		now := d.now()
		for _, row := range d.outbox {
			if took.Count >= room.Count || took.Bytes >= room.Bytes {
				break
			}
			if bytes.Compare(row.id[:], p.sweep.After[:]) <= 0 || !relay.Claimable(relay.Row{CreatedAt: row.created, ClaimedUntil: row.claimedUntil}, now, relayGrace) {
				continue
			}
			row.claimedUntil = now.Add(relayClaim)
			took.Add(row.id, row.size)
			found = append(found, &published{row: row, expiry: row.expires, age: now.Sub(row.created), claimed: true})
		}
		return nil
	}
	d.commit(c.process, claim, func() {}, func(err error) {
		if err != nil {
			p.sweep = relay.Sweep{}
			p.arm(c.w.between(100*time.Millisecond, 10*time.Second))
			return
		}
		for _, it := range found {
			if known := p.items[it.row.id]; known != nil {
				known.claimed = true
				continue
			}
			p.enqueue(it)
		}
		var wait time.Duration
		p.sweep, wait = p.sweep.Next(took, room, c.clock(), relayInterval, c.w.rnd.Float64())
		p.arm(max(wait, time.Millisecond))
	})
}

// armAll makes sure that every coordinator looks after what there is to do.
func (w *world) armAll() {
	for _, c := range w.coordinators {
		if c.alive {
			c.relay.arm(relayGrace)
			c.armTimer()
			c.armChores()
		}
	}
}
