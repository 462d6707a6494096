package token

import (
	"crypto/sha256"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
)

// CacheTTL is how long a token that was looked up is used without asking again: so late may a coordinator notice that it
// was revoked or has expired.
const CacheTTL = 5 * time.Second

const cacheMax = 10_000

// cache has tokens that were active when they were looked up.
type cache struct {
	byHash *lru.Cache[[sha256.Size]byte, cached]
}

type cached struct {
	Token
	asked time.Time // before the database was asked
}

func newCache() cache {
	c, err := lru.New[[sha256.Size]byte, cached](cacheMax)
	if err != nil {
		panic(err) // only for a size below one
	}
	return cache{byHash: c}
}

func (c cache) get(hash [sha256.Size]byte) (Token, bool) {
	found, ok := c.byHash.Get(hash)
	if !ok || time.Since(found.asked) >= CacheTTL {
		return Token{}, false
	}
	return found.Token, true
}

func (c cache) add(hash [sha256.Size]byte, t Token, asked time.Time) {
	c.byHash.Add(hash, cached{Token: t, asked: asked})
}

// forget drops a token, so that the next call with it asks the database.
func (c cache) forget(id uuid.UUID) {
	for _, hash := range c.byHash.Keys() {
		if found, ok := c.byHash.Peek(hash); ok && found.ID == id {
			c.byHash.Remove(hash)
		}
	}
}
