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

func (p *Pause) holds(r saga.SendRequest) bool {
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
