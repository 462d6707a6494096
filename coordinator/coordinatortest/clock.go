package coordinatortest

import (
	"context"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// How time passes: the one loop that makes things happen.

// timeMode says what moves the clock.
type timeMode int

const (
	timeAuto   timeMode = iota // the next thing that is due
	timeManual                 // Advance
	timeReal                   // the machine's clock
)

// wakesMax bounds how often the clock moves by itself for one transaction since somebody last did something about it:
// one whose participant is silent for ever would never let it rest.
const wakesMax = 10_000

// instant is how long an event takes: no two happen at the same time, as in PostgreSQL, which counts microseconds.
const instant = time.Microsecond

func wallClock() time.Time { return time.Now().UTC().Truncate(instant) }

// tick moves the clock on by an instant, or to the machine's time.
func (e *engine) tick() {
	e.now = e.now.Add(instant)
	e.readClock()
}

func (e *engine) readClock() {
	if wall := wallClock(); e.time == timeReal && wall.After(e.now) {
		e.now = wall
	}
}

// pump makes everything happen that is due, and moves the clock on from one instant to the next: by itself, or up to
// an instant that Advance gives. The caller holds the lock.
func (e *engine) pump(until time.Time) {
	for !e.stopped {
		e.readClock()
		if run, ok := e.agenda.take(e.now); ok {
			run()
			continue
		}
		at, k := e.nextWake(until)
		if k != nil && !at.After(e.now) {
			e.wake(k)
			continue
		}
		if planned, ok := e.agenda.next(); ok && (k == nil || planned.Before(at)) {
			at = planned
		}
		if at.IsZero() || !e.mayMoveTo(at, until) {
			e.setTimer(at)
			break
		}
		e.now = at.Add(instant - 1).Truncate(instant)
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// mayMoveTo reports whether the clock may go to an instant that is ahead. User code that runs takes no time.
func (e *engine) mayMoveTo(at, until time.Time) bool {
	switch {
	case e.running > 0 || e.time == timeReal:
		return false
	case !until.IsZero():
		return !at.After(until)
	}
	return e.time == timeAuto
}

// nextWake returns the transaction that is due next. Unless somebody moves the clock, that is not one that would
// move it for ever, nor one that only waits for a person and would miss its deadline doing so.
func (e *engine) nextWake(until time.Time) (at time.Time, due *kept) {
	live := e.live[:0]
	for _, k := range e.live {
		if k.Tx.Status.Terminal() {
			continue
		}
		live = append(live, k)
		waits := k.wakes >= wakesMax || k.Tx.Suspended() && k.WakeAt.Equal(k.Tx.Deadline) || e.paused(k)
		ahead := k.WakeAt.After(e.now)
		if k.WakeAt.IsZero() || ahead && waits && until.IsZero() && e.time == timeAuto {
			continue
		}
		if due == nil || k.WakeAt.Before(at) {
			at, due = k.WakeAt, k
		}
	}
	e.live = live
	return at, due
}

// wake tells a transaction that its time has come.
func (e *engine) wake(k *kept) {
	k.wakes++
	if k.wakes == wakesMax {
		e.note("%s has been woken %d times; the clock does not move for it by itself any more", short(k.Tx.ID), wakesMax)
	}
	_ = e.judge(k, saga.Woken{Heard: e.heard}, nil, 0) // it is never illegal
	if !k.WakeAt.IsZero() && !k.WakeAt.After(e.now) {
		k.WakeAt = e.now.Add(time.Millisecond) // never twice at one instant
	}
}

// setTimer makes the loop run again at an instant of the machine's clock.
func (e *engine) setTimer(at time.Time) {
	if e.timer != nil {
		e.timer.Stop()
	}
	if e.time != timeReal || at.IsZero() {
		return
	}
	e.timer = time.AfterFunc(at.Sub(e.now), func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pump(time.Time{})
	})
}

func (e *engine) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readClock()
	return e.now
}

func (e *engine) advance(d time.Duration) {
	if e.time == timeReal {
		panic("coordinatortest: Advance: the time is real, nothing can move it")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	target := e.now.Add(d)
	for _, k := range e.live {
		k.wakes = 0
	}
	e.pump(target)
	for e.running > 0 && !e.stopped {
		e.awaitChange()
		e.pump(target)
	}
	if e.now.Before(target) {
		e.now = target
	}
	e.pump(time.Time{})
}

func (e *engine) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.running > 0 && !e.stopped {
		e.awaitChange()
	}
}

// awaitChange lets go of the lock until the loop has run.
func (e *engine) awaitChange() {
	changed := e.changed
	e.mu.Unlock()
	<-changed
	e.mu.Lock()
}

// awaitEnd returns the transaction when it has ended, when nothing more can happen by itself, or when ctx ends.
func (e *engine) awaitEnd(ctx context.Context, k *kept) coordinator.View {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		idle := e.time != timeReal && e.running == 0
		if k.Tx.Status.Terminal() || idle || e.stopped || ctx.Err() != nil {
			return k.View()
		}
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		e.mu.Lock()
	}
}
