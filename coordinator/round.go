package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
)

// round is one pass of a batch: what was decided and what has to be stored for it.
type round struct {
	items    []*item
	outcomes []outcome // by item
	writes   []*write
	audits   []dlq.AuditEntry
	uses     []*approvalUse
	orphans  []incidentRow
	answers  []dlq.Answer // to inquiries
	replays  []dlq.JobItemRef
	deferred []*item // for the next commit: second submissions of a key, which find the first one's answer, and what is too much
	entries  []outbox.Entry
	passage  passage
	bytes    int // that will be stored, estimated
}

// batchBytesMax bounds what one commit stores, and so what a lane holds in memory for it: beyond it the rest of
// the batch waits for the next commit. PostgreSQL refuses messages of 1 GiB.
const batchBytesMax = 16 << 20

// faultError is a fault of the coordinator itself.
type faultError struct{ problem string }

func (e *faultError) Error() string { return e.problem }

// decide runs the events of the items on their transactions, which come from the cache or the database. In a
// retry the submitted ones are looked up too: the commit before may have happened.
func (l *lane) decide(ctx context.Context, items []*item, retry bool) (*round, error) {
	r := &round{passage: l.gate.passage()}
	items = r.deferSecondKeys(items)
	groups := group(items)
	known, err := l.lookUp(ctx, groups, retry)
	if err != nil {
		return r, err
	}
	var again [][]*item
	for _, g := range groups {
		if r.bytes > batchBytesMax {
			r.deferred = append(r.deferred, g...)
			continue
		}
		rec, cached := known[g[0].id], false
		if rec == nil {
			rec, cached = l.cache.get(g[0].id)
		}
		ok, err := l.decideGroup(r, g, rec, cached)
		if err != nil {
			return r, err
		}
		if !ok {
			again = append(again, g)
		}
	}
	return r, l.decideAgain(ctx, r, again)
}

// decideAgain judges on reloaded rows what the cached ones did not expect (S2.10).
func (l *lane) decideAgain(ctx context.Context, r *round, groups [][]*item) error {
	var wanted []saga.ID
	for _, g := range groups {
		wanted = append(wanted, g[0].id)
	}
	known, err := l.store.load(ctx, wanted)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if _, err := l.decideGroup(r, g, known[g[0].id], false); err != nil {
			return err
		}
	}
	return nil
}

// deferSecondKeys takes out the submissions whose key another one of the batch has too.
func (r *round) deferSecondKeys(items []*item) []*item {
	var seen map[requestKey]bool
	return slices.DeleteFunc(slices.Clone(items), func(it *item) bool {
		if it.submit == nil || it.submit.rec.requestID == "" {
			return false
		}
		if seen == nil {
			seen = make(map[requestKey]bool)
		}
		if seen[it.submit.key()] {
			r.deferred = append(r.deferred, it)
			return true
		}
		seen[it.submit.key()] = true
		return false
	})
}

// lookUp loads the transactions that are not in the cache.
func (l *lane) lookUp(ctx context.Context, groups [][]*item, retry bool) (map[saga.ID]*record, error) {
	var wanted []saga.ID
	for _, g := range groups {
		if g[0].submit != nil && !retry && !g[0].submit.ownID {
			continue
		}
		if _, ok := l.cache.get(g[0].id); !ok {
			wanted = append(wanted, g[0].id)
		}
	}
	return l.store.load(ctx, wanted)
}

// decideGroup runs the events of one transaction in order. It reports false, and adds nothing to the round,
// if a cached transaction did not expect one of them: it may be stale.
func (l *lane) decideGroup(r *round, g []*item, rec *record, cached bool) (ok bool, err error) {
	part := round{items: g, outcomes: make([]outcome, 0, len(g)), passage: l.gate.passage()}
	defer func() {
		if p := recover(); p != nil {
			part.passage.Abandon()
			err = &faultError{fmt.Sprintf("panic while deciding on transaction %s: %v\n%s", g[0].id, p, debug.Stack())}
		}
	}()
	now := l.store.clock.now()
	w := &write{}
	if rec != nil {
		next := *rec
		w.rec, w.before = &next, &rec.tx
	}
	for _, it := range g {
		if it.submit != nil {
			if o, begun := w.begin(it.submit); !begun {
				part.outcomes = append(part.outcomes, o)
				continue
			}
		}
		j, err := saga.Judge(w.about(it, cached), now, l.rnd)
		if j.Reload {
			part.passage.Abandon()
			return false, nil
		}
		if err == nil {
			part.pass(w, it, &j, now)
		}
		part.add(it, w, &j, err)
	}
	r.take(&part, w)
	return true, nil
}

