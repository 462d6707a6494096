package saga_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

// TestTransitionTable enumerates every (status, operation and its state, event) into one golden file: what Step
// answers, or that no event leads there (S2, S2.10–S2.13). Each block shows the shortest way to its state.
func TestTransitionTable(t *testing.T) {
	def := exploredDefinition()
	points := explore(t, def)
	t.Logf("explored %d states", len(points))
	if len(points) < 2000 {
		t.Fatalf("only %d states were explored", len(points))
	}
	var b strings.Builder
	b.WriteString("# Every (status, operation state, event). The steps: a saga, b tcc, p pivot, r retriable, all without after.\n" +
		"# An answer shows the status, the operation's state, and what is to be done.\n\nnot submitted\n" +
		printAnswers(t, def, points[0], slot{"a", saga.PhaseTry}))
	for _, status := range []saga.Status{
		saga.StatusAccepted, saga.StatusRunning, saga.StatusConfirming, saga.StatusCancelling,
		saga.StatusCommitted, saga.StatusCancelled, saga.StatusResolved,
	} {
		b.WriteString(printStatusBlocks(t, def, points, status))
	}
	golden(t, "testdata/transitions.golden", b.String())
}

// printStatusBlocks prints a block for each state that an operation can have in the status, then what is
// impossible. Blocks with the same answers are one.
func printStatusBlocks(t *testing.T, def *saga.Definition, points []point, status saga.Status) string {
	t.Helper()
	var bodies, impossible []string
	titles, ways := map[string][]string{}, map[string]string{}
	for _, s := range exploredSlots() {
		var not []string
		for _, state := range operationStates() {
			i := slices.IndexFunc(points, func(p point) bool {
				return p.tx.Status == status && stateName(operationOf(def, p.tx, s.step, s.phase)) == state
			})
			if i < 0 {
				not = append(not, state)
				continue
			}
			body := printAnswers(t, def, points[i], s)
			if titles[body] == nil {
				bodies, ways[body] = append(bodies, body), strings.Join(points[i].via, ", ")
			}
			titles[body] = append(titles[body], s.String()+" "+state)
		}
		impossible = append(impossible, fmt.Sprintf("impossible: %s, %s %s\n", status, s, strings.Join(not, " · ")))
	}
	var b strings.Builder
	for _, body := range bodies {
		fmt.Fprintf(&b, "\n%s, %s\n  by: %s\n%s", status, strings.Join(titles[body], " · "), ways[body], body)
	}
	return b.String() + "\n" + strings.Join(impossible, "")
}

// operationStates lists the states of operations, those of a replay in flight apart.
func operationStates() []string {
	return []string{
		"idle", "sent", "sent replaying", "waiting", "waiting replaying", "held", "held replaying", "dead",
		"done", "refused", "hanging", "given_up", "closed",
	}
}

func stateName(op saga.Operation) string {
	name := string(op.State)
	if name == "" {
		name = "idle"
	}
	if op.Replaying {
		name += " replaying"
	}
	return name
}

// printAnswers prints the answers to all events that concern one operation; events with equal answers share a
// line.
func printAnswers(t *testing.T, def *saga.Definition, p point, s slot) string {
	t.Helper()
	var answers []string
	events := map[string][]string{}
	for _, e := range pointEvents(def, p, []slot{s}) {
		a := printAnswer(t, def, p, e, s)
		if events[a] == nil {
			answers = append(answers, a)
		}
		events[a] = append(events[a], e.name)
	}
	var b strings.Builder
	for _, a := range answers {
		fmt.Fprintf(&b, "  %s → %s\n", strings.Join(events[a], " · "), a)
	}
	return b.String()
}

// printAnswer says in one line what Step answers.
func printAnswer(t *testing.T, def *saga.Definition, p point, e namedEvent, s slot) string {
	t.Helper()
	tx, effects, err := saga.Step(def, p.tx, e.ev, e.at, slowest{})
	if err != nil {
		var state *saga.StateError
		if !errors.As(err, &state) || state.Status != p.tx.Status {
			t.Fatalf("%s: %#v is no StateError of the present state", e.name, err)
		}
		return "refused: " + state.Code
	}
	parts := []string{"unchanged"}
	if effects.Changed {
		status := string(tx.Status)
		if tx.Suspended() {
			status += " suspended"
		}
		parts[0] = status + ", " + stateName(operationOf(def, tx, s.step, s.phase))
	}
	for _, c := range effects.Commands {
		verb := "send"
		if c.Verb == saga.VerbReserve {
			verb = "reserve"
		}
		parts = append(parts, fmt.Sprintf("%s %s/%s", verb, c.Step, c.Phase))
	}
	for _, d := range effects.DeadLetters {
		parts = append(parts, join("dead letter", d.Step+"/"+string(d.Phase), string(d.To), d.Cause))
	}
	if len(effects.Incidents) > 0 {
		parts = append(parts, "incident")
	}
	if effects.Unexpected != "" {
		parts = append(parts, "not merged: "+string(effects.Unexpected))
	}
	return strings.Join(parts, "; ")
}
