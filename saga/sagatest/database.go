package sagatest

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/relay"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// database is the coordinators' PostgreSQL: transactions, request keys, dead letters, incidents and the outbox, all
// of one commit or none. Its rows are never changed in place, so that a copy that somebody holds is a stale one.
type database struct {
	server
	rows     map[saga.ID]*record
	ids      []saga.ID // of rows, in order
	requests map[requestKey]*request
	outbox   []*outboxRow // by id
	floor    saga.ID      // transactions below it were forgotten
	orphans  map[saga.ID]int
}

// record is a transaction as it is stored, with what is stored beside it.
type record struct {
	tx        saga.Transaction
	def       *saga.Definition
	client    string
	requestID string
	content   [32]byte
	wakeAt    time.Time
	letters   []letter // in the order in which they came
	incidents int
	audits    []string
}

// letter is a dead letter.
type letter struct {
	saga.Letter
	opens int // how often it was opened
}

type requestKey struct{ tenant, client, requestID string }

// request is a stored request key; at retention it shrinks to the fact that it was used (S1.3).
type request struct {
	saga.Request
	answer    string
	forgotten bool
}

// outboxRow is a message that is committed and not known to be published.
type outboxRow struct {
	id           relay.RowID
	msg          wire.Message
	about        saga.ID
	size         int
	expires      time.Time
	created      time.Time
	claimedUntil time.Time
}

// What a commit may refuse.
var (
	errConflict = errors.New("a transaction is at another version")
	errKeyTaken = errors.New("a request key or transaction id is taken")

	errLetterMoved = errors.New("a dead letter is at another version")
)

// write is what one batch stores of one transaction.
type write struct {
	rec       *record // as it will be
	before    *record // as it was loaded; nil for a new one
	cached    bool    // before came from memory
	changed   bool
	woken     bool
	wake      time.Time
	judged    []judged
	commands  []saga.Command
	uses      []*use // approvals that they use up
	incidents int
	audits    []string
}

// judged is one event of a write, for the checks.
type judged struct {
	item    *item
	event   saga.Event
	before  saga.Transaction
	after   saga.Transaction
	effects saga.Effects
}

func newDatabase(w *world) *database {
	return &database{
		server: server{w: w, name: "database"}, rows: map[saga.ID]*record{}, requests: map[requestKey]*request{},
		orphans: map[saga.ID]int{},
	}
}

// apply stores the writes and their messages, all or nothing.
func (d *database) apply(writes []*write, rows []*outboxRow, orphans []saga.ID) error {
	for _, w := range writes {
		if err := d.refuses(w); err != nil {
			return err
		}
	}
	for _, w := range writes {
		d.store(w)
	}
	for _, id := range orphans {
		d.orphans[id]++
	}
	for _, row := range rows {
		d.insert(row)
	}
	d.w.committed()
	return nil
}

// refuses says why a write cannot be stored: the transaction has another version than the one it was decided on (C9),
// or a key or id is taken.
func (d *database) refuses(w *write) error {
	stored := d.rows[w.rec.tx.ID]
	if w.before != nil && !w.changed && !w.woken {
		return nil // only told: no row depends on it
	}
	if w.before != nil {
		if stored == nil || stored.tx.Version != w.before.tx.Version && !d.w.sabotaged(WithoutVersionCheck) {
			return errConflict
		}
		if w.moved(stored.letters) {
			return errLetterMoved
		}
		if slices.ContainsFunc(w.uses, func(u *use) bool { return u.refuses(d.now()) }) {
			return errLetterMoved
		}
		return nil
	}
	if stored != nil || d.w.gone[w.rec.tx.ID] {
		return errKeyTaken
	}
	if w.rec.requestID != "" && d.requests[w.rec.key()] != nil {
		return errKeyTaken
	}
	return nil
}

// moved reports whether a dead letter is not as its operator saw it: since then, or by an earlier event of the same write.
func (w *write) moved(letters []letter) bool {
	for i := range w.judged {
		seen := w.judged[i].item.letter
		if seen != nil && !slices.ContainsFunc(letters, func(l letter) bool { return l.ID == seen.ID && l.Version == seen.Version }) {
			return true
		}
		letters = moveLetters(w.rec.tx.ID, letters, &w.judged[i].effects)
	}
	return false
}

func (r *record) key() requestKey { return requestKey{r.tx.Tenant, r.client, r.requestID} }

// request is what identifies the submission that began the transaction.
func (r *record) request() *saga.Request {
	return &saga.Request{
		Tenant: r.tx.Tenant, Client: r.client, RequestID: r.requestID, Transaction: r.tx.ID, ContentSHA256: r.content,
	}
}

