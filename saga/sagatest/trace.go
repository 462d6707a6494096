package sagatest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// The trace is made in a second run of the same seed, which is why a run is quick: nothing is formatted in the first.

// note adds a line about a transaction to the trace, or about everything with the zero id.
func (w *world) note(id saga.ID, who, format string, args ...any) {
	if !w.tracing || w.stopped() || !w.traceOf.IsZero() && id != w.traceOf && !id.IsZero() {
		return
	}
	text := fmt.Sprintf(format, args...)
	if w.traceOf.IsZero() && !id.IsZero() {
		text = short(id) + " " + text
	}
	w.trace = append(w.trace, line{fmt.Sprintf("%s  %-9s %s", stamp(w.now), who, text), !id.IsZero()})
}

// line is one of a trace.
type line struct {
	text string
	own  bool // of a transaction, not of the world
}

// lines returns the trace; of one transaction, what happened to the world from its first event to its last.
func (w *world) lines() []string {
	first, last := 0, len(w.trace)
	if !w.traceOf.IsZero() {
		own := func(l line) bool { return l.own }
		first = max(slices.IndexFunc(w.trace, own), 0)
		for last > first && !(w.trace[last-1].own && w.trace[last-1].text[traceWho:traceWho+6] != "checks") {
			last--
		}
	}
	var lines []string
	for i, l := range w.trace {
		if first <= i && i < last || l.own {
			lines = append(lines, l.text)
		}
	}
	return lines
}

// traceWho is where a line says who.
const traceWho = 17

// stamp shows an instant as the time since the run's start.
func stamp(t instant) string { return fmt.Sprintf("%14.6fs", time.Duration(t).Seconds()) }

// short shows the end of an id, which is what tells ids apart.
func short(id saga.ID) string { return id.String()[24:] }

// These show values only when a line is made of them.
type (
	commandText struct{ saga.Command }
	replyText   struct{ saga.Reply }
	messageText struct{ wire.Message }
	recordText  struct{ *record }
)

func (c commandText) String() string {
	return fmt.Sprintf("%s %s/%s #%d (%s %s)", c.Verb, c.Step, c.Phase, c.Attempt, c.Kind, c.Action)
}

func (r replyText) String() string {
	s := fmt.Sprintf("%s to %s/%s #%d", r.Outcome, r.Step, r.Phase, r.Attempt)
	for _, part := range []string{string(r.State), r.Code, r.Reason, string(r.Result.Data)} {
		if part != "" {
			s += " " + part
		}
	}
	return s
}

func (m messageText) String() string {
	h := func(name string) string {
		if v := m.Header[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	return fmt.Sprintf("%s/%s #%s", h(wire.HeaderStep), h(wire.HeaderPhase), h(wire.HeaderAttempt))
}

func (r recordText) String() string {
	s := fmt.Sprintf("v%d %s", r.tx.Version, r.tx.Status)
	if r.tx.Suspended() {
		s += " suspended"
	}
	if r.tx.Cause.Why != "" {
		s += " (" + string(r.tx.Cause.Why) + ")"
	}
	for i, step := range r.tx.Steps {
		for _, op := range []saga.Operation{step.Try, step.Settle} {
			if !op.Begun() {
				continue
			}
			s += fmt.Sprintf(" %s/%s:%s#%d", r.def.Steps[i].Name, op.Phase, op.State, op.Attempt)
			if op.Revision > 1 {
				s += fmt.Sprintf("@%d", op.Revision)
			}
			if op.Replaying {
				s += "r"
			}
			if !op.Proposed.IsZero() {
				s += fmt.Sprintf("(edit, reserved %t)", op.Reserved)
			}
			if op.Wait != saga.WaitNone {
				s += "(" + string(op.Wait) + ")"
			}
		}
	}
	return s
}

// eventText says what an event is.
func eventText(ev saga.Event) string {
	switch ev := ev.(type) {
	case saga.Submitted:
		return "submitted"
	case saga.Replied:
		return replyText{ev.Reply}.String()
	case saga.Woken:
		return "woken"
	case saga.CancelRequested:
		return "cancel"
	case saga.ReplayRequested:
		return "replay " + ev.Step + "/" + string(ev.Phase)
	case saga.EditRequested:
		return "edit " + ev.Step + "/" + string(ev.Phase) + " " + string(ev.Input.Data)
	case saga.DiscardRequested:
		return "discard " + ev.Step + "/" + string(ev.Phase)
	case saga.ResolveRequested:
		return "resolve"
	}
	return fmt.Sprintf("%T", ev)
}
