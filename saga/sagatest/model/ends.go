package model

import (
	"fmt"

	"github.com/sagacity-tx/sagacity/saga"
)

// I-11: once faults stop, every transaction ends, or waits for an operator whose replay ends it.

// endsWithin bounds the operations that are settled until the end.
const endsWithin = 4 * stepsMax

// checkEnds follows a state without faults: everything that is in the network is lost, every attempt under way times
// out, what is sent then arrives and is answered, user code does what it is told, and operators replay dead letters.
// The transaction has to end. It depends on the row, the participants and the clock only, and each of these is looked
// at once.
func (m *Model) checkEnds(s state) string {
	for i := range m.def.Steps {
		s.locals[i] = m.locals[i][s.locals[i]].barrier
	}
	s.extra &= lateBit
	var way []state
	for !m.rows[s.row].ended && !m.ends[s] {
		if len(way) > endsWithin {
			return "I-11: no end without faults: " + m.rowText(way[0].row)
		}
		way = append(way, s)
		var problem string
		if s, problem = m.withoutFaults(s); problem == waitsForDownstream {
			break
		} else if problem != "" {
			return problem
		}
	}
	for _, passed := range way {
		m.ends[passed] = true
	}
	return ""
}

// withoutFaults settles one operation. The locals of the state are barriers here.
func (m *Model) withoutFaults(s state) (state, string) {
	tx := m.rows[s.row].tx
	if tx.Status == saga.StatusAccepted || s.late() { // what is due in any case
		next, problem := m.rowEdge(s.row, saga.Woken{}, nil, s.late())
		if problem != "" {
			return s, problem
		}
		if next != s.row {
			s.row = next
			return s.undated(m), ""
		}
	}
	var suspended *slot
	for _, sl := range m.slots() {
		op := sl.of(&tx)
		switch {
		case active(op):
			return m.sendAndSettle(s, sl)
		case op.State == saga.OperationDead && suspended == nil:
			suspended = &sl
		}
	}
	if suspended == nil {
		return s, "I-11: nothing is due and no operator is asked: " + m.rowText(s.row)
	}
	op := suspended.of(&tx)
	next, problem := m.onWay(s, *suspended, saga.ReplayRequested{Step: m.def.Steps[suspended.step].Name, Phase: op.Phase})
	if problem != "" {
		return s, problem
	}
	s.row = next
	return m.settle(s, *suspended)
}

// sendAndSettle waits until the operation is sent again.
func (m *Model) sendAndSettle(s state, sl slot) (state, string) {
	for range 2 { // the attempt times out; then the next is due
		next, problem := m.onWay(s, sl, saga.Woken{})
		if problem != "" {
			return s, problem
		}
		s.row = next
		op := sl.of(&m.rows[next].tx)
		if op.State == saga.OperationSent {
			return m.settle(s, sl)
		}
	}
	return s.undated(m), "" // the deadline has overtaken it
}

// wayKey names an event on the way to the end: what happens to an operation is a wake, or a replay if it is set aside.
type wayKey struct {
	row  uint32
	slot slot
	late bool
}

// onWay puts an event about an operation to the row, once.
func (m *Model) onWay(s state, sl slot, ev saga.Event) (uint32, string) {
	key := wayKey{s.row, sl, s.late()}
	if next, ok := m.way[key]; ok {
		return next, ""
	}
	var due *slot
	if _, woken := ev.(saga.Woken); woken {
		due = &sl
	}
	next, problem := m.rowEdge(s.row, ev, due, s.late())
	if problem == "" {
		m.way[key] = next
	}
	return next, problem
}

// settle lets the last attempt arrive and be answered.
func (m *Model) settle(s state, sl slot) (state, string) {
	op := *sl.of(&m.rows[s.row].tx)
	key := commandKey{op.Phase, m.content(op.ContentSHA256)}
	for range 4 { // an external effect takes several deliveries
		var reply saga.Reply
		s.locals[sl.step], reply = m.obey(sl.step, s.locals[sl.step], key)
		kind := m.kindID(sl.step, m.newKind(reply, op.Attempt))
		next := m.onReply(s.row, sl.step, kind, s.late())
		if next == broken {
			_, problem := m.replyEdge(s.row, sl.step, kind, s.late())
			return s, problem
		}
		if after := sl.of(&m.rows[next].tx); !after.State.Open() {
			s.row = next
			return s.undated(m), ""
		}
		if reply.Outcome == saga.OutcomeUnknown && !m.opt.External.Inquire {
			s.row = next
			return m.giveUp(s, sl)
		}
	}
	return s, fmt.Sprintf("I-11: %s/%s is not settled without faults: %s", m.def.Steps[sl.step].Name, op.Phase, m.rowText(s.row))
}

// waitsForDownstream is the end of what can be done about the fence of a pivot whose effect is in doubt, as long as
// downstream cannot be asked: it is never guessed, and a fence cannot be discarded.
const waitsForDownstream = "waits for downstream"

// giveUp is what is left of an operation whose effect is in doubt if downstream cannot be asked: an operator discards
// it.
func (m *Model) giveUp(s state, sl slot) (state, string) {
	op := sl.of(&m.rows[s.row].tx)
	if sl.settle && m.def.Steps[sl.step].Kind == saga.KindPivot {
		return s, waitsForDownstream
	}
	next, problem := m.rowEdge(s.row, saga.DiscardRequested{Step: m.def.Steps[sl.step].Name, Phase: op.Phase}, nil, s.late())
	switch {
	case problem != "":
		return s, problem
	case next == s.row:
		return s, "S2.13: an open dead letter cannot be discarded: " + m.rowText(s.row)
	}
	s.row = next
	return s.undated(m), ""
}

// obey delivers a command to a participant whose user code does what it is told, and returns its barrier and reply.
func (m *Model) obey(step int, b uint32, key commandKey) (uint32, saga.Reply) {
	if m.opt.External.On {
		return m.obeyExternal(step, b, key)
	}
	a := m.answers(step, b, key)[0]
	return a.next, a.reply
}

// undated forgets the deadline once it has no meaning.
func (s state) undated(m *Model) state {
	if m.rows[s.row].decided {
		s.extra &^= lateBit
	}
	return s
}
