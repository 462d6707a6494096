package sagatest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/relay"
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
	heard    map[string]time.Time
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
	version int64   // of the transaction that an operator's event is about; zero: any
	letter  *letter // the dead letter that it is about, as the operator saw it; nil: any
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
	c.cache, c.heard = map[saga.ID]*record{}, map[string]time.Time{}
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
	c.heard[reply.Participant] = c.clock()
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

// batch is what one commit stores.
type batch struct {
	c         *coordinator
	items     []*item
	tried     int
	keysTaken int
	doubt     bool
}

// judge loads what is not cached and judges the events; what a cached row did not expect is judged again on the stored
// one (S2.10).
func (b *batch) judge() {
	c := b.c
	var known map[saga.ID]*record
	wanted := b.wanted()
	load := func(ids []saga.ID, next func()) {
		if len(ids) == 0 {
			next()
			return
		}
		c.w.database.read(c.process, func() { known = c.w.database.snapshot(ids) }, func(ok bool) {
			if !ok {
				b.failed(saga.FailureOutage)
				return
			}
			next()
		})
	}
	load(wanted, func() {
		r := &round{b: b, passage: passage{gate: c.gate}}
		var again []saga.ID
		var groups [][]*item
		for _, g := range r.groups() {
			rec, loaded := known[g[0].id]
			cached := false
			if !loaded {
				rec = c.cache[g[0].id]
				cached = rec != nil
			}
			if !r.judge(g, rec, cached) {
				again, groups = append(again, g[0].id), append(groups, g)
			}
		}
		load(again, func() {
			for _, g := range groups {
				r.judge(g, known[g[0].id], false)
			}
			c.then(pointMerged, r.commit)
		})
	})
}

// snapshot returns the stored rows of the given ids; nil where there is none.
func (d *database) snapshot(ids []saga.ID) map[saga.ID]*record {
	found := make(map[saga.ID]*record, len(ids))
	for _, id := range ids {
		found[id] = d.rows[id]
	}
	return found
}

// wanted lists the transactions that have to be loaded.
func (b *batch) wanted() []saga.ID {
	var ids []saga.ID
	for _, it := range b.items {
		if b.c.w.chance(rowEvicted) {
			delete(b.c.cache, it.id)
		}
		if b.c.cache[it.id] == nil && (it.submit == nil || b.tried > 0) && !slices.Contains(ids, it.id) {
			ids = append(ids, it.id)
		}
	}
	return ids
}

// round is one pass of a batch: what was judged and has to be stored.
type round struct {
	b        *batch
	items    []*item
	outcomes []outcome
	writes   []*write
	orphans  []saga.ID
	rows     []*outboxRow
	passage  passage
	deferred []*item // second submissions of a key, which find the first one's answer
}

// groups splits the items by transaction, keeping their order.
func (r *round) groups() [][]*item {
	var groups [][]*item
	at := map[saga.ID]int{}
	keys := map[requestKey]bool{}
	for _, it := range r.b.items {
		if it.submit != nil && it.submit.requestID != "" {
			if keys[it.submit.key()] {
				r.deferred = append(r.deferred, it)
				continue
			}
			keys[it.submit.key()] = true
		}
		i, ok := at[it.id]
		if !ok {
			i = len(groups)
			at[it.id] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], it)
	}
	return groups
}

// judge judges the events of one transaction in order. It reports false, and adds nothing, if a cached row did not expect
// one of them.
func (r *round) judge(g []*item, rec *record, cached bool) bool {
	c := r.b.c
	w := &write{before: rec, cached: cached}
	if rec != nil {
		next := *rec
		w.rec = &next
	}
	part := round{b: r.b, passage: passage{gate: c.gate}}
	for _, it := range g {
		if it.submit != nil {
			if o, begun := w.begin(it); !begun {
				part.outcomes = append(part.outcomes, o)
				continue
			}
		}
		about := saga.Case{Cached: cached, Changed: w.changed, Expected: it.version, Event: it.event}
		if w.rec != nil {
			about.Def, about.Tx = w.rec.def, w.rec.tx
		}
		j, err := saga.Judge(about, c.clock(), c.w.rnd)
		c.w.cover(about, err)
		if j.Reload && !c.w.sabotaged(WithoutReload) {
			part.passage.abandon()
			return false
		}
		if err == nil {
			part.pass(w, it, &j)
		}
		part.add(it, w, &j, err)
	}
	r.items = append(r.items, g...)
	r.outcomes = append(r.outcomes, part.outcomes...)
	r.orphans = append(r.orphans, part.orphans...)
	r.passage.take(&part.passage)
	if w.rec != nil && (w.changed || w.woken || w.incidents > 0 || len(w.audits) > 0) {
		r.writes = append(r.writes, w)
	}
	return true
}