// pass holds back what may not be sent now, and notes what the event has changed, to be told once it is stored.
func (r *round) pass(w *write, it *item, j *saga.Judgement, now time.Time) {
	before := w.rec.tx
	j.Tx, j.Effects = saga.Park(w.rec.def, j.Tx, j.Effects, &r.passage, now)
	r.passage.See(w.rec.def, before, j.Tx, it.event)
}

// begin starts a new transaction, unless there is one of that id: then it returns the answer.
func (w *write) begin(s *submission) (o outcome, begun bool) {
	var stored *saga.Request
	if w.rec != nil {
		stored = w.rec.request()
	}
	found, err := saga.JudgeSubmission(stored, *s.rec.request(), s.sent)
	if err != nil {
		return outcome{err: err}, false
	}
	if found == saga.SubmittingNew {
		first := s.rec
		w.rec, w.body, w.answer = &first, s.body, s.answer
		return outcome{}, true
	}
	return outcome{rec: w.rec, answer: s.answer, replayed: found == saga.SubmittingReplayed}, false
}

// about is what the coordinator knows when the item comes.
func (w *write) about(it *item, cached bool) saga.Case {
	c := saga.Case{Cached: cached, Changed: w.changed, Expected: it.version, Event: it.event}
	if w.rec != nil {
		c.Def, c.Tx = w.rec.def, w.rec.tx
	}
	return c
}

// add gathers what is to be stored of a judgement, and what its item is answered.
func (r *round) add(it *item, w *write, j *saga.Judgement, err error) {
	for i := range j.Effects.Incidents {
		r.orphans = append(r.orphans, incidentRow{it: it, problem: j.Effects.Incidents[i].Problem})
	}
	if err != nil {
		r.outcomes = append(r.outcomes, outcome{rec: w.rec, err: err})
		return
	}
	w.add(j, it.letter)
	if ev, ok := it.event.(saga.Replied); ok && ev.Reply.Verb == saga.VerbInquire {
		r.answers = append(r.answers, answerOf(&ev.Reply))
	}
	if j.Late {
		r.audits = append(r.audits, lateAudit(it.event.(saga.Replied).Reply))
	}
	if it.job != nil {
		r.replays = append(r.replays, *it.job)
	}
	if it.audit != nil {
		r.audits = append(r.audits, auditOf(*it.audit, j.EffectUnknown))
	}
	if it.approval != nil {
		r.uses = append(r.uses, it.approval)
	}
	if it.submit != nil {
		r.outcomes = append(r.outcomes, outcome{rec: w.rec, answer: it.submit.answer})
		return
	}
	judged := *w.rec // as this event left it: the batch may go on
	r.outcomes = append(r.outcomes, outcome{rec: &judged, stored: w.rec})
}

// take adds a decided transaction to the round.
func (r *round) take(part *round, w *write) {
	r.items = append(r.items, part.items...)
	r.outcomes = append(r.outcomes, part.outcomes...)
	r.audits = append(r.audits, part.audits...)
	r.uses = append(r.uses, part.uses...)
	r.orphans = append(r.orphans, part.orphans...)
	r.answers = append(r.answers, part.answers...)
	r.replays = append(r.replays, part.replays...)
	r.passage.Take(&part.passage.Passage)
	if w.changed || w.woken {
		w.rec.wakeAt = w.wake
		r.bytes += w.bytes()
		r.writes = append(r.writes, w)
	}
}

// commit stores the round, and then counts the versions on.
func (l *lane) commit(ctx context.Context, r *round) error {
	if len(r.writes)+len(r.audits)+len(r.orphans)+len(r.answers) == 0 {
		return nil
	}
	for _, it := range r.items {
		if it.submit != nil {
			it.submit.sent = true
		}
	}
	slices.SortFunc(r.writes, func(a, b *write) int { return cmp.Compare(string(a.rec.tx.ID[:]), string(b.rec.tx.ID[:])) })
	entries, err := l.store.commit(ctx, r.writes, func(batch *pgx.Batch) error {
		for _, a := range r.audits {
			dlq.QueueAudit(batch, a)
		}
		for _, u := range r.uses {
			if err := u.queue(batch); err != nil {
				return err
			}
		}
		for _, o := range r.orphans {
			o.queue(batch)
		}
		dlq.QueueDispatched(batch, r.replays)
		dlq.QueueAnswers(batch, r.answers)
		return nil
	})
	if err != nil {
		return err
	}
	r.entries = entries
	for _, w := range r.writes {
		if w.changed {
			w.rec.tx.Version++
		}
	}
	return nil
}

var errNoID = errors.New("cannot make a unique id")
