package model

import "github.com/sagacity-tx/sagacity/saga"

// Report says what an exploration has seen.
type Report struct {
	States      int
	Transitions int // that lead to a state, new or not; what changes nothing is not counted
	Depth       int // of the last state, in events
	Rows        int // different states of the stored transaction
	StepCalls   int
	Complete    bool // false if a violation or StatesMax ended it
	Violation   *Violation
	Statuses    map[saga.Status]int // states by the status of the transaction
}

// Explore visits every state that can be reached, breadth first, and holds each against the invariants. It ends at
// the first violation, with the shortest way to it.
func (m *Model) Explore() Report {
	r := Report{Statuses: map[saga.Status]int{}}
	start, problem := m.first()
	m.index.add(&m.states, start)
	m.parents = append(m.parents, 0)
	if problem == "" {
		problem = m.check(start)
	}
	if problem != "" {
		r.Violation = &Violation{Rule: problem}
		return m.finished(r)
	}
	levelEnd := 1
	for i := 0; i < len(m.states); i++ {
		if i == levelEnd {
			levelEnd = len(m.states)
			r.Depth++
		}
		if i%(1<<14) == 0 && m.opt.Progress != nil {
			m.opt.Progress(m.finished(r))
		}
		if m.opt.StatesMax > 0 && len(m.states) > m.opt.StatesMax {
			return m.finished(r)
		}
		r.Statuses[m.rows[m.states[i].row].tx.Status]++
		if m.expand(i, &r); r.Violation != nil {
			return m.finished(r)
		}
	}
	r.Violation = m.checkCaches()
	r.Complete = r.Violation == nil
	return m.finished(r)
}

// expand visits the successors of the state of that number.
func (m *Model) expand(i int, r *Report) {
	m.successors(m.states[i], func(next state, mv move) bool {
		r.Transitions++
		if mv.problem == "" && !m.index.add(&m.states, next) {
			return true
		}
		if mv.problem == "" {
			m.parents = append(m.parents, uint32(i))
			mv.problem = m.check(next)
		}
		if mv.problem != "" {
			r.Violation = m.violation(i, mv)
		}
		return r.Violation == nil
	})
}

// Reached returns what was reached, as text: the row, what the participants have recorded, and the clock.
func (m *Model) Reached() map[string]bool {
	all := map[string]bool{}
	for _, s := range m.states {
		all[m.stateText(s)] = true
	}
	return all
}

func (m *Model) finished(r Report) Report {
	r.States, r.Rows, r.StepCalls = len(m.states), len(m.rows), m.steps
	return r
}

// move is what leads from one state to another.
type move struct {
	kind    moveKind
	step    int
	n       int // which of its kind
	problem string
}

type moveKind int

const (
	moveDeadline moveKind = iota
	moveRow               // n of rowMoves
	moveReply             // n is the reply to step
	moveLocal             // n of the localMoves of step
	moveCrash             // n of rowMoves, published but not committed
	moveStale             // an event on the cached row, written over the stored one
)

// successors calls yield for everything that can happen next, until it returns false.
func (m *Model) successors(s state, yield func(state, move) bool) {
	ok := true
	emit := func(next state, mv move) bool {
		ok = ok && yield(next, mv)
		return ok
	}
	_ = m.coordinatorMoves(s, emit) && m.participantMoves(s, emit) && m.secondCoordinator(s, emit)
}

// coordinatorMoves are what the coordinator does on the stored row, which it has just loaded.
func (m *Model) coordinatorMoves(s state, emit func(state, move) bool) bool {
	r := m.rows[s.row]
	if !s.late() && !r.decided {
		next := s
		next.extra |= lateBit
		if !emit(next, move{kind: moveDeadline}) {
			return false
		}
	}
	for n, mv := range m.rowMoves(s.row, s.late()) {
		if !m.written(s, mv.next, move{kind: moveRow, n: n}, emit) {
			return false
		}
	}
	for i := range m.def.Steps {
		for reply := range m.locals[i][s.locals[i]].replies.each {
			next := m.onReply(s.row, i, reply, s.late())
			if next != s.row && !m.written(s, next, move{kind: moveReply, step: i, n: reply}, emit) {
				return false
			}
		}
	}
	return true
}

// written emits the states after a write of the stored row.
func (m *Model) written(s state, row uint32, mv move, emit func(state, move) bool) bool {
	if row == broken {
		mv.problem = m.problemOf(s, mv)
		return emit(s, mv)
	}
	if m.opt.Faults.PublishFirst && mv.kind == moveRow {
		lost := s
		lost.extra |= m.sentMask(row) << publishedShift
		if lost != s && !emit(lost, move{kind: moveCrash, n: mv.n}) {
			return false
		}
	}
	next := m.withRow(s, row).withoutCached()
	if !m.opt.Faults.NoVersionCheck {
		return emit(next, mv)
	}
	old := s.row // a second coordinator may keep what it had
	if c, ok := s.cached(); ok {
		old = c
	}
	return emit(next, mv) && emit(next.withCached(old), mv)
}

// withRow returns the state with another stored row.
func (m *Model) withRow(s state, row uint32) state {
	s.row = row
	for i := range m.def.Steps {
		s.locals[i] = m.settled(i, s.locals[i], m.rows[row].sig[i])
	}
	if m.rows[row].decided { // the deadline has no meaning any more
		s.extra &^= lateBit
	}
	return s
}

// sentMask has a bit for every operation that the row says was sent.
func (m *Model) sentMask(row uint32) uint32 {
	var mask uint32
	for n, sl := range m.slots() {
		if sl.of(&m.rows[row].tx).Sent() {
			mask |= 1 << n
		}
	}
	return mask
}

func (m *Model) participantMoves(s state, emit func(state, move) bool) bool {
	for i := range m.def.Steps {
		for n, mv := range m.localMoves(i, s.locals[i], m.rows[s.row].sig[i]) {
			next := s
			next.locals[i] = mv.next
			if !emit(next, move{kind: moveLocal, step: i, n: n, problem: mv.problem}) {
				return false
			}
		}
	}
	return true
}

// secondCoordinator writes what follows from an old row in its cache over the stored one: without the check of the
// version.
func (m *Model) secondCoordinator(s state, emit func(state, move) bool) bool {
	cached, ok := s.cached()
	if !ok {
		return true
	}
	put := func(next uint32, mv move) bool {
		if next == broken || next == cached {
			return true
		}
		was, is := direction(&m.rows[s.row].tx), direction(&m.rows[next].tx)
		if was != 0 && was != is {
			mv.problem = "I-7: the decision is lost: " + string(m.rows[s.row].tx.Status) + " is overwritten with " + string(m.rows[next].tx.Status)
		}
		return emit(m.withRow(s, next).withoutCached(), mv)
	}
	for n, mv := range m.rowMoves(cached, s.late()) {
		if !put(mv.next, move{kind: moveStale, step: -1, n: n}) {
			return false
		}
	}
	for i := range m.def.Steps {
		for reply := range m.locals[i][s.locals[i]].replies.each {
			if !put(m.onReply(cached, i, reply, s.late()), move{kind: moveStale, step: i, n: reply}) {
				return false
			}
		}
	}
	return true
}
