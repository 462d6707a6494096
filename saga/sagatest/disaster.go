package sagatest

import (
	"maps"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Two faults that no protocol survives whole: the coordinators' database forgets commits that it had acknowledged, and a
// participant's database is restored from an older copy. The rules assume that neither happens (see package saga); if it
// does, what is wrong afterwards must be told, never be wrong in silence.
//
// A transaction is wrong if what really happened for its steps (the business changes in the participants' databases and
// the effects at their gateways) is not what its status says: for one that is committed, every step tried once and every
// tcc step confirmed once, nothing cancelled; for one that is cancelled, nothing that was not cancelled; for one that the
// coordinators do not know, nothing at all. Of a resolved one nobody knows, which it says.
//
// Wrong is told if at least one of these is there when everything has ended: an incident about it (of a reply that cannot
// be, or that belongs to nothing), an open dead letter of it, or what the doctor command finds by comparing its status
// and operations with the participants' barrier rows.
//
// What a participant has done outside of its database is known to its barrier row alone. A restored participant may do it
// again, or not undo it, and nothing but a comparison with the outside can tell; runs that restore participants have
// therefore no external effects.

// disaster is what a run of that mode holds.
type disaster struct {
	restores bool // participants; else the coordinators' database forgets
	forgets  []*forgottenDatabase
	copies   [][]*barrierCopy // by participant
	happened bool
}

// forgottenDatabase is a copy of the coordinators' database.
type forgottenDatabase struct {
	rows     map[saga.ID]*record
	ids      []saga.ID
	requests map[requestKey]*request
	outbox   []*outboxRow
	floor    saga.ID
	gone     map[saga.ID]bool
	orphans  map[saga.ID]int
}

// barrierCopy is a copy of a participant's database.
type barrierCopy struct {
	rows     map[rowKey]saga.BarrierRow
	effects  map[rowKey]effects
	books    map[saga.ID]account
	suspects map[suspectKey]int
	floor    saga.ID
}

// Copies are made all the time, and one of the last is taken.
const (
	copyInterval = 3 * time.Second
	copiesMax    = 30
)

// scheduleDisasters makes copies, and restores one of them at some time.
func (w *world) scheduleDisasters() {
	if w.mode != Disaster {
		return
	}
	w.disaster.copies = make([][]*barrierCopy, len(w.participants))
	var again func()
	again = func() {
		if !w.disaster.happened {
			w.copyDatabases()
			w.after(copyInterval, again)
		}
	}
	w.after(0, again)
	w.after(w.between(w.active/10, w.active), w.strike)
}

func (w *world) copyDatabases() {
	d := w.database
	c := &forgottenDatabase{
		rows: maps.Clone(d.rows), ids: slices.Clone(d.ids), requests: maps.Clone(d.requests), floor: d.floor,
		gone: maps.Clone(w.gone), orphans: maps.Clone(d.orphans),
	}
	for _, row := range d.outbox {
		same := *row
		c.outbox = append(c.outbox, &same)
	}
	w.disaster.forgets = append(w.disaster.forgets, c)
	if len(w.disaster.forgets) > copiesMax {
		w.disaster.forgets = w.disaster.forgets[1:]
	}
	for i, p := range w.participants {
		b := p.db
		w.disaster.copies[i] = append(w.disaster.copies[i], &barrierCopy{
			rows: maps.Clone(b.rows), effects: maps.Clone(b.effects), books: maps.Clone(b.books), suspects: maps.Clone(b.suspects), floor: b.floor,
		})
		if len(w.disaster.copies[i]) > copiesMax {
			w.disaster.copies[i] = w.disaster.copies[i][1:]
		}
	}
}

// strike restores an older copy. Whoever restores a database restarts what works on it.
func (w *world) strike() {
	w.disaster.happened = true
	if w.disaster.restores {
		i := w.rnd.IntN(len(w.participants))
		w.faults.counts[participantRestored]++
		w.participants[i].restore(w.disaster.copies[i][w.rnd.IntN(len(w.disaster.copies[i]))])
		return
	}
	w.faults.counts[commitsForgotten]++
	w.note(noID, w.database.name, "forgets commits")
	for _, c := range w.coordinators {
		c.crash()
	}
	c := w.disaster.forgets[w.rnd.IntN(len(w.disaster.forgets))]
	d := w.database
	d.rows, d.ids, d.requests, d.outbox, d.floor = c.rows, c.ids, c.requests, c.outbox, c.floor
	d.orphans, w.gone = c.orphans, c.gone
	d.epoch++
}

func (p *participant) restore(c *barrierCopy) {
	p.w.note(noID, p.db.name, "is restored from an older copy")
	for _, r := range p.replicas {
		r.crash()
	}
	b := p.db
	for _, l := range b.locks {
		for _, t := range append(l.waiting, l.holder) {
			if t != nil {
				t.over = true
			}
		}
	}
	clear(b.locks)
	b.rows, b.effects, b.books, b.suspects, b.floor = c.rows, c.effects, c.books, c.suspects, c.floor
	b.epoch++
}

// checkTold holds every transaction of which anything is known against what happened: what is wrong is told.
func (w *world) checkTold() {
	known := map[saga.ID]bool{}
	for id := range w.orders {
		known[id] = true
	}
	for _, id := range w.database.ids {
		known[id] = true
	}
	for _, p := range w.participants {
		for key := range p.db.effects {
			known[key.transaction] = true
		}
		for key := range p.gateway.keys {
			known[key.transaction] = true
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(known), compareIDs) {
		problem := w.wrong(id)
		if problem == "" {
			continue
		}
		w.detected["wrong"]++
		if by := w.toldBy(id); by != "" {
			w.detected["told by "+by]++
			continue
		}
		w.violated("I-2", id, "%s, and nothing tells of it", problem)
	}
}

// wrong says how what happened differs from what the coordinators say; "" if it does not.
func (w *world) wrong(id saga.ID) string {
	r := w.database.rows[id]
	if r == nil {
		for key, e := range w.happened(id) {
			if e.try != e.cancel || e.confirm > 0 {
				return "nobody knows the transaction, and " + key + " has an effect"
			}
		}
		return ""
	}
	for i := range r.def.Steps {
		s := &r.def.Steps[i]
		e := w.did(s, id)
		switch r.tx.Status {
		case saga.StatusCommitted:
			if e.try != 1 || e.cancel != 0 || s.Kind == saga.KindTCC && e.confirm != 1 {
				return "it is committed, and " + s.Name + " has not its one effect"
			}
		case saga.StatusCancelled:
			if e.try != e.cancel || e.confirm != 0 {
				return "it is cancelled, and " + s.Name + " has an effect"
			}
		case saga.StatusResolved:
		default:
			return "it is " + string(r.tx.Status) + " for ever"
		}
	}
	return ""
}

// happened returns the effects of a transaction that no coordinator knows, by step.
func (w *world) happened(id saga.ID) map[string]effects {
	all := map[string]effects{}
	for _, p := range w.participants {
		for key, e := range p.db.effects {
			if key.transaction == id {
				all[key.step] = e
			}
		}
		for key, c := range p.gateway.keys {
			if key.transaction == id && c.executed > 0 && !c.undone {
				all[key.step] = effects{try: c.executed}
			}
		}
	}
	return all
}

// toldBy says what tells of a wrong transaction; "" if nothing does.
func (w *world) toldBy(id saga.ID) string {
	r := w.database.rows[id]
	switch {
	case r != nil && r.openLetters() > 0:
		return "an open dead letter"
	case r != nil && r.incidents > 0:
		return "an incident"
	case w.database.orphans[id] > 0:
		return "an incident of an orphan reply"
	case w.doctor(id, r):
		return "the doctor only"
	}
	return ""
}

// doctor compares what the coordinators say with the barrier rows, as the doctor command does.
func (w *world) doctor(id saga.ID, r *record) bool {
	confirmed, cancelled, found := false, false, false
	for _, p := range w.participants {
		for key, row := range p.db.rows {
			if key.transaction != id {
				continue
			}
			confirmed = confirmed || row.State == saga.BarrierConfirmed
			cancelled = cancelled || row.Kind != saga.KindPivot && isCancelled(row.State)
			found = found || r == nil && hasEffect(row.State)
		}
	}
	if r == nil {
		return found || confirmed && cancelled
	}
	for i := range r.def.Steps {
		s := &r.def.Steps[i]
		row := w.participant(s.Participant).db.row(rowKey{id, s.Name})
		found = found || !row.PastRetention && contradicts(&r.tx, i, s.Kind, row.State)
	}
	return found || confirmed && cancelled
}

// contradicts reports whether a step's barrier row cannot be so, by what the coordinators say.
func contradicts(tx *saga.Transaction, step int, kind saga.Kind, row saga.BarrierState) bool {
	op := &tx.Steps[step]
	settled := func(phase saga.Phase) bool { return op.Settle.Phase == phase && op.Settle.State == saga.OperationDone }
	switch {
	case tx.Status == saga.StatusCommitted && kind == saga.KindTCC:
		return row != saga.BarrierConfirmed
	case tx.Status == saga.StatusCommitted:
		return row != saga.BarrierTried
	case tx.Status == saga.StatusCancelled:
		return hasEffect(row) || op.Try.Sent() && row != saga.BarrierRefused && !isCancelled(row)
	case tx.Status.Terminal():
		return false
	}
	confirming, cancelling := tx.Status == saga.StatusConfirming, tx.Status == saga.StatusCancelling
	return row == saga.BarrierConfirmed && !confirming || isCancelled(row) && kind != saga.KindPivot && !cancelling ||
		settled(saga.PhaseConfirm) && row != saga.BarrierConfirmed ||
		settled(saga.PhaseCancel) && !isCancelled(row) && row != saga.BarrierRefused ||
		op.Try.State == saga.OperationDone && row != saga.BarrierTried && row != saga.BarrierConfirmed && !isCancelled(row)
}

func hasEffect(s saga.BarrierState) bool {
	return s == saga.BarrierTried || s == saga.BarrierTrying || s == saga.BarrierConfirmed
}

func isCancelled(s saga.BarrierState) bool {
	return s == saga.BarrierCancelled || s == saga.BarrierNullCancelled
}
