package coordinator

import (
	"maps"
	"sync"
	"time"
)

// heard remembers when each participant replied last: what tells an outage from a failing operation (S2.8).
type heard struct {
	mu sync.Mutex
	at map[string]time.Time
}

// participantsMax bounds the memory that names in replies can claim.
const participantsMax = 10_000

func (h *heard) note(participant string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = make(map[string]time.Time)
	}
	if _, known := h.at[participant]; known || len(h.at) < participantsMax {
		h.at[participant] = now
	}
}

func (h *heard) snapshot() map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.at)
}
