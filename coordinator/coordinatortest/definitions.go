package coordinatortest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Definitions that submissions may name.

// findDefinition returns a registered definition; of a name alone the newest version that is active, or the newest.
func (e *engine) findDefinition(ref saga.DefinitionRef) (coordinator.RegisteredDefinition, error) {
	var newest *coordinator.RegisteredDefinition
	for i := range e.definitions {
		d := &e.definitions[i]
		switch {
		case d.Name != ref.Name:
		case d.Version == ref.Version || ref.Version == 0 && d.State == coordinator.DefinitionActive:
			return *d, nil
		case ref.Version == 0 && newest == nil:
			newest = d
		}
	}
	if newest == nil {
		return coordinator.RegisteredDefinition{}, coordinator.ErrNotFound
	}
	return *newest, nil
}

// Definitions lists the registered definitions.
func (e *engine) Definitions(_ context.Context, name string) ([]coordinator.RegisteredDefinition, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []coordinator.RegisteredDefinition
	for _, d := range e.definitions {
		if name == "" || d.Name == name {
			d.Definition = nil
			list = append(list, d)
		}
	}
	return list, nil
}

// DefinitionByName returns a registered definition.
func (e *engine) DefinitionByName(_ context.Context, name string, version int) (coordinator.RegisteredDefinition, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.findDefinition(saga.DefinitionRef{Name: name, Version: version})
}

// RegisterDefinition makes a definition known by its name and version.
func (e *engine) RegisterDefinition(_ context.Context, p coordinator.RegisterParams) (d coordinator.RegisteredDefinition, created bool, err error) {
	def, err := saga.ParseDefinition(p.Body)
	if err != nil {
		return d, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	sha := sha256.Sum256(def.JSON())
	ref := saga.DefinitionRef{Name: def.Name, Version: def.Version}
	entry := dlq.AuditEntry{Actor: p.Actor, Action: "register_definition", Object: ref.String(), Allowed: true}
	if known, err := e.findDefinition(ref); err == nil {
		if known.SHA256 != sha {
			return d, false, e.refuse(entry, coordinator.ErrDefinitionTaken)
		}
		return known, false, nil
	}
	e.record(entry)
	d = coordinator.RegisteredDefinition{
		Name: def.Name, Version: def.Version, State: coordinator.DefinitionActive, SHA256: sha, CreatedAt: e.now, Definition: def,
	}
	e.definitions = append(e.definitions, d)
	slices.SortFunc(e.definitions, func(a, b coordinator.RegisteredDefinition) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Version, a.Version))
	})
	return d, true, nil
}

// DrainDefinition lets a registered version take no new transactions.
func (e *engine) DrainDefinition(_ context.Context, p coordinator.DrainParams) (coordinator.RegisteredDefinition, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	ref := saga.DefinitionRef{Name: p.Name, Version: p.Version}
	entry := dlq.AuditEntry{Actor: p.Actor, Action: "drain_definition", Object: ref.String(), Allowed: true, Reason: p.Reason}
	for i := range e.definitions {
		d := &e.definitions[i]
		if d.Name != p.Name || d.Version != p.Version {
			continue
		}
		if d.State == coordinator.DefinitionActive {
			d.State = coordinator.DefinitionDraining
			e.record(entry)
		}
		return *d, nil
	}
	return coordinator.RegisteredDefinition{}, e.refuse(entry, coordinator.ErrNotFound)
}
