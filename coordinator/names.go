package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// DefinitionState says whether a registered definition may be used.
type DefinitionState string

// The states of registered definitions.
const (
	DefinitionActive   DefinitionState = "active"
	DefinitionDraining DefinitionState = "draining" // no new transactions; those that run go on
)

// RegisteredDefinition is a definition that submissions may name.
type RegisteredDefinition struct {
	Name       string
	Version    int
	State      DefinitionState
	SHA256     [32]byte // of the canonical form
	CreatedAt  time.Time
	Definition *saga.Definition // nil in lists
}

// RegisterParams says who registers what. Body is the JSON of a definition.
type RegisterParams struct {
	Actor string
	Body  []byte
}

// DrainParams says who drains what, and why.
type DrainParams struct {
	Actor   string
	Name    string
	Version int
	Reason  string
}

// Codes of *saga.InvalidError of a submission that names a definition.
const (
	CodeUnknownDefinition  = "unknown_definition"
	CodeDefinitionDraining = "definition_draining"
)

// definitionsShown bounds a list.
const definitionsShown = 1000

// nameTTL is how long a name that was looked up is used without asking again: so late may a coordinator notice
// that a version was registered or drained.
const nameTTL = time.Second

const (
	actionRegister = "register_definition"
	actionDrain    = "drain_definition"

	// objectUnregistered stands in the audit for a name that is not registered: it may be a token in the wrong place.
	objectUnregistered = "a definition that is not registered"
)

const definitionColumns = `name, version, state, sha256, created_at`

const (
	sqlInsertDefinitionName = `
INSERT INTO definition_names (name, version, sha256) VALUES ($1, $2, $3) ON CONFLICT (name, version) DO NOTHING`

	sqlGetDefinitionName = `
SELECT ` + definitionColumns + ` FROM definition_names WHERE name = $1 AND version = $2`

	// Of a name without a version the newest that is active; if none is, one that says so.
	sqlNewestDefinitionName = `
SELECT ` + definitionColumns + ` FROM definition_names WHERE name = $1 ORDER BY (state = 'active') DESC, version DESC LIMIT 1`

	sqlListDefinitionNames = `
SELECT ` + definitionColumns + ` FROM definition_names WHERE ($1::text = '' OR name = $1) ORDER BY name, version DESC LIMIT $2`

	sqlDrainDefinition = `
UPDATE definition_names SET state = 'draining' WHERE name = $1 AND version = $2 AND state = 'active'`
)

func scanDefinition(row pgx.CollectableRow) (RegisteredDefinition, error) {
	var d RegisteredDefinition
	var sha []byte
	err := row.Scan(&d.Name, &d.Version, (*string)(&d.State), &sha, &d.CreatedAt)
	copy(d.SHA256[:], sha)
	d.CreatedAt = d.CreatedAt.UTC()
	return d, err
}

// RegisterDefinition makes a definition known by its name and version, for all tenants. Registering the same again
// changes nothing, and created is false; the state stays as it is. Errors: *saga.InvalidError, ErrDefinitionTaken.
func (c *Coordinator) RegisterDefinition(ctx context.Context, p RegisterParams) (d RegisteredDefinition, created bool, err error) {
	def, err := saga.ParseDefinition(p.Body)
	if err != nil {
		return d, false, err
	}
	body := def.JSON()
	sha := sha256.Sum256(body)
	entry := dlq.AuditEntry{Actor: p.Actor, Action: actionRegister, Object: saga.DefinitionRef{Name: def.Name, Version: def.Version}.String(), Allowed: true}
	err = pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlInsertDefinition, sha[:], def.Name, def.Version, body); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlInsertDefinitionName, def.Name, def.Version, sha[:])
		if err != nil {
			return err
		}
		if created = tag.RowsAffected() == 1; created {
			if err := dlq.InsertAudit(ctx, tx, entry); err != nil {
				return err
			}
		}
		d, err = definitionRow(ctx, tx, sqlGetDefinitionName, def.Name, def.Version)
		if err == nil && d.SHA256 != sha {
			err = ErrDefinitionTaken
		}
		return err
	})
	if err := c.Admin().recordRefusal(ctx, entry, writeError("registering "+entry.Object, err)); err != nil {
		return RegisteredDefinition{}, false, err
	}
	d.Definition = def
	return d, created, nil
}

// DrainDefinition lets a registered version end: submissions that name it are refused, by other coordinators
// within a second; transactions that run keep it. Repetitions change nothing. The error is ErrNotFound for one
// that is not registered.
func (c *Coordinator) DrainDefinition(ctx context.Context, p DrainParams) (d RegisteredDefinition, err error) {
	ref := saga.DefinitionRef{Name: p.Name, Version: p.Version}
	entry := dlq.AuditEntry{Actor: p.Actor, Action: actionDrain, Object: ref.String(), Allowed: true, Reason: p.Reason}
	err = pgx.BeginFunc(ctx, c.cfg.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlDrainDefinition, p.Name, p.Version)
		if err == nil && tag.RowsAffected() == 1 {
			err = dlq.InsertAudit(ctx, tx, entry)
		}
		if err == nil {
			d, err = definitionRow(ctx, tx, sqlGetDefinitionName, p.Name, p.Version)
		}
		return err
	})
	c.store.definitions.forgetName(p.Name, p.Version)
	if errors.Is(err, ErrNotFound) {
		entry.Object = objectUnregistered
	}
	if err := c.Admin().recordRefusal(ctx, entry, writeError("draining "+entry.Object, err)); err != nil {
		return RegisteredDefinition{}, err
	}
	d.Definition, err = c.store.definitions.get(ctx, d.SHA256)
	return d, err
}

