package sagatest

import (
	"errors"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/relay"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

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
	r := &round{b: b, passage: c.gate.passage()}
	load := func(ids []saga.ID, next func()) {
		if len(ids) == 0 {
			next()
			return
		}
		c.w.database.read(c.process, func() { known = c.w.database.snapshot(ids) }, func(ok bool) {
			if !ok {
				r.passage.abandon()
				b.failed(saga.FailureOutage)
				return
			}
			next()
		})
	}
	load(wanted, func() {
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
	part := round{b: r.b, passage: c.gate.passage()}
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
	r.passage.See(w.rec.def, before, j.Tx, it.event)
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
	w.judged = append(w.judged, judged{item: it, event: it.event, before: w.rec.tx, after: j.Tx, effects: j.Effects})
	w.rec.tx, w.changed, w.woken = j.Tx, w.changed || j.Effects.Changed, w.woken || j.MoveTimer
	w.commands = append(w.commands, j.Effects.Commands...)
	if it.use != nil {
		w.uses = append(w.uses, it.use)
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
	switch {
	case errors.Is(err, errConflict):
		return saga.FailureVersion
	case errors.Is(err, errLetterMoved):
		return saga.FailureLetter
	case errors.Is(err, errKeyTaken):
		return saga.FailureKey
	case errors.Is(err, errCommitUnknown):
		return saga.FailureDoubt
	}
	return saga.FailureOutage
}

func (r *round) finish() {
	c := r.b.c
	c.relay.handOff(r.rows)
	r.passage.Stored(c.clock())
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
		c.w.checkAnswered(it, o.err)
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
