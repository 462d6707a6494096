package sagatest

import (
	"slices"
	"time"
)

// Virtual time. Everything that happens is an event of one heap, taken in the order of its instant; equal
// instants go by the order in which they were scheduled, so that a seed always gives the same run.

// begin is the instant at which every run starts.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// instant is a virtual time: nanoseconds since begin.
type instant int64

func (t instant) time() time.Time { return begin.Add(time.Duration(t)) }

func (t instant) add(d time.Duration) instant { return t + instant(d) }

// event is something that happens at an instant. One of a process happens only if that process still lives the
// same life, and not before a pause of it is over.
type event struct {
	at   instant
	seq  uint64
	proc *process
	life int
	run  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// agenda is the heap of events.
type agenda struct {
	events []event
	seq    uint64
}

func (a *agenda) push(e event) {
	a.seq++
	e.seq = a.seq
	a.events = append(a.events, e)
	i := len(a.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !a.events[i].before(&a.events[parent]) {
			break
		}
		a.events[i], a.events[parent] = a.events[parent], a.events[i]
		i = parent
	}
}

func (a *agenda) pop() event {
	top := a.events[0]
	last := len(a.events) - 1
	a.events[0] = a.events[last]
	a.events[last] = event{}
	a.events = a.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if a.events[child].before(&a.events[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		a.events[i], a.events[least] = a.events[least], a.events[i]
		i = least
	}
}

// after schedules what the surroundings do: networks, servers, people. It happens whatever dies meanwhile.
func (w *world) after(d time.Duration, run func()) {
	w.agenda.push(event{at: w.now.add(d), run: run})
}

// between draws a duration from [low, high).
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rnd.Int64N(int64(high-low)))
}

// tail draws a duration from low to high so that every order of magnitude is as likely as the others.
func (w *world) tail(low, high time.Duration) time.Duration {
	d := low
	for d < high && w.rnd.IntN(3) > 0 {
		d *= 3
	}
	return min(w.between(d/2, d+1), high)
}

// process is one process of the model: a coordinator or a replica of a participant. What it holds in memory is
// lost in a crash.
type process struct {
	w           *world
	name        string
	alive       bool
	life        int
	pausedUntil instant
	cutUntil    instant // it can reach neither database nor bag until then
	down        bool    // kept down by an outage
	start       func()  // begins a life
	locals      []*local
}

// after schedules what the process itself does next.
func (p *process) after(d time.Duration, run func()) {
	p.w.agenda.push(event{at: p.w.now.add(d), proc: p, life: p.life, run: run})
}

// then goes on to the next action behind a crash point: the process may die there, or be paused.
func (p *process) then(at point, next func()) {
	w := p.w
	w.points[at].reached++
	if w.chanceAt(crashed, at) {
		p.crash()
		return
	}
	if w.chanceAt(paused, at) {
		p.pause(w.tail(10*time.Millisecond, pauseMax))
	}
	p.after(w.between(10*time.Microsecond, time.Millisecond), next)
}

// pauseMax is long enough for leases, attempt timeouts and redeliveries to pass meanwhile.
const pauseMax = 5 * time.Minute

// pause stops the process for a while, as a collection of garbage or SIGSTOP does. It notices nothing.
func (p *process) pause(d time.Duration) {
	p.pausedUntil = max(p.pausedUntil, p.w.now.add(d))
	p.w.note(noID, p.name, "is paused for %s", d)
}

// crash ends a life, and begins the next one later.
func (p *process) crash() {
	if !p.alive {
		return
	}
	p.alive, p.pausedUntil, p.cutUntil = false, 0, 0
	p.life++
	p.w.note(noID, p.name, "dies")
	for _, t := range p.locals {
		if !t.committing { // the server notices later
			p.w.after(p.w.between(0, time.Second), t.end)
		}
	}
	p.locals = nil
	if !p.down {
		p.w.after(p.w.tail(50*time.Millisecond, time.Minute), p.restart)
	}
}

// restart begins a life, unless the process lives or is kept down.
func (p *process) restart() {
	if p.alive || p.down {
		return
	}
	p.alive = true
	p.life++
	p.w.note(noID, p.name, "starts")
	p.start()
}

// cut reports whether the process reaches nothing.
func (p *process) cut() bool { return p.w.now < p.cutUntil }

// opened notes a local transaction of the process, which the server rolls back a while after the process has died.
func (p *process) opened(t *local) {
	if len(p.locals) >= 32 {
		p.locals = slices.DeleteFunc(p.locals, func(t *local) bool { return t.over || t.committing })
	}
	p.locals = append(p.locals, t)
}
