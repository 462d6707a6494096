package sagatest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Violation is a rule that did not hold.
type Violation struct {
	Rule        string // its id
	Transaction saga.ID
	At          instant
	Text        string
}

// String says it in a sentence.
func (v *Violation) String() string {
	about := ""
	if !v.Transaction.IsZero() {
		about = " of transaction " + v.Transaction.String()
	}
	return fmt.Sprintf("%s does not hold%s at %s: %s", v.Rule, about, stamp(v.At)[1:], v.Text)
}

// violated notes the first violation, which ends the run.
func (w *world) violated(rule string, id saga.ID, format string, args ...any) {
	if !w.stopped() {
		v := &Violation{Rule: rule, Transaction: id, At: w.now, Text: fmt.Sprintf(format, args...)}
		w.note(id, "checks", "%s: %s", rule, v.Text)
		w.violation = v
	}
}

func (w *world) stopped() bool { return w.violation != nil }

// touch says that something about a transaction has changed: it is checked at the end of the event.
func (w *world) touch(id saga.ID) {
	for _, t := range w.touched {
		if t == id {
			return
		}
	}
	w.touched = append(w.touched, id)
}

// checkTouched checks every transaction that the event has changed.
func (w *world) checkTouched() {
	for _, id := range w.touched {
		w.checkTransaction(id)
	}
	w.touched = w.touched[:0]
}

func (w *world) history(id saga.ID) *history {
	h := w.histories[id]
	if h == nil {
		h = newHistory()
		w.histories[id] = h
	}
	return h
}

// stored is called for every write that the database has taken.
func (w *world) stored(wr *write, before, after *record) {
	id := after.tx.ID
	w.touch(id)
	if w.tracing {
		for i := range wr.judged {
			if !wr.judged[i].effects.Changed {
				continue
			}
			w.note(id, "database", "stores %s: %s", eventText(wr.judged[i].event), recordText{after})
		}
	}
	if w.mode != Normal {
		return
	}
	if wr.changed {
		w.haunt(after)
	}
	if wr.before == nil {
		w.checkVersion(id, 0, after.tx.Version)
	} else if wr.changed {
		w.checkVersion(id, before.tx.Version, after.tx.Version)
	}
	h := w.history(id)
	for i := range wr.judged {
		w.transition(h, after.def, &wr.judged[i])
	}
	if after.incidents > 0 && before != nil && after.incidents != before.incidents && !w.forged[id] {
		w.violated("S2.10", id, "an incident is filed, although all participants obey")
	}
}

// checkVersion: every write raises the version by one (I-7).
func (w *world) checkVersion(id saga.ID, before, after int64) {
	if after != before+1 {
		w.violated("I-7", id, "version %d follows %d", after, before)
	}
}

// committed is called after every commit that the database has taken.
func (w *world) committed() { w.armAll() }

// checkPublished: a command follows from what is committed (I-8).
func (w *world) checkPublished(m *message) {
	if w.mode != Normal {
		return
	}
	verb, step, phase := first(m.Header, wire.HeaderVerb), first(m.Header, wire.HeaderStep), first(m.Header, wire.HeaderPhase)
	if m.to.name == replies || verb == string(saga.VerbInquire) {
		return
	}
	r := w.database.rows[m.about]
	switch {
	case w.gone[m.about]:
	case r == nil:
		w.violated("I-8", m.about, "a command of %s/%s is published, and no transaction is committed", step, phase)
	default:
		op := operation(r.def, &r.tx, step, saga.Phase(phase))
		if attempt := first(m.Header, wire.HeaderAttempt); fmt.Sprint(op.Attempt) < attempt && len(fmt.Sprint(op.Attempt)) <= len(attempt) {
			w.violated("I-8", m.about, "attempt %s of %s/%s is published, and the committed one is %d", attempt, step, phase, op.Attempt)
		}
	}
}

