package outbox

import "sync/atomic"

// Stats are the counts of a relay since it was made, and what it holds now.
type Stats struct {
	HandedOff uint64 // entries given to HandOff
	Dropped   uint64 // of those, left to the poll: no room, or NATS was away
	Recovered uint64 // rows that the poll claimed
	Published uint64 // PubAcks
	Expired   uint64 // rows dropped unsent
	Errors    uint64 // messages that were not acknowledged, each time
	Refused   uint64 // of those, messages that cannot be accepted as things are

	InMemory      int // rows in memory: queued, in flight, or about to be settled
	InMemoryBytes int // of messages queued or in flight
}

type counters struct {
	handedOff, dropped, recovered, published, expired, errors, refused atomic.Uint64
}

// Stats returns the counts. They are read one by one, so they may be from slightly different moments.
func (r *Relay) Stats() Stats {
	use := r.memory.use()
	return Stats{
		HandedOff: r.stats.handedOff.Load(),
		Dropped:   r.stats.dropped.Load(),
		Recovered: r.stats.recovered.Load(),
		Published: r.stats.published.Load(),
		Expired:   r.stats.expired.Load(),
		Errors:    r.stats.errors.Load(),
		Refused:   r.stats.refused.Load(),
		InMemory:  use.Count, InMemoryBytes: use.Bytes,
	}
}
