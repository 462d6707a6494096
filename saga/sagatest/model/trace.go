package model

import (
	"fmt"
	"strings"

	"github.com/sagacity-tx/sagacity/saga"
)

// Violation is a broken rule and the shortest way to it.
type Violation struct {
	Rule  string
	Trace []string // what happened, and the state after it
}

// String is for people.
func (v *Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, by %d events:\n", v.Rule, len(v.Trace))
	for i, line := range v.Trace {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, line)
	}
	return b.String()
}

// wayTo tells the way to the state of that number.
func (m *Model) wayTo(at int) []string {
	var way []int
	for n := at; n != 0; n = int(m.parents[n]) {
		way = append([]int{n}, way...)
	}
	var trace []string
	from := m.states[0]
	for _, n := range way {
		to := m.states[n]
		m.successors(from, func(next state, step move) bool {
			if next != to || step.problem != "" {
				return true
			}
			trace = append(trace, m.moveText(from, step)+"\n       "+m.stateText(to))
			return false
		})
		from = to
	}
	return trace
}

// violation tells the way to the state of that number, and the move from there.
func (m *Model) violation(at int, mv move) *Violation {
	from := m.states[at]
	v := &Violation{Rule: mv.problem, Trace: m.wayTo(at)}
	last := m.moveText(from, mv)
	m.successors(from, func(next state, step move) bool {
		step.problem = mv.problem
		if step != mv {
			return true
		}
		last += "\n       " + m.stateText(next)
		return false
	})
	v.Trace = append(v.Trace, last)
	return v
}

// problemOf asks again for the rule that a write breaks.
func (m *Model) problemOf(s state, mv move) string {
	var problem string
	if mv.kind == moveReply {
		_, problem = m.replyEdge(s.row, mv.step, mv.n, s.late())
	} else {
		known := m.rowMoves(s.row, s.late())[mv.n]
		_, problem = m.rowEdge(s.row, known.ev, known.due, s.late())
	}
	return problem
}

func (m *Model) moveText(s state, mv move) string {
	switch mv.kind {
	case moveDeadline:
		return "the deadline passes"
	case moveRow:
		return m.rowMoves(s.row, s.late())[mv.n].what
	case moveCrash:
		return m.rowMoves(s.row, s.late())[mv.n].what + ", but the coordinator dies after publishing and before its commit"
	case moveReply:
		return m.replyText(mv)
	case moveLocal:
		return m.localMoves(mv.step, s.locals[mv.step], m.rows[s.row].sig[mv.step])[mv.n].what
	case moveStale:
		return m.staleText(s, mv)
	}
	return ""
}

func (m *Model) staleText(s state, mv move) string {
	cached, _ := s.cached()
	var what string
	if mv.step < 0 {
		what = m.rowMoves(cached, s.late())[mv.n].what
	} else {
		what = m.replyText(mv)
	}
	return what + ", for the second coordinator, which has an older row: " + m.rowText(cached)
}

func (m *Model) replyText(mv move) string {
	return fmt.Sprintf("the reply %s of %s arrives", m.kinds[mv.step][mv.n], m.def.Steps[mv.step].Name)
}

func (m *Model) stateText(s state) string {
	parts := []string{m.rowText(s.row)}
	for i := range m.def.Steps {
		l := m.locals[i][s.locals[i]]
		b := &m.barriers[i][l.barrier]
		name := string(b.row.State)
		if name == "" {
			name = string(saga.BarrierAbsent)
		}
		if b.ext != (external{}) {
			name += " " + b.ext.String()
		}
		if l.open != "" {
			name += fmt.Sprintf(" (%s not committed)", l.open)
		}
		parts = append(parts, m.def.Steps[i].Participant+": "+name)
	}
	if s.late() {
		parts = append(parts, "past the deadline")
	}
	return strings.Join(parts, " | ")
}

func (m *Model) rowText(id uint32) string {
	tx := &m.rows[id].tx
	text := string(tx.Status)
	for _, s := range m.slots() {
		op := s.of(tx)
		if !op.Sent() {
			continue
		}
		text += fmt.Sprintf(", %s/%s %s", m.def.Steps[s.step].Name, op.Phase, op.State)
		if active(op) {
			text += fmt.Sprintf(" #%d", op.Attempt)
		}
		if op.Replaying {
			text += " replaying"
		}
	}
	return text
}

func eventText(ev saga.Event) string {
	if r, ok := ev.(saga.Replied); ok {
		return fmt.Sprintf("reply %s (%s) to %s/%s", r.Reply.Outcome, r.Reply.Code, r.Reply.Step, r.Reply.Phase)
	}
	return fmt.Sprintf("%T", ev)
}
