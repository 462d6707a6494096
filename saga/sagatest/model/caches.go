package model

import "github.com/sagacity-tx/sagacity/saga"

// Coordinators with old rows in their caches, any number of them, each with any version that the row ever had.
//
// What such a coordinator does to an event is one of three things. It writes, or moves the timer: that names the
// version, is refused because the version has moved on, and the event is judged again on the stored row (C9). Or Judge
// says Reload, with the same end. Or it answers for good. The first two are what the model does anyway: any event may
// come to the stored row at any time. So it is enough that nothing is answered for good on a row that may have
// become old: on any row but an ended one, after which there is none.

// checkCaches holds that against every row, every reply that there was, and every wish of a person (S2.10).
func (m *Model) checkCaches() *Violation {
	for i, s := range m.states {
		r := m.rows[s.row]
		if r.ended || r.reloads {
			continue
		}
		r.reloads = true
		for _, ev := range m.eventsOf(s.row) {
			j, err := saga.Judge(saga.Case{Def: m.def, Tx: r.tx, Cached: true, Event: ev}, early, longest{})
			m.steps++
			if err != nil || !j.Reload && !j.Effects.Changed && !j.MoveTimer {
				rule := "S2.10: a coordinator whose row may be old answers for good: " + eventText(ev)
				return &Violation{Rule: rule, Trace: m.wayTo(i)}
			}
		}
	}
	return nil
}

// eventsOf lists every reply that there was, to whichever attempt, and everything that people can want.
func (m *Model) eventsOf(row uint32) []saga.Event {
	events := []saga.Event{saga.CancelRequested{}, saga.ResolveRequested{}, saga.Woken{}}
	for i, s := range m.def.Steps {
		for _, k := range m.kinds[i] {
			for _, reply := range m.variants(k, m.rows[row], i) {
				events = append(events, saga.Replied{Reply: reply})
			}
		}
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
			events = append(events, saga.ReplayRequested{Step: s.Name, Phase: phase}, saga.DiscardRequested{Step: s.Name, Phase: phase})
		}
	}
	return events
}
