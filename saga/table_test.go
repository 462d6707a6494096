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
	if len(points) < 500 {
		t.Fatalf("only %d states were explored", len(points))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Every (status, operation state, event). The steps: a saga, b tcc, p pivot, r retriable, in this order.\n")
	fmt.Fprintf(&b, "# An answer shows the status, the operation's state, and what is to be done.\n")
	printBlock(t, &b, def, points[0], slot{"a", saga.PhaseTry}, "not submitted")
	for _, status := range []saga.Status{saga.StatusAccepted, saga.StatusRunning, saga.StatusConfirming, saga.StatusCancelling,
		saga.StatusCommitted, saga.StatusCancelled, saga.StatusResolved} {
		for _, s := range exploredSlots() {
			printSlot(t, &b, def, points, status, s)
		}
	}
	golden(t, "testdata/transitions.golden", b.String())
}

// printSlot prints a block for each state that the operation can have in the status.
func printSlot(t *testing.T, b *strings.Builder, def *saga.Definition, points []point, status saga.Status, s slot) {
	t.Helper()
	var impossible []string
	for _, state := range operationStates() {
		i := slices.IndexFunc(points, func(p point) bool {
			return p.tx.Status == status && stateName(operationOf(def, p.tx, s.step, s.phase)) == state
		})
		if i < 0 {
			impossible = append(impossible, state)
			continue
		}
		printBlock(t, b, def, points[i], s, fmt.Sprintf("%s, %s %s", status, s, state))
	}
	fmt.Fprintf(b, "\nimpossible: %s, %s %s\n", status, s, strings.Join(impossible, " · "))
}

// operationStates lists the states of operations, those of a replay in flight apart.
func operationStates() []string {
	return []string{"idle", "sent", "sent replaying", "waiting", "waiting replaying", "held", "held replaying", "dead",
		"done", "refused", "hanging", "given_up", "closed"}
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

// printBlock prints the answers to all events that concern one operation; events with equal answers share a line.
func printBlock(t *testing.T, b *strings.Builder, def *saga.Definition, p point, s slot, title string) {
	t.Helper()
	fmt.Fprintf(b, "\n%s\n", title)
	if len(p.via) > 0 {
		fmt.Fprintf(b, "  by: %s\n", strings.Join(p.via, ", "))
	}
	var answers []string
	events := map[string][]string{}
	for _, e := range pointEvents(def, p, []slot{s}) {
		a := printAnswer(t, def, p, e, s)
		if events[a] == nil {
			answers = append(answers, a)
		}
		events[a] = append(events[a], e.name)
	}
	for _, a := range answers {
		fmt.Fprintf(b, "  %s → %s\n", strings.Join(events[a], " · "), a)
	}
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
		parts = append(parts, fmt.Sprintf("send %s/%s", c.Step, c.Phase))
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
