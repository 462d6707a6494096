package coordinator

import (
	"maps"
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// heard remembers when each participant replied last: what tells an outage from a failing operation (S2.8).
type heard struct {
	mu sync.Mutex
	of map[string]saga.Heard
}

// participantsMax bounds the memory that names in replies can claim.
const participantsMax = 10_000

func (h *heard) note(r *saga.Reply, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = make(map[string]saga.Heard)
	}
	if before, known := h.of[r.Participant]; known || len(h.of) < participantsMax {
		h.of[r.Participant] = before.After(r.Key(), now)
	}
}

func (h *heard) snapshot() map[string]saga.Heard {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.of)
}
