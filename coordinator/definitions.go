package coordinator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/saga"
)

// definitions stores each definition once, by the hash of its canonical form, and keeps those used last in
// memory, ready for use. Submissions repeat the same few over and over.
type definitions struct {
	pool   *pgxpool.Pool
	byHash *lru.Cache[[32]byte, *saga.Definition]
	byText *lru.Cache[string, *parsedDefinition] // by the exact bytes of a submission
	byName *lru.Cache[saga.DefinitionRef, namedDefinition]
}

type parsedDefinition struct {
	def    *saga.Definition
	sha256 [32]byte
	stored atomic.Bool // known to be in the database
}

const (
	definitionsMax    = 4096
	cacheableBytesMax = 16 << 10 // larger ones are rare, and keeping them would take much memory
)

func newDefinitions(pool *pgxpool.Pool) *definitions {
	byHash, err := lru.New[[32]byte, *saga.Definition](definitionsMax)
	if err != nil {
		panic(err) // only for a size below one
	}
	byText, err := lru.New[string, *parsedDefinition](definitionsMax)
	if err != nil {
		panic(err)
	}
	byName, err := lru.New[saga.DefinitionRef, namedDefinition](definitionsMax)
	if err != nil {
		panic(err)
	}
	return &definitions{pool: pool, byHash: byHash, byText: byText, byName: byName}
}

// parse reads a definition, or finds what reading the same bytes gave before.
func (d *definitions) parse(text []byte) (*parsedDefinition, error) {
	if p, ok := d.byText.Get(string(text)); ok {
		return p, nil
	}
	def, err := saga.ParseDefinition(text)
	if err != nil {
		return nil, err
	}
	p := &parsedDefinition{def: def, sha256: sha256.Sum256(def.JSON())}
	if len(text) <= cacheableBytesMax {
		d.byText.Add(string(text), p)
	}
	return p, nil
}

const sqlInsertDefinition = `
INSERT INTO definitions (sha256, name, version, body) VALUES ($1, $2, $3, $4) ON CONFLICT (sha256) DO NOTHING`

// store makes sure that the definition is in the database.
func (d *definitions) store(ctx context.Context, p *parsedDefinition) error {
	if p.stored.Load() {
		return nil
	}
	if _, err := d.pool.Exec(ctx, sqlInsertDefinition, p.sha256[:], p.def.Name, p.def.Version, p.def.JSON()); err != nil {
		return fmt.Errorf("storing definition %s version %d: %w", p.def.Name, p.def.Version, err)
	}
	p.stored.Store(true)
	d.byHash.Add(p.sha256, p.def)
	return nil
}

const sqlLoadDefinition = `SELECT body FROM definitions WHERE sha256 = $1`

// get returns a stored definition.
func (d *definitions) get(ctx context.Context, sha [32]byte) (*saga.Definition, error) {
	if def, ok := d.byHash.Get(sha); ok {
		return def, nil
	}
	var body []byte
	err := d.pool.QueryRow(ctx, sqlLoadDefinition, sha[:]).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &faultError{fmt.Sprintf("definition %x is missing", sha[:6])}
	}
	if err != nil {
		return nil, fmt.Errorf("loading definition %x: %w", sha[:6], err)
	}
	def, err := saga.ParseDefinition(body)
	if err != nil {
		return nil, &faultError{fmt.Sprintf("definition %x: %v", sha[:6], err)}
	}
	d.byHash.Add(sha, def)
	return def, nil
}
