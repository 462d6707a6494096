package outbox

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

// item is a row in this process's memory, from its hand-off or claim until its row is settled.
type item struct {
	id      uuid.UUID
	msg     bus.Message // emptied when answered
	size    int
	expiry  time.Time     // zero: none
	age     time.Duration // of the row when it was claimed
	claimed bool          // its row has a claim of ours; guarded by memory.mu
}

// memory holds every row that this process is busy with, so that its poll does not publish them again,
// and bounds them. Bytes are free again when a message is answered, its place when its row is settled.
type memory struct {
	limit relay.Usage

	mu       sync.Mutex
	closed   bool
	items    map[uuid.UUID]*item
	queue    []*item
	bytes    int
	inFlight int
	idle     chan struct{} // closed when closed and nothing is in flight
	isIdle   bool
}

func newMemory(limit relay.Usage) *memory {
	return &memory{limit: limit, items: map[uuid.UUID]*item{}, idle: make(chan struct{})}
}

// offer queues handed-off entries as far as they fit and returns how many did not.
func (m *memory) offer(entries []Entry) (dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if m.closed || !m.used().Fits(e.size, m.limit) {
			dropped++
			continue
		}
		m.enqueue(&item{id: e.id, msg: e.msg, size: e.size, expiry: e.expiry})
	}
	return dropped
}

// claim queues a row that the poll has claimed, unless this process is busy with it: then its claim is
// noted, to be released if publishing fails.
func (m *memory) claim(it *item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it.claimed = true
	if known := m.items[it.id]; known != nil {
		known.claimed = true
		return
	}
	if !m.closed {
		m.enqueue(it)
	}
}

// enqueue adds an item. The lock is held.
func (m *memory) enqueue(it *item) {
	if m.items[it.id] != nil {
		return // handed off twice
	}
	m.items[it.id] = it
	m.queue = append(m.queue, it)
	m.bytes += it.size
}

// take takes up to n items off the queue; they are then in flight.
func (m *memory) take(n int) []*item {
	m.mu.Lock()
	defer m.mu.Unlock()
	n = min(n, len(m.queue))
	taken := m.queue[:n:n]
	m.queue = m.queue[n:]
	if len(m.queue) == 0 {
		m.queue = nil
	}
	m.inFlight += n
	return taken
}

// answered frees the memory of a message that is no longer in flight.
func (m *memory) answered(it *item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it.msg.Header, it.msg.Data = nil, nil
	m.bytes -= it.size
	m.inFlight--
	m.checkIdle()
}

// forget frees the places of rows that are settled.
func (m *memory) forget(items []*item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		delete(m.items, it.id)
	}
}

// isClaimed reports whether the row has a claim of ours.
func (m *memory) isClaimed(it *item) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return it.claimed
}

// use returns what is taken.
func (m *memory) use() relay.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used()
}

// used is use while the lock is held.
func (m *memory) used() relay.Usage { return relay.Usage{Count: len(m.items), Bytes: m.bytes} }

// close refuses hand-offs from now on and drops what was not sent: the rows are found later. The channel
// is closed as soon as nothing is in flight.
func (m *memory) close() (idle <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, it := range m.queue {
		delete(m.items, it.id)
		m.bytes -= it.size
	}
	m.queue = nil
	m.checkIdle()
	return m.idle
}

func (m *memory) checkIdle() {
	if m.closed && m.inFlight == 0 && !m.isIdle {
		m.isIdle = true
		close(m.idle)
	}
}
