package sagatest

import (
	"errors"
	"maps"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// What a coordinator does beside its lane: timers, the floor, retention, and the door for submissions.

// timerInterval is how often a coordinator looks at what is due.
const timerInterval = 100 * time.Millisecond

// armTimer schedules the next look at what is due. Looks that would find nothing are left out.
func (c *coordinator) armTimer() {
	d := c.w.database
	wake, ok := d.nextWake()
	if !ok {
		return
	}
	at := c.w.now.add(max(wake.Sub(d.now()), 0) + c.w.between(0, timerInterval))
	if c.timerAt != 0 && c.timerAt <= at {
		return
	}
	c.timerAt = at
	c.after(time.Duration(at-c.w.now), func() {
		if c.timerAt == at {
			c.timerAt = 0
			c.wakeDue()
		}
	})
}

// wakeDue claims what is due and hands it to the lane.
func (c *coordinator) wakeDue() {
	d := c.w.database
	var due []saga.ID
	claim := func() error {
		due = d.due()
		return nil
	}
	d.commit(c.process, claim, func() {}, func(err error) {
		if err == nil {
			for _, id := range due {
				c.offer(&item{id: id, event: saga.Woken{Heard: maps.Clone(c.heard)}, done: func(outcome) {}})
			}
		}
		c.after(timerInterval, c.armTimer)
	})
}

// How often a coordinator looks for the floor and for the others. In quiet times most looks are left out: nothing
// that they find is new.
const (
	choreInterval      = 5 * time.Second
	choreIntervalQuiet = time.Minute
)

// armChores schedules the next look. While nothing is under way looks are left out.
func (c *coordinator) armChores() {
	if c.chores {
		return
	}
	c.chores = true
	interval := choreInterval
	if c.w.quiet() {
		interval = choreIntervalQuiet
	}
	c.after(c.w.between(0, interval), func() {
		c.chores = false
		c.gate.share()
		c.raiseFloor()
	})
}

// raiseFloor finds the floor that every command carries (B7).
func (c *coordinator) raiseFloor() {
	d := c.w.database
	var floor saga.ID
	d.read(c.process, func() { floor = saga.Floor(d.oldest(), d.now()) }, func(ok bool) {
		if ok {
			c.floor = floor
		}
		if c.w.underWay() {
			c.armChores()
		}
	})
}

// retain forgets what is past retention (S1.3, I-10): it reads what may go, and drops it in a commit of its own.
func (c *coordinator) retain() {
	d := c.w.database
	var floor saga.ID
	read := func() {
		now := d.now()
		var held saga.ID
		for _, id := range d.ids {
			r := d.rows[id]
			retained := saga.Retained{Status: r.tx.Status, FinishedAt: r.tx.FinishedAt, OpenLetters: r.openLetters()}
			if !saga.MayDrop(retained, c.w.retention, now) {
				held = id
				break
			}
		}
		floor = saga.RaiseFloor(d.floor, saga.Floor(d.oldest(), now), c.w.retention, held)
	}
	d.read(c.process, read, func(ok bool) {
		if !ok || floor == d.floor {
			return
		}
		c.then(pointRetention, func() {
			d.commit(c.process, func() error {
				d.forget(floor)
				return nil
			}, func() {}, func(error) {})
		})
	})
}

// submit begins a transaction for a client.
func (c *coordinator) submit(s submission, done func(outcome)) {
	w := c.w
	c.then(pointSubmissionReceived, func() {
		parsed, err := saga.ParseSubmission(s.body, w.definition)
		if err != nil {
			done(outcome{err: err})
			return
		}
		now := c.clock()
		id := parsed.ID
		if id.IsZero() {
			id = w.newID(now)
		}
		rec := &record{
			tx: parsed.Transaction(s.tenant, id, now), def: parsed.Definition, client: s.client, requestID: s.requestID,
			content: parsed.ContentSHA256(),
		}
		check := parsed.CheckTimes(now)
		if check == nil {
			c.offer(&item{id: id, event: saga.Submitted{}, submit: rec, done: done})
			return
		}
		// Too late, unless it was accepted in time.
		var found *request
		w.database.read(c.process, func() { found = w.database.find(rec.key()) }, func(ok bool) {
			switch {
			case !ok:
				done(outcome{err: errNotCommitted})
			case found == nil || rec.requestID == "":
				done(outcome{err: check})
			case found.forgotten:
				done(outcome{err: errPastRetention})
			default:
				_, err := saga.JudgeSubmission(&found.Request, *rec.request(), false)
				done(outcome{err: err, answer: found.answer})
			}
		})
	})
}

// errPastRetention is the answer to a key that is only remembered as used (S1.3).
var errPastRetention = errors.New("past retention")