// pass holds back what may not be sent now, and notes what the event has changed, to be told once it is stored.
func (r *round) pass(w *write, it *item, j *saga.Judgement) {
	before := w.rec.tx
	j.Tx, j.Effects = saga.Park(w.rec.def, j.Tx, j.Effects, &r.passage, r.b.c.clock())
	r.passage.seen = append(r.passage.seen, observation{def: w.rec.def, before: before, after: j.Tx, event: it.event})
}

// begin starts a new transaction, unless there is one of that id.
func (w *write) begin(it *item) (o outcome, begun bool) {
	var stored *saga.Request
	if w.rec != nil {
		stored = w.rec.request()
	}
	as, err := saga.JudgeSubmission(stored, *it.submit.request(), it.sent)
	if err != nil {
		return outcome{err: err}, false
	}
	if as == saga.SubmittingNew {
		first := *it.submit
		w.rec = &first
		return outcome{}, true
	}
	return outcome{rec: w.rec, answer: answerFor(it.id)}, false
}

// add gathers what is to be stored of a judgement.
func (r *round) add(it *item, w *write, j *saga.Judgement, err error) {
	if err != nil {
		for range j.Effects.Incidents {
			r.orphans = append(r.orphans, it.id)
		}
		r.outcomes = append(r.outcomes, outcome{rec: w.rec, err: err})
		return
	}
	w.judged = append(w.judged, judged{event: it.event, before: w.rec.tx, after: j.Tx, effects: j.Effects})
	w.rec.tx, w.changed, w.woken = j.Tx, w.changed || j.Effects.Changed, w.woken || j.MoveTimer
	w.commands = append(w.commands, j.Effects.Commands...)
	if it.letter != nil {
		w.letters = append(w.letters, *it.letter)
	}
	w.incidents += len(j.Effects.Incidents)
	w.wake = j.Effects.Wake
	if j.Late {
		w.audits = append(w.audits, "late reply")
	}
	for _, op := range j.EffectUnknown {
		w.audits = append(w.audits, "effect not known: "+op)
	}
	judged := *w.rec
	o := outcome{rec: &judged}
	if it.submit != nil {
		o.answer = answerFor(it.id)
	}
	r.outcomes = append(r.outcomes, o)
}

// commit stores the round, and publishes and acknowledges what it has made true.
func (r *round) commit() {
	c := r.b.c
	if len(r.writes)+len(r.orphans) == 0 {
		r.finish()
		return
	}
	for _, it := range r.items {
		it.sent = true
	}
	slices.SortFunc(r.writes, func(a, b *write) int { return compareIDs(a.rec.tx.ID, b.rec.tx.ID) })
	for _, w := range r.writes {
		for i := range w.commands {
			r.rows = append(r.rows, c.row(&w.commands[i]))
		}
	}
	if c.w.sabotaged(SentBeforeCommit) {
		c.relay.handOff(r.rows)
	}
	c.w.database.commit(c.process, func() error { return c.w.database.apply(r.writes, r.rows, r.orphans) }, func() {}, r.answered)
	c.then(pointCommitSent, func() {})
}

// answered goes on after the answer to the commit.
func (r *round) answered(err error) {
	c := r.b.c
	if err != nil {
		r.passage.abandon()
		r.b.failed(failureOf(err))
		return
	}
	at := pointCommitted
	for _, w := range r.writes {
		if w.before != nil && w.before.tx.DecidedAt.IsZero() && !w.rec.tx.DecidedAt.IsZero() {
			at = pointDecisionCommitted
		}
	}
	c.then(at, r.finish)
}

func failureOf(err error) saga.Failure {
	switch err {
	case errConflict:
		return saga.FailureVersion
	case errLetterMoved:
		return saga.FailureLetter
	case errKeyTaken:
		return saga.FailureKey
	case errCommitUnknown:
		return saga.FailureDoubt
	default:
		return saga.FailureOutage
	}
}

func (r *round) finish() {
	c := r.b.c
	c.relay.handOff(r.rows)
	r.passage.stored(c.clock())
	for _, w := range r.writes {
		rec := *w.rec
		switch {
		case w.before == nil:
			rec.tx.Version = 1
		case w.changed:
			rec.tx.Version++
		}
		if c.cache[rec.tx.ID] != nil && c.w.chance(rowAged) {
			continue
		}
		c.cache[rec.tx.ID] = &rec
	}
	for i, it := range r.items {
		o := r.outcomes[i]
		if r.b.doubt {
			o.err = saga.AfterDoubt(it.event, o.err)
		}
		it.done(o)
	}
	if len(r.deferred) > 0 {
		b := &batch{c: c, items: r.deferred}
		b.judge()
		return
	}
	c.next()
}

