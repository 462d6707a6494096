package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// How much is read to know the names that are in use, and how many of them a warning shows.
const (
	knownDefinitionsMax  = 50
	knownTransactionsMax = 500
	knownShown           = 8
)

// known are the names in use: of registered definitions, of those of the newest transactions, and of the participants that
// something was sent to.
type known struct {
	definitions, participants, actions map[string]bool // actions as participant/action
}

// readKnown reads them. It returns nil if they cannot be listed: whoever knows too little has nothing to warn about.
func (r *remote) readKnown(ctx context.Context) *known {
	k := &known{definitions: map[string]bool{}, participants: map[string]bool{}, actions: map[string]bool{}}
	list, err := r.client.Participants(ctx)
	if err != nil {
		return nil
	}
	for i := range list.Participants {
		if p := &list.Participants[i]; !listedForPause(p) {
			k.participants[p.Name] = true
		}
	}
	definitions, err := r.client.Definitions(ctx, "")
	if err != nil {
		return nil
	}
	for _, d := range definitions[:min(len(definitions), knownDefinitionsMax)] {
		k.definitions[d.Name] = true
		var def struct {
			Steps []saga.StepDefinition `json:"steps"`
		}
		if full, err := r.client.Definition(ctx, d.Name, d.Version); err == nil && json.Unmarshal(full.Definition, &def) == nil {
			for i := range def.Steps {
				k.step(def.Steps[i].Participant, def.Steps[i].Action)
			}
		}
	}
	page, err := r.client.List(ctx, client.Filter{Limit: knownTransactionsMax})
	if err != nil {
		return nil
	}
	seen := 0
	for i := range page.Transactions {
		tx := &page.Transactions[i]
		if k.definitions[tx.Definition.Name] || seen == knownDefinitionsMax {
			continue
		}
		k.definitions[tx.Definition.Name] = true
		seen++
		if full, err := r.client.Get(ctx, tx.ID); err == nil {
			for j := range full.Steps {
				k.step(full.Steps[j].Participant, full.Steps[j].Action)
			}
		}
	}
	return k
}

// listedForPause tells whether the list of participants may name p only because it is paused, which whoever mistypes its name
// brings about, too.
func listedForPause(p *client.Participant) bool {
	return p.InFlight == 0 && len(p.Waiting) == 0 && slices.ContainsFunc(p.Paused, func(p client.Pause) bool { return p.Participant != "" })
}

func (k *known) step(participant, action string) {
	k.participants[participant], k.actions[participant+"/"+action] = true, true
}

// warn says that nothing in use has the name of a scope, which may be a slip of the fingers, and which names there are. What
// is still to come may be paused before.
func (k *known) warn(w io.Writer, s client.Scope) {
	if k == nil {
		return
	}
	var name string
	var all map[string]bool
	switch s.Scope {
	case client.ScopeDefinition:
		name, all = s.Definition, k.definitions
	case client.ScopeParticipant:
		name, all = s.Participant, k.participants
	case client.ScopeAction:
		name, all = s.Participant+"/"+s.Action, k.actions
	default:
		return
	}
	if all[name] {
		return
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	text := "none is known"
	if len(names) > 0 {
		text = "known are " + strings.Join(names[:min(len(names), knownShown)], ", ")
	}
	if more := len(names) - knownShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintf(w, "coordinator: warning: nothing in use is %s; %s\n", printable(scopeText(s)), printable(text))
}