func first(h wire.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// checkSwallowed: within the dedup window only copies are dropped, never an intended sending (C3).
func (w *world) checkSwallowed(m *message, known dedupEntry) {
	if got := attemptOf(m.Message); got != known.body && w.mode == Normal {
		w.violated("C3", m.about, "message %s (attempt %s) is dropped as a copy of attempt %s", m.id, got, known.body)
	}
}

// checkAcked: a command is acknowledged only after a reply to it was published (B5).
func (w *world) checkAcked(d *delivery) {
	if d.to.name != replies && d.id != "" && !d.bag.answered[attemptKey(d.Message)] {
		w.violated("B5", d.about, "command %s is acknowledged before its reply is published", d.id)
	}
}

// checkMerged: a reply is acknowledged only after what it says is committed: judged once more on the stored row it
// changes nothing (C9, S2.10).
func (w *world) checkMerged(reply saga.Reply, err error) {
	r := w.database.rows[reply.Transaction]
	_, refused := errors.AsType[*saga.StateError](err)
	if r == nil || refused || errors.Is(err, saga.ErrNotFound) || w.mode != Normal {
		return
	}
	if op := operation(r.def, &r.tx, reply.Step, reply.Phase); reply.Outcome == saga.OutcomeReserved && reply.Attempt < op.Attempt {
		return // it came before the edit that asks again, maybe in the same commit: of use to that, and not needed (S1.5)
	}
	_, effects, stepErr := saga.Step(r.def, r.tx, saga.Replied{Reply: reply}, w.database.now(), w.rnd)
	if stepErr == nil && effects.Changed {
		w.violated("S2.10", reply.Transaction, "reply %s is acknowledged, and the stored transaction does not know it yet", replyText{reply})
	}
}

// checkReply: definitive replies repeat byte for byte (I-5).
func (w *world) checkReply(j *job, reply saga.Reply) {
	if reply.Verb != saga.VerbExecute || reply.Outcome != saga.OutcomeDone && reply.Outcome != saga.OutcomeRefused {
		return
	}
	h := w.history(j.key.transaction)
	key := slot{j.key.step, reply.Phase}
	given, ok := h.replies[key]
	if !ok {
		h.replies[key] = reply
		return
	}
	same := given.Outcome == reply.Outcome && given.Code == reply.Code && given.Reason == reply.Reason &&
		given.Result.Type == reply.Result.Type && bytes.Equal(given.Result.Data, reply.Result.Data) &&
		given.Revision == reply.Revision && given.ContentSHA256 == reply.ContentSHA256
	if !same && w.mode == Normal {
		w.violated("I-5", j.key.transaction, "%s/%s was answered %s, and is now answered %s", j.key.step, reply.Phase,
			replyText{given}, replyText{reply})
	}
}

// checkInTime: a try whose deadline has passed by the clock of its participant's database is not begun (T1, B4). What must
// go forward has no deadline.
func (w *world) checkInTime(j *job) {
	late := !j.cmd.Deadline.IsZero() && j.p.db.now().After(j.cmd.Deadline)
	if j.cmd.Phase == saga.PhaseTry && j.cmd.Kind != saga.KindRetriable && late {
		w.violated("T1", j.key.transaction, "%s is tried after its deadline", j.key.step)
	}
}

// barrierChanged is called for every commit at a participant: what is recorded as refused or cancelled is never tried
// afterwards, and below the floor nothing executes (I-6).
func (w *world) barrierChanged(b *barrier, key rowKey, before, row saga.BarrierRow, phase saga.Phase) {
	w.touch(key.transaction)
	w.note(key.transaction, b.name, "%s is %s, was %s", key.step, row.State, orAbsent(before.State))
	if w.mode != Normal {
		return
	}
	h := w.history(key.transaction)
	settled, ok := h.settled[key]
	if ok && (phase == saga.PhaseTry || row.State == saga.BarrierTried || row.State == saga.BarrierTrying) {
		w.violated("I-6", key.transaction, "%s is tried after it was %s", key.step, settled)
	}
	if phase != "" && key.transaction.Before(b.floor) {
		w.violated("I-6", key.transaction, "the %s of %s executes below the floor", phase, key.step)
	}
	switch row.State {
	case saga.BarrierRefused, saga.BarrierCancelled, saga.BarrierNullCancelled:
		h.settled[key] = row.State
		w.hauntRecorded(key.transaction)
	case saga.BarrierTried, saga.BarrierConfirmed:
		if r := w.database.rows[key.transaction]; r != nil && anyUnusual(r) {
			w.hauntRecorded(key.transaction)
		}
	default:
	}
}

func orAbsent(s saga.BarrierState) saga.BarrierState {
	if s == "" {
		return saga.BarrierAbsent
	}
	return s
}

// did returns what really happened for a step: the business changes in the participant's database, and the effects at its
// gateway.
func (w *world) did(s *saga.StepDefinition, id saga.ID) effects {
	p := w.participant(s.Participant)
	key := rowKey{id, s.Name}
	e := p.db.effects[key]
	if c := p.gateway.keys[key]; c != nil {
		e.try += c.executed
		if c.confirmed {
			e.confirm++
		}
		if c.undone && c.executed > 0 {
			e.cancel++
		}
	}
	return e
}

func (w *world) participant(name string) *participant {
	for _, p := range w.participants {
		if p.name == name {
			return p
		}
	}
	return nil
}

// checkTransaction holds what is true of a transaction at every moment.
func (w *world) checkTransaction(id saga.ID) {
	r := w.database.rows[id]
	w.checkFound(id, r)
	if r == nil || w.stopped() || w.mode != Normal {
		return
	}
	confirmed, cancelled := "", ""
	for i := range r.def.Steps {
		s := &r.def.Steps[i]
		row := w.participant(s.Participant).db.row(rowKey{id, s.Name})
		e := w.did(s, id)
		if e.try > 1 || e.confirm > 1 || e.cancel > 1 {
			w.violated("I-3", id, "%s: tried %d times, confirmed %d times, cancelled %d times", s.Name, e.try, e.confirm, e.cancel)
		}
		if (e.confirm > 0 || row.State == saga.BarrierConfirmed) && e.try == 0 {
			w.violated("I-4", id, "%s is confirmed, and was never tried", s.Name)
		}
		switch row.State {
		case saga.BarrierConfirmed:
			confirmed = s.Name
		case saga.BarrierCancelled, saga.BarrierNullCancelled:
			cancelled = s.Name
		default:
		}
		if confirmed != "" && cancelled != "" {
			w.violated("I-1", id, "%s is confirmed and %s is cancelled", confirmed, cancelled)
		}
		w.checkSettled(r, i, row, e)
	}
	w.checkEnded(r)
}

// checkSettled holds a step of an ended transaction against what happened (I-2).
func (w *world) checkSettled(r *record, step int, row saga.BarrierRow, e effects) {
	s := &r.def.Steps[step]
	id := r.tx.ID
	switch r.tx.Status {
	case saga.StatusCommitted:
		want := saga.BarrierTried
		if s.Kind == saga.KindTCC {
			want = saga.BarrierConfirmed
		}
		if row.State != want && !row.PastRetention {
			w.violated("I-2", id, "it is committed, and %s is %s", s.Name, orAbsent(row.State))
		}
		if e.try != 1 || s.Kind == saga.KindTCC && e.confirm != 1 || e.cancel != 0 {
			w.violated("I-2", id, "it is committed, and %s was tried %d times, confirmed %d times, cancelled %d times", s.Name, e.try, e.confirm, e.cancel)
		}
		if try := &r.tx.Steps[step].Try; !row.PastRetention && (row.Try.Revision != try.Revision || row.Try.ContentSHA256 != try.ContentSHA256) {
			w.violated("S1.5", id, "it is committed, and revision %d of %s was tried, not revision %d", row.Try.Revision, s.Name, try.Revision)
		}
	case saga.StatusCancelled:
		sent := r.tx.Steps[step].Try.Sent()
		refuses := row.State == saga.BarrierRefused || row.State == saga.BarrierCancelled || row.State == saga.BarrierNullCancelled
		if sent && !refuses && !row.PastRetention {
			w.violated("I-2", id, "it is cancelled, and %s is %s: a late try would execute", s.Name, orAbsent(row.State))
		}
		if e.try != e.cancel || e.confirm != 0 || s.Kind == saga.KindPivot && e.try > 0 {
			w.violated("I-2", id, "it is cancelled, and %s was tried %d times, confirmed %d times, cancelled %d times", s.Name, e.try, e.confirm, e.cancel)
		}
	default:
	}
}

// checkEnded: no open dead letter, nothing due (I-15).
func (w *world) checkEnded(r *record) {
	if !r.tx.Status.Terminal() {
		if r.wakeAt.IsZero() && !r.tx.Suspended() {
			w.violated("I-11", r.tx.ID, "it is %s, nothing is due and no operator is asked", r.tx.Status)
		}
		return
	}
	for _, l := range r.letters {
		if l.Status == saga.DeadLetterOpen || l.Status == saga.DeadLetterReplaying {
			w.violated("I-15", r.tx.ID, "it is %s, and the dead letter of %s/%s is %s", r.tx.Status, l.Step, l.Phase, l.Status)
		}
	}
	if !r.wakeAt.IsZero() {
		w.violated("I-15", r.tx.ID, "it is %s, and something is due at %s", r.tx.Status, r.wakeAt)
	}
}

// checkFound: an accepted submission is found by its id and its request id until retention, and then remembered (I-9).
func (w *world) checkFound(id saga.ID, r *record) {
	o := w.orders[id]
	if o == nil || w.mode != Normal {
		return
	}
	switch {
	case r == nil && !w.gone[id]:
		w.violated("I-9", id, "it was accepted, and is not there")
	case r != nil && (r.tx.Tenant != o.tenant || r.client != o.client):
		w.violated("I-14", id, "it belongs to %s/%s, and was accepted from %s/%s", r.tx.Tenant, r.client, o.tenant, o.client)
	}
	if o.requestID == "" {
		return
	}
	k := w.database.requests[requestKey{o.tenant, o.client, o.requestID}]
	if k == nil || k.Transaction != id || k.forgotten != w.gone[id] {
		w.violated("I-9", id, "it was accepted, and its request id does not lead to it")
	}
}

// checkForgotten: retention never drops what has not ended (I-10).
func (w *world) checkForgotten(r *record) {
	if !r.tx.Status.Terminal() || r.openLetters() > 0 {
		w.violated("I-10", r.tx.ID, "retention drops it while it is %s", r.tx.Status)
	}
	if age := w.database.now().Sub(r.tx.FinishedAt); age < w.retention-time.Minute { // clocks are set
		w.violated("I-9", r.tx.ID, "retention drops it %s after its end", age)
	}
}

// checkDropped: retention never drops a barrier row of what has not ended (I-10).
func (w *world) checkDropped(b *barrier, key rowKey, row saga.BarrierRow) {
	if r := w.database.rows[key.transaction]; r != nil && !r.tx.Status.Terminal() && w.mode == Normal {
		w.violated("I-10", key.transaction, "%s drops the row of %s (%s) while it is %s", b.name, key.step, row.State, r.tx.Status)
	}
}

// checkRemoved: a row leaves the outbox only when its message was stored, or when its time is over (C2).
func (w *world) checkRemoved(row *outboxRow) {
	d := w.database
	if w.mode != Normal {
		return
	}
	over := d.latest.After(row.expires) || d.now().Add(driftMax).After(row.expires)
	if !over && !w.bag.accepted[first(row.msg.Header, wire.HeaderMsgID)] {
		w.violated("C2", row.about, "%s leaves the outbox, and was never published", messageText{row.msg})
	}
}