// writeError says of a write whether its outcome is known.
func writeError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrDefinitionTaken) || errors.Is(err, dlq.ErrNotFound) || errors.Is(err, dlq.ErrTooManyNotes) || jobRefusal(err):
		return err
	case pg.CommitUnknown(err):
		return fmt.Errorf("%w: %s: %w", ErrOutcomeUnknown, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Definitions lists the registered definitions, or those of one name, by name, the newest version first; at most
// 1,000.
func (c *Coordinator) Definitions(ctx context.Context, name string) ([]RegisteredDefinition, error) {
	rows, err := c.cfg.Pool.Query(ctx, sqlListDefinitionNames, name, definitionsShown)
	if err != nil {
		return nil, fmt.Errorf("listing definitions: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanDefinition)
	if err != nil {
		return nil, fmt.Errorf("listing definitions: %w", err)
	}
	return list, nil
}

// DefinitionByName returns a registered definition; version 0 is the newest that is active, or the newest if none
// is. The error is ErrNotFound if there is none.
func (c *Coordinator) DefinitionByName(ctx context.Context, name string, version int) (RegisteredDefinition, error) {
	d, err := c.store.definitions.findName(ctx, c.cfg.Pool, saga.DefinitionRef{Name: name, Version: version})
	if err == nil {
		d.Definition, err = c.store.definitions.get(ctx, d.SHA256)
	}
	return d, err
}

func definitionRow(ctx context.Context, db dlq.Querier, sql string, args ...any) (RegisteredDefinition, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return RegisteredDefinition{}, fmt.Errorf("reading a definition's name: %w", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDefinition)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, ErrNotFound
	}
	if err != nil {
		return d, fmt.Errorf("reading a definition's name: %w", err)
	}
	return d, nil
}

func (d *definitions) findName(ctx context.Context, db dlq.Querier, ref saga.DefinitionRef) (RegisteredDefinition, error) {
	if ref.Version == 0 {
		return definitionRow(ctx, db, sqlNewestDefinitionName, ref.Name)
	}
	return definitionRow(ctx, db, sqlGetDefinitionName, ref.Name, ref.Version)
}

// namedDefinition is one that was looked up.
type namedDefinition struct {
	*parsedDefinition
	readAt time.Time
}

// forgetName makes the next submission look the version up again, and its name.
func (d *definitions) forgetName(name string, version int) {
	d.byName.Remove(saga.DefinitionRef{Name: name})
	d.byName.Remove(saga.DefinitionRef{Name: name, Version: version})
}

const fieldDefinition = "submission.definition"

// named reports whether the value of a submission's definition is a name: a JSON string.
func named(text []byte) bool { return bytes.HasPrefix(text, []byte{'"'}) }

// lookUp finds the definition that a submission names. Only what may be used is cached, so that what is registered
// now is found now.
func (d *definitions) lookUp(ctx context.Context, text []byte) (*parsedDefinition, error) {
	ref, err := definitionRef(text)
	if err != nil {
		return nil, err
	}
	asked := time.Now()
	if n, ok := d.byName.Get(ref); ok && asked.Sub(n.readAt) < nameTTL {
		return n.parsedDefinition, nil
	}
	row, err := d.findName(ctx, d.pool, ref)
	if err := usable(ref, row, err); err != nil {
		return nil, err
	}
	def, err := d.get(ctx, row.SHA256)
	if err != nil {
		return nil, err
	}
	p := &parsedDefinition{def: def, sha256: row.SHA256}
	p.stored.Store(true)
	d.byName.Add(ref, namedDefinition{parsedDefinition: p, readAt: asked})
	return p, nil
}

// definitionRef reads the name that a submission gives instead of a definition.
func definitionRef(text []byte) (saga.DefinitionRef, error) {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return saga.DefinitionRef{}, &saga.InvalidError{Code: "invalid_json", Field: fieldDefinition, Problem: "cannot be read", Fix: "give an object, or a name as a string"}
	}
	return saga.ParseDefinitionRef(fieldDefinition, s)
}

// usable says why a submission may not use what was found under a name.
func usable(ref saga.DefinitionRef, row RegisteredDefinition, err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return &saga.InvalidError{
			Code: CodeUnknownDefinition, Field: fieldDefinition, Problem: "is not registered: " + ref.String(), Fix: "register it, or give the definition as an object",
		}
	case err != nil:
		return err
	case row.State != DefinitionActive:
		return &saga.InvalidError{
			Code: CodeDefinitionDraining, Field: fieldDefinition, Problem: "is being drained: " + ref.String(), Fix: "name a version that is active",
		}
	}
	return nil
}
