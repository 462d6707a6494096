package coordinator

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sagacity-tx/sagacity/saga"
)

// cache keeps the transactions that a lane used last, bounded in number and in bytes. It belongs to one lane
// and is only an optimisation: every write checks the version.
type cache struct {
	lru      *simplelru.LRU[saga.ID, *record]
	bytes    int
	bytesMax int
}

func newCache(entriesMax, bytesMax int) *cache {
	c := &cache{bytesMax: bytesMax}
	lru, err := simplelru.NewLRU(entriesMax, func(_ saga.ID, r *record) { c.bytes -= r.bytes })
	if err != nil {
		panic(err) // only for a size below one, which Config refuses
	}
	c.lru = lru
	return c
}

func (c *cache) get(id saga.ID) (*record, bool) { return c.lru.Get(id) }

func (c *cache) put(r *record) {
	c.lru.Remove(r.tx.ID)
	r.bytes = r.size()
	c.lru.Add(r.tx.ID, r)
	c.bytes += r.bytes
	for c.bytes > c.bytesMax && c.lru.Len() > 1 {
		c.lru.RemoveOldest()
	}
}

func (c *cache) drop(id saga.ID) { c.lru.Remove(id) }
