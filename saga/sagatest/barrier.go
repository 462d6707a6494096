package sagatest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// barrier is a participant's database: barrier rows and the business data beside them, changed together in local
// transactions. A local transaction locks its row from the start to its end (B2).
type barrier struct {
	server
	rows     map[rowKey]saga.BarrierRow
	effects  map[rowKey]effects
	locks    map[rowKey]*lock
	suspects map[suspectKey]int // user code that was begun and has not ended
	floor    saga.ID
	books    map[saga.ID]account
}

// rowKey names a barrier row: the tenant is part of it in the product and follows from the transaction here.
type rowKey struct {
	transaction saga.ID
	step        string
}

type suspectKey struct {
	row   rowKey
	phase saga.Phase
}

// effects counts the business changes that were committed for a step, by phase: what really happened, whatever the barrier
// row says.
type effects struct{ try, confirm, cancel int }

// account is what a transaction has moved at a participant: money that is free, and money that a tcc step holds (I-12).
// The amounts of all steps of a transaction add up to zero.
type account struct{ balance, held int64 }

// change is what user code has done in a local transaction that is not committed.
type change struct {
	phase  saga.Phase // "": nothing
	kind   saga.Kind
	amount int64
}

// lock is a row's lock: one holder, others wait in line.
type lock struct {
	holder  *local
	waiting []*local
}

// local is a transaction of a participant's database.
type local struct {
	db         *barrier
	key        rowKey
	over       bool
	committing bool // its end is the server's
	got        func(ok bool)
}

func newBarrier(w *world, name string) *barrier {
	return &barrier{
		server: server{w: w, name: name}, rows: map[rowKey]saga.BarrierRow{}, effects: map[rowKey]effects{},
		locks: map[rowKey]*lock{}, suspects: map[suspectKey]int{}, books: map[saga.ID]account{},
	}
}

// lockTimeout is how long an operation waits for another one of its step.
const lockTimeout = 3 * time.Second

// enter begins a local transaction of a process and locks the row; got hears whether the lock was granted in time. If
// the process dies the server rolls back, a little later.
func (b *barrier) enter(p *process, key rowKey, got func(t *local, ok bool), failed func()) {
	life := p.life
	b.read(p, func() {}, func(ok bool) {
		if !ok {
			failed()
			return
		}
		t := &local{db: b, key: key}
		t.got = func(ok bool) { p.answer(life, b.w.hop(), func() { got(t, ok) }) }
		p.opened(t)
		l := b.locks[key]
		if l == nil {
			l = &lock{}
			b.locks[key] = l
		}
		if l.holder == nil {
			l.holder = t
			t.got(true)
			return
		}
		l.waiting = append(l.waiting, t)
		b.w.after(lockTimeout, func() {
			if l.holder != t && !t.over {
				t.over = true
				t.got(false)
			}
		})
	})
}

// end ends the transaction and passes the lock on.
func (t *local) end() {
	if t.over {
		return
	}
	t.over = true
	l := t.db.locks[t.key]
	if l.holder != t {
		return
	}
	l.holder = nil
	for len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		if !next.over {
			l.holder = next
			next.got(true)
			return
		}
	}
	delete(t.db.locks, t.key)
}

// row returns the row as a command of it sees it.
func (b *barrier) row(key rowKey) saga.BarrierRow {
	row := b.rows[key]
	row.PastRetention = key.transaction.Before(b.floor)
	return row
}

// save commits the transaction: the row and the business change that decide returns for the row as it is stored, or
// nothing if it returns an error.
func (t *local) save(p *process, decide func(saga.BarrierRow) (saga.BarrierRow, change, error), answer func(error)) {
	b := t.db
	t.committing = true
	b.commit(p, func() error {
		if t.over {
			return errNotCommitted // its connection is gone
		}
		before := b.row(t.key)
		row, done, err := decide(before)
		if err != nil {
			return err
		}
		b.put(t.key, before, row, done)
		t.end()
		return nil
	}, t.end, answer)
}

// put stores a row and the business change beside it.
func (b *barrier) put(key rowKey, before, row saga.BarrierRow, done change) {
	row.PastRetention = false
	b.rows[key] = row
	e := b.effects[key]
	switch done.phase {
	case saga.PhaseTry:
		e.try++
	case saga.PhaseConfirm:
		e.confirm++
	case saga.PhaseCancel:
		e.cancel++
	default:
	}
	if done.phase != "" {
		b.effects[key] = e
		b.books[key.transaction] = b.books[key.transaction].after(done)
	}
	b.w.barrierChanged(b, key, before, row, done.phase)
}

// after returns the account after a change.
func (a account) after(c change) account {
	switch {
	case c.phase == saga.PhaseTry && c.kind == saga.KindTCC:
		a.held += c.amount
	case c.phase == saga.PhaseTry:
		a.balance += c.amount
	case c.phase == saga.PhaseConfirm:
		a.held -= c.amount
		a.balance += c.amount
	case c.phase == saga.PhaseCancel && c.kind == saga.KindTCC:
		a.held -= c.amount
	case c.phase == saga.PhaseCancel:
		a.balance -= c.amount
	}
	return a
}

// forget is the participant's retention: it drops what is below the floor, in one local transaction (B7).
func (b *barrier) forget(floor saga.ID) {
	if !b.floor.Before(floor) {
		return
	}
	b.floor = floor
	for _, key := range b.keys() {
		if key.transaction.Before(floor) {
			b.w.checkDropped(b, key, b.rows[key])
			delete(b.rows, key)
		}
	}
}

// held returns the oldest id that has a tcc row whose confirm or cancel is still to come.
func (b *barrier) held() saga.ID {
	var oldest saga.ID
	for key, row := range b.rows {
		if row.State == saga.BarrierTried && row.Kind == saga.KindTCC && (oldest.IsZero() || key.transaction.Before(oldest)) {
			oldest = key.transaction
		}
	}
	return oldest
}

// keys returns the keys of all rows, in order.
func (b *barrier) keys() []rowKey {
	keys := slices.Collect(maps.Keys(b.rows))
	slices.SortFunc(keys, func(a, b rowKey) int {
		return cmp.Or(compareIDs(a.transaction, b.transaction), cmp.Compare(a.step, b.step))
	})
	return keys
}