// failed goes on with a batch that is not known to be stored.
func (b *batch) failed(f saga.Failure) {
	c := b.c
	transactions := map[saga.ID]bool{}
	for _, it := range b.items {
		delete(c.cache, it.id)
		transactions[it.id] = true
	}
	b.doubt = b.doubt || f == saga.FailureDoubt
	next := saga.AfterCommit(f, saga.Batch{
		Tried: b.tried, KeysTaken: b.keysTaken, Transactions: len(transactions), Events: len(b.items),
	})
	b.tried++
	switch next {
	case saga.NextAgain:
		b.judge()
	case saga.NextApart:
		c.after(c.w.between(time.Millisecond, 20*time.Millisecond), b.judge)
	case saga.NextAnswerKeys:
		b.keysTaken++
		b.answerKeys()
	case saga.NextWait:
		if c.stopping {
			for _, it := range b.items {
				it.done(outcome{err: saga.ErrOutcomeUnknown})
			}
			return
		}
		c.after(c.w.between(50*time.Millisecond, time.Second), b.judge)
	case saga.NextByTransaction, saga.NextByEvent:
		for i := range b.items {
			c.parts = append(c.parts, &batch{c: c, items: b.items[i : i+1], tried: b.tried, doubt: b.doubt})
		}
		c.next()
	case saga.NextStale:
		b.items[0].done(outcome{err: saga.ErrStale})
		c.next()
	default:
		c.w.violated("C5", b.items[0].id, "a batch ends with %q, although every event of it can be stored", next)
	}
}

// answerKeys answers the submissions whose keys are stored, and goes on with the rest.
func (b *batch) answerKeys() {
	c := b.c
	found := map[requestKey]*request{}
	read := func() {
		for _, it := range b.items {
			if it.submit != nil {
				found[it.submit.key()] = c.w.database.find(it.submit.key())
			}
		}
	}
	c.w.database.read(c.process, read, func(ok bool) {
		if !ok {
			b.failed(saga.FailureOutage)
			return
		}
		b.items = slices.DeleteFunc(b.items, func(it *item) bool {
			if it.submit == nil || it.submit.requestID == "" {
				return false
			}
			first := found[it.submit.key()]
			var stored *saga.Request
			answer := ""
			if first != nil {
				if first.forgotten {
					it.done(outcome{err: errPastRetention})
					return true
				}
				stored, answer = &first.Request, first.answer
			}
			as, err := saga.JudgeSubmission(stored, *it.submit.request(), it.sent)
			if as == saga.SubmittingNew || as == saga.SubmittingStored {
				return false
			}
			it.done(outcome{err: err, answer: answer})
			return true
		})
		if len(b.items) == 0 {
			c.next()
			return
		}
		b.judge()
	})
}

// row makes the outbox row of a command, with its body fixed.
func (c *coordinator) row(cmd *saga.Command) *outboxRow {
	cmd.ReplyTo = wire.ReplySubject(prefix, cmd.Participant, wire.Shard(cmd.Transaction, 4))
	cmd.Floor = c.floor
	m, err := wire.EncodeCommand(prefix, *cmd)
	if err != nil {
		c.w.violated("S1.4", cmd.Transaction, "a command cannot be encoded: %v", err)
	}
	if c.w.sabotaged(MessageIDWithoutAttempt) {
		m.Header[wire.HeaderMsgID] = []string{cmd.Key().String() + "/" + string(cmd.Verb)}
	}
	return &outboxRow{
		id: relay.RowID(c.w.newID(c.clock())), msg: m, about: cmd.Transaction, size: len(m.Data) + 512,
		expires: c.clock().Add(cmd.Timeout),
	}
}

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
				heard := make(map[string]time.Time, len(c.heard))
				for name, at := range c.heard {
					heard[name] = at
				}
				c.offer(&item{id: id, event: saga.Woken{Heard: heard}, done: func(outcome) {}})
			}
		}
		c.after(timerInterval, c.armTimer)
	})
}

// choreInterval is how often a coordinator looks for the floor and for the others.
const choreInterval = 5 * time.Second

// armChores schedules the next look. While nothing is under way looks are left out.
func (c *coordinator) armChores() {
	if c.chores {
		return
	}
	c.chores = true
	c.after(c.w.between(0, choreInterval), func() {
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
var errPastRetention = fmt.Errorf("past retention")
