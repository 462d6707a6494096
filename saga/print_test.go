package saga_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// How golden files show what Step answers.

// printStep prints the state on one line and what is to be done on one line each. again says of each command
// whether it repeats a former one.
func printStep(def *saga.Definition, tx saga.Transaction, e saga.Effects, again []bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	if e.Changed {
		line("%s | %s | %s", printStatus(tx), printOperations(def, tx), printWake(e.Wake))
	} else {
		line("unchanged")
	}
	for _, a := range e.Attempts {
		line("attempt #%d of %s/%s ended: %s", a.Attempt, a.Step, a.Phase, join(string(a.Outcome), a.Code, a.Reason))
	}
	for _, d := range e.DeadLetters {
		line("dead letter %s/%s %s%s", d.Step, d.Phase, d.To, prefix(": ", join(d.Cause, d.Reason)))
	}
	for _, d := range e.Edits {
		switch {
		case d.Withdrawn:
			line("edit of %s/%s revision %d withdrawn", d.Step, d.Phase, d.Revision)
		case d.Reserved:
			line("edit of %s/%s revision %d reserved: %s", d.Step, d.Phase, d.Revision, d.Input.Data)
		default:
			line("edit of %s/%s revision %d: %s", d.Step, d.Phase, d.Revision, d.Input.Data)
		}
	}
	for _, i := range e.Incidents {
		line("incident: %s", i.Problem)
	}
	for n, c := range e.Commands {
		line("send %s", printCommand(c, again[n]))
	}
	if e.Unexpected != saga.UnexpectedNot {
		line("not merged: %s", e.Unexpected)
	}
	return b.String()
}

func printCommand(c saga.Command, again bool) string {
	s := fmt.Sprintf("%s/%s #%d", c.Step, c.Phase, c.Attempt)
	if c.Verb != saga.VerbExecute {
		s = string(c.Verb) + " " + s
	}
	if c.Revision > 1 {
		s += fmt.Sprintf(" revision %d", c.Revision)
		again = false
	}
	if again {
		return s + " again"
	}
	s += " to " + c.Participant + " " + string(c.Body)
	if !c.Deadline.IsZero() {
		s += " deadline " + offset(c.Deadline)
	}
	return s
}

func printStatus(tx saga.Transaction) string {
	s := string(tx.Status)
	if tx.Suspended() {
		s += ", suspended"
	}
	if c := tx.Cause; c.Why != "" {
		s += " (" + join(string(c.Why), c.Step, c.Code, c.Reason) + ")"
	}
	return s
}

func printOperations(def *saga.Definition, tx saga.Transaction) string {
	var ops []string
	for i, s := range tx.Steps {
		for _, op := range []saga.Operation{s.Try, s.Settle} {
			if op.Sent() {
				ops = append(ops, fmt.Sprintf("%s/%s %s", def.Steps[i].Name, op.Phase, printOperation(op)))
			}
		}
	}
	if len(ops) == 0 {
		return "nothing sent"
	}
	return strings.Join(ops, ", ")
}

func printOperation(op saga.Operation) string {
	s := string(op.State)
	switch op.State {
	case saga.OperationSent:
		s += fmt.Sprintf(" #%d", op.Attempt)
	case saga.OperationWaiting:
		s += " " + join(fmt.Sprintf("#%d", op.Attempt), string(op.Wait), "until", offset(op.NextAt))
	default:
	}
	if op.Replaying {
		s += " replaying"
	}
	if op.Counted > 0 && op.State.Open() {
		s += fmt.Sprintf(" counted %d", op.Counted)
	}
	return s
}

func printWake(at time.Time) string {
	if at.IsZero() {
		return "no wake"
	}
	return "wake " + offset(at)
}

func printStateError(err error) string {
	var state *saga.StateError
	if !errors.As(err, &state) {
		return "UNTYPED " + err.Error()
	}
	return state.Code + ": " + state.Error()
}

func offset(at time.Time) string { return "+" + at.Sub(begin).String() }

func join(parts ...string) string {
	var filled []string
	for _, p := range parts {
		if p != "" {
			filled = append(filled, p)
		}
	}
	return strings.Join(filled, " ")
}

func prefix(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// firstDifference shows the first line that differs, with the lines before it.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := at(w, i), at(g, i)
		if a == b {
			continue
		}
		return fmt.Sprintf("line %d, after\n%s\nwant %s\ngot  %s", i+1, strings.Join(w[max(0, min(i, len(w))-4):min(i, len(w))], "\n"), a, b)
	}
	return ""
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
