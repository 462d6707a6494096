package flow

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// pauseRecheck is how long what is paused waits before it asks again, and so how long a resume may take to show.
const pauseRecheck = 2 * time.Second

// Scope is what a pause is about.
type Scope string

// The scopes of pauses (E2).
const (
	ScopeAll         Scope = "all"         // everything
	ScopeDefinition  Scope = "definition"  // the transactions of a definition, by name
	ScopeParticipant Scope = "participant" // everything that is sent to a participant
	ScopeAction      Scope = "action"      // one action of a participant
)

// Pause holds what is in its scope: nothing of it is sent, replies are merged, and deadlines go on.
type Pause struct {
	Scope       Scope
	Definition  string // with ScopeDefinition
	Participant string // with ScopeParticipant and ScopeAction
	Action      string // with ScopeAction
}

// Pause replaces what is paused.
func (g *Gate) Pause(pauses []Pause) { g.pauses = pauses }

// Check returns a *saga.InvalidError unless the pause has exactly the names that its scope needs.
func (p *Pause) Check() error {
	switch p.Scope {
	case ScopeAll, ScopeDefinition, ScopeParticipant, ScopeAction:
	default:
		return &saga.InvalidError{Code: "invalid_value", Field: "scope", Problem: "is none of the scopes", Fix: "use all, definition, participant or action"}
	}
	for _, n := range []struct {
		field, value string
		wanted       bool
	}{
		{"definition", p.Definition, p.Scope == ScopeDefinition},
		{"participant", p.Participant, p.Scope == ScopeParticipant || p.Scope == ScopeAction},
		{"action", p.Action, p.Scope == ScopeAction},
	} {
		switch {
		case n.wanted:
			if err := saga.CheckName(n.field, n.value); err != nil {
				return err
			}
		case n.value != "":
			return &saga.InvalidError{
				Code: "invalid_value", Field: n.field, Problem: "does not belong to scope " + string(p.Scope),
				Fix: "leave it out, or choose the scope that it belongs to",
			}
		}
	}
	return nil
}

// String names what is paused, as in "action debit of participant bank-a".
func (p *Pause) String() string {
	switch p.Scope {
	case ScopeAll:
		return "everything"
	case ScopeDefinition:
		return "definition " + p.Definition
	case ScopeParticipant:
		return "participant " + p.Participant
	case ScopeAction:
		return "action " + p.Action + " of participant " + p.Participant
	}
	return "nothing"
}

// Holds reports whether the pause holds an attempt.
func (p *Pause) Holds(r saga.SendRequest) bool {
	switch p.Scope {
	case ScopeAll:
		return true
	case ScopeDefinition:
		return r.Definition == p.Definition
	case ScopeParticipant:
		return r.Command.Participant == p.Participant
	case ScopeAction:
		return r.Command.Participant == p.Participant && r.Command.Action == p.Action
	}
	return false
}
