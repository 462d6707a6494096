package sagatest

import (
	"errors"
	"time"
)

// server is what the databases of the model have in common: a clock of their own, outages, and commits whose answer
// may be lost.
type server struct {
	w         *world
	name      string
	offset    time.Duration // of its clock
	latest    time.Time     // that its clock has shown before it was set back
	downUntil instant
	epoch     int // rises when an older copy is restored: what was sent before is lost
}

// What a commit or a read may end with, beside what the statement itself refuses.
var (
	errNotCommitted  = errors.New("the database says that nothing was committed")
	errCommitUnknown = errors.New("the connection was lost before the answer to the commit")
)

// now is the server's clock, in whole microseconds as PostgreSQL stores it.
func (s *server) now() time.Time { return s.w.now.time().Add(s.offset).Truncate(time.Microsecond) }

// jump sets the clock, as a failover or a bad NTP server does.
func (s *server) jump(d time.Duration) {
	if now := s.now(); now.After(s.latest) {
		s.latest = now
	}
	s.offset += d
	s.w.note(noID, s.name, "its clock jumps by %s", d)
}

func (s *server) down() bool { return s.w.now < s.downUntil }

// Latencies of a round trip's halves.
const (
	hopMin = 50 * time.Microsecond
	hopMax = 3 * time.Millisecond
)

func (w *world) hop() time.Duration { return w.between(hopMin, hopMax) }

// commit sends a commit. apply happens at the server, all or nothing: its error means that nothing was stored. rollback
// happens at the server instead, when nothing will be. answer happens in the process; errCommitUnknown says that one of
// the two has happened or will happen. A commit that was sent may happen after its process has died.
func (s *server) commit(p *process, apply func() error, rollback func(), answer func(error)) {
	w := s.w
	life := p.life
	unsent := p.cut()
	epoch := s.epoch
	carryOut := func() error {
		err := errNotCommitted
		if epoch == s.epoch {
			err = apply()
		}
		if err != nil {
			rollback()
		}
		return err
	}
	w.after(w.hop(), func() {
		died := p.life != life && w.rnd.IntN(2) == 0 // before the request had left
		switch {
		case died || unsent || s.down() || w.chance(commitFailed):
			rollback()
			p.answer(life, w.hop(), func() { answer(errNotCommitted) })
		case w.chance(commitLost):
			w.after(w.tail(time.Millisecond, time.Second), rollback)
			p.answer(life, w.hop(), func() { answer(errCommitUnknown) })
		case w.chance(commitLate):
			w.after(w.tail(time.Millisecond, 5*time.Second), func() { _ = carryOut() })
			p.answer(life, w.hop(), func() { answer(errCommitUnknown) })
		case w.chance(commitAnswerLost):
			_ = carryOut()
			p.answer(life, w.hop(), func() { answer(errCommitUnknown) })
		default:
			err := carryOut()
			p.answer(life, w.hop(), func() { answer(err) })
		}
	})
}

// read takes a snapshot at the server, and hands the answer to the process.
func (s *server) read(p *process, take func(), answer func(ok bool)) {
	w := s.w
	life := p.life
	unsent := p.cut()
	w.after(w.hop(), func() {
		ok := !unsent && !s.down() && !w.chance(readFailed)
		if ok {
			take()
		}
		p.answer(life, w.hop(), func() { answer(ok) })
	})
}

// answer schedules what a process does with an answer that it waits for: nothing if it has died meanwhile.
func (p *process) answer(life int, d time.Duration, run func()) {
	p.w.agenda.push(event{at: p.w.now.add(d), proc: p, life: life, run: run})
}
