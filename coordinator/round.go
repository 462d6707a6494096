package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

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
	orphans  []incidentRow
	deferred []*item // for the next commit: second submissions of a key, which find the first one's answer, and what is too much
	entries  []outbox.Entry
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
	r := &round{}
	items = r.deferSecondKeys(items)
	groups := group(items)
	known, err := l.lookUp(ctx, groups, retry)
	if err != nil {
		return nil, err
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
			return nil, err
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
	defer func() {
		if p := recover(); p != nil {
			err = &faultError{fmt.Sprintf("panic while deciding on transaction %s: %v\n%s", g[0].id, p, debug.Stack())}
		}
	}()
	now := l.store.clock.now()
	stale := func() bool { return cached && !rec.tx.Status.Terminal() }
	w := &write{}
	if rec != nil {
		next := *rec
		w.rec, w.before = &next, &rec.tx
	}
	outcomes := make([]outcome, 0, len(g))
	var audits []dlq.AuditEntry
	var orphans []incidentRow
	for _, it := range g {
		if it.submit != nil {
			o, fresh := w.begin(it)
			outcomes = append(outcomes, o)
			if !fresh {
				continue
			}
		}
		if w.rec == nil {
			outcomes = append(outcomes, outcome{err: ErrNotFound})
			orphans = append(orphans, orphan(it, "names a transaction that does not exist")...)
			continue
		}
		if problem := w.rec.foreign(it.event); problem != "" {
			outcomes = append(outcomes, outcome{rec: w.rec, err: ErrNotFound})
			orphans = append(orphans, orphan(it, problem)...)
			continue
		}
		if it.version != 0 && (it.version != w.rec.tx.Version || w.changed) {
			if stale() {
				return false, nil
			}
			outcomes = append(outcomes, outcome{rec: w.rec, err: fmt.Errorf("%w: version %d is past", ErrStale, it.version)})
			continue
		}
		_, woken := it.event.(saga.Woken)
		tx, effects, err := saga.Step(w.rec.def, w.rec.tx, it.event, now, l.rnd)
		// A wake that changes nothing moves the timer, and that names the version too.
		unexpected := err != nil || effects.Unexpected != saga.UnexpectedNot || !effects.Changed && !woken
		if unexpected && stale() {
			return false, nil
		}
		if err != nil {
			outcomes = append(outcomes, outcome{rec: w.rec, err: err})
			orphans = append(orphans, orphan(it, err.Error())...)
			continue
		}
		w.rec.tx = tx
		audits = append(audits, lateAudit(w.rec, it.event, effects.Unexpected)...)
		w.add(effects, it.letter)
		for i := range effects.Incidents {
			orphans = append(orphans, incidentRow{it: it, problem: effects.Incidents[i].Problem})
		}
		w.woken = w.woken || woken
		if it.audit != nil {
			audits = append(audits, auditOf(*it.audit, w.rec, &effects))
		}
		if it.submit == nil {
			judged := *w.rec // as this event left it: the batch may go on
			outcomes = append(outcomes, outcome{rec: &judged, stored: w.rec})
		}
	}
	r.take(g, outcomes, w, audits, orphans)
	return true, nil
}

// begin starts a new transaction, unless there is one of that id: of this very submission, in a commit whose
// answer was lost or from a client that repeats it, or of another one.
func (w *write) begin(it *item) (o outcome, fresh bool) {
	s := it.submit
	if w.rec == nil {
		first := s.rec
		w.rec, w.body, w.answer = &first, s.body, s.answer
		return outcome{rec: w.rec, answer: s.answer}, true
	}
	switch {
	case w.rec.caller() != s.rec.caller() || w.rec.requestID != s.rec.requestID:
		return outcome{err: ErrIDTaken}, false
	case w.rec.contentSHA256 == s.rec.contentSHA256:
		return outcome{rec: w.rec, answer: s.answer, replayed: !s.sent}, false
	case s.rec.requestID != "":
		return outcome{err: ErrKeyReused}, false
	}
	return outcome{err: ErrIDTaken}, false
}

// foreign says why the event is a reply that cannot be one to this transaction. Permissions protect the subject
// that a participant replies under, and so its name: nobody may answer for another (I-14).
func (r *record) foreign(ev saga.Event) string {
	replied, ok := ev.(saga.Replied)
	if !ok {
		return ""
	}
	reply := &replied.Reply
	if reply.Tenant != r.tx.Tenant {
		return "names a transaction of another tenant"
	}
	if i := r.def.StepIndex(reply.Step); i >= 0 && r.def.Steps[i].Participant != reply.Participant {
		return "of " + reply.Participant + " is about a step of " + r.def.Steps[i].Participant
	}
	return ""
}

// take adds a decided transaction to the round.
func (r *round) take(g []*item, outcomes []outcome, w *write, audits []dlq.AuditEntry, orphans []incidentRow) {
	r.items = append(r.items, g...)
	r.outcomes = append(r.outcomes, outcomes...)
	r.audits = append(r.audits, audits...)
	r.orphans = append(r.orphans, orphans...)
	if w.rec != nil && (w.changed || w.woken && !w.rec.tx.Status.Terminal()) {
		w.rec.wakeAt = w.wake
		r.bytes += w.bytes()
		r.writes = append(r.writes, w)
	}
}

// commit stores the round, and then counts the versions on.
func (l *lane) commit(ctx context.Context, r *round) error {
	if len(r.writes)+len(r.audits)+len(r.orphans) == 0 {
		return nil
	}
	for _, it := range r.items {
		if it.submit != nil {
			it.submit.sent = true
		}
	}
	slices.SortFunc(r.writes, func(a, b *write) int { return cmp.Compare(string(a.rec.tx.ID[:]), string(b.rec.tx.ID[:])) })
	entries, err := l.store.commit(ctx, r.writes, func(batch *pgx.Batch) {
		for _, a := range r.audits {
			dlq.QueueAudit(batch, a)
		}
		for _, o := range r.orphans {
			o.queue(batch)
		}
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