func (d *database) store(w *write) {
	next := *w.rec
	stored := d.rows[next.tx.ID]
	switch {
	case w.before != nil && stored == nil:
		d.orphans[next.tx.ID] += w.incidents
		return
	case w.before == nil:
		next.tx.Version = 1
		next.wakeAt = saga.MoveTimer(time.Time{}, w.wake, true, next.tx.Status.Terminal())
		i, _ := slices.BinarySearchFunc(d.ids, next.tx.ID, compareIDs)
		d.ids = slices.Insert(d.ids, i, next.tx.ID)
		if next.requestID != "" {
			d.requests[next.key()] = &request{Request: *next.request(), answer: answerFor(next.tx.ID)}
		}
	default:
		next.letters, next.audits, next.incidents = stored.letters, stored.audits, stored.incidents
		next.wakeAt = stored.wakeAt
		if w.changed || w.woken {
			next.wakeAt = saga.MoveTimer(stored.wakeAt, w.wake, w.woken, next.tx.Status.Terminal())
		}
		if w.changed {
			next.tx.Version = w.before.tx.Version + 1
		} else {
			next.tx = stored.tx
		}
	}
	next.incidents += w.incidents
	next.audits = append(slices.Clone(next.audits), w.audits...)
	for i := range w.judged {
		w.judged[i].item.stored = w.judged[i].item.stored || w.judged[i].effects.Changed
		next.letters = moveLetters(next.tx.ID, next.letters, &w.judged[i].effects)
	}
	for _, u := range w.uses {
		u.store()
	}
	d.rows[next.tx.ID] = &next
	d.w.stored(w, stored, &next)
}

// moveLetters applies changes of dead letters, and of what is proposed in them: an operation has at most one (D1).
func moveLetters(id saga.ID, letters []letter, effects *saga.Effects) []letter {
	if len(effects.DeadLetters)+len(effects.Edits) == 0 {
		return letters
	}
	letters = slices.Clone(letters)
	for n := range effects.DeadLetters {
		c := &effects.DeadLetters[n]
		i := slices.IndexFunc(letters, func(l letter) bool { return l.Step == c.Step && l.Phase == c.Phase })
		if i < 0 {
			letters = append(letters, letter{Letter: saga.Letter{ID: id, Step: c.Step, Phase: c.Phase}})
			i = len(letters) - 1
			letters[i].ID[8] ^= byte(i) + 1 // any that no other has
		}
		letters[i].Status = c.To
		letters[i].Version++
		letters[i].Proposal = nil
		if c.To == saga.DeadLetterOpen {
			letters[i].Cause, letters[i].Outcome = c.Cause, c.Outcome
			letters[i].Revision, letters[i].ContentSHA256 = c.Command.Revision, c.Command.ContentSHA256
			letters[i].opens++
		}
	}
	propose(letters, effects.Edits)
	return letters
}

func (d *database) insert(row *outboxRow) {
	row.created = d.now()
	i, _ := slices.BinarySearchFunc(d.outbox, row, func(a, b *outboxRow) int { return bytes.Compare(a.id[:], b.id[:]) })
	d.outbox = slices.Insert(d.outbox, i, row)
}

// remove deletes outbox rows.
func (d *database) remove(ids map[relay.RowID]bool) {
	d.outbox = slices.DeleteFunc(d.outbox, func(r *outboxRow) bool {
		if ids[r.id] {
			d.w.checkRemoved(r)
		}
		return ids[r.id]
	})
}

// due returns the transactions whose timers are due, and claims them.
func (d *database) due() []saga.ID {
	now := d.now()
	var due []saga.ID
	for _, id := range d.ids {
		r := d.rows[id]
		if !saga.TimerDue(r.wakeAt, now) {
			continue
		}
		next := *r
		next.wakeAt = saga.ClaimTimer(now)
		d.rows[id] = &next
		due = append(due, id)
	}
	return due
}

// nextWake returns the earliest timer; false if there is none.
func (d *database) nextWake() (time.Time, bool) {
	var wake time.Time
	for _, id := range d.ids {
		at := d.rows[id].wakeAt
		if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	return wake, !wake.IsZero()
}

// oldest returns the oldest transaction that has not ended: only those have a timer; and those that wait for a
// person.
func (d *database) oldest() saga.ID {
	for _, id := range d.ids {
		if !d.rows[id].tx.Status.Terminal() {
			return id
		}
	}
	return noID
}

// find returns the stored request of a key; nil if there is none.
func (d *database) find(key requestKey) *request { return d.requests[key] }

func (r *record) openLetters() int {
	n := 0
	for i := range r.letters {
		if r.letters[i].Status == saga.DeadLetterOpen || r.letters[i].Status == saga.DeadLetterReplaying {
			n++
		}
	}
	return n
}

// forget is retention: it drops what MayDrop allows from the oldest on, up to the first that it refuses, and shrinks the
// keys (S1.3). raised is how far the floor may rise.
func (d *database) forget(floor saga.ID) {
	for len(d.ids) > 0 && d.ids[0].Before(floor) {
		id := d.ids[0]
		r := d.rows[id]
		d.w.checkForgotten(r)
		if k := d.requests[r.key()]; r.requestID != "" && k != nil {
			d.requests[r.key()] = &request{Request: k.Request, forgotten: true}
		}
		delete(d.rows, id)
		d.ids = d.ids[1:]
		d.w.gone[id] = true
	}
	d.floor = floor
}

func compareIDs(a, b saga.ID) int { return bytes.Compare(a[:], b[:]) }

var noID saga.ID

// answerFor is the answer that is stored with a request key.
func answerFor(id saga.ID) string { return `{"id":"` + id.String() + `"}` }
