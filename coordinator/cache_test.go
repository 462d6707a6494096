package coordinator

import (
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

// The cache counts what a transaction really keeps in memory: inputs are parts of the whole submission, however
// small they are themselves.
func TestCacheBound(t *testing.T) {
	t.Parallel()
	const bodyBytes, bytesMax = 1 << 20, 8 << 20
	c := newCache(1000, bytesMax)
	for i := range 100 {
		body := make([]byte, bodyBytes)
		r := &record{bodyBytes: len(body)}
		r.tx.ID = saga.ID{byte(i)}
		r.tx.Inputs = []saga.Payload{{Data: body[:2]}, {Data: body[:2]}}
		c.put(r)
		c.put(r) // again, as after every write
	}
	if n := c.lru.Len(); n > bytesMax/bodyBytes || n < bytesMax/bodyBytes-1 {
		t.Errorf("%d submissions of 1 MiB are kept in 8 MiB", n)
	}
	if r, ok := c.get(saga.ID{99}); !ok || r.bytes < bodyBytes {
		t.Error("the last one is gone, or not counted")
	}
	for i := range 100 {
		c.drop(saga.ID{byte(i)})
	}
	if c.bytes != 0 {
		t.Errorf("an empty cache counts %d bytes", c.bytes)
	}
}
