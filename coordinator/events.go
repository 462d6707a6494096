package coordinator

import (
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// EventsMode says which lifecycle events are published.
type EventsMode string

// The modes. Each event is an outbox row in the transaction of the state change that it tells of (C11).
const (
	EventsAll        EventsMode = "all"
	EventsExceptions EventsMode = "exceptions" // suspended, resumed and resolved: what a transaction that goes well never has
	EventsNone       EventsMode = "none"
)

// EventsModes are all modes.
var EventsModes = []EventsMode{EventsAll, EventsExceptions, EventsNone}

// has reports whether the mode publishes the event.
func (m EventsMode) has(l saga.Lifecycle) bool {
	return m == EventsAll || m == EventsExceptions && l.Exceptional()
}

// eventMessages makes the outbox messages of the lifecycle events that follow from a write.
func (s *store) eventMessages(to []outbox.Message, w *write) ([]outbox.Message, error) {
	if s.events == EventsNone || !w.changed && w.before != nil {
		return to, nil
	}
	var now time.Time
	for _, l := range saga.Lifecycles(w.before, &w.rec.tx) {
		if !s.events.has(l) {
			continue
		}
		if now.IsZero() {
			now = s.clock.now()
		}
		m, err := wire.EncodeEvent(s.encoder.prefix, saga.LifecycleEvent{
			Lifecycle: l, At: now, Client: w.rec.client, RequestID: w.rec.requestID, Definition: w.rec.def.Name,
			Version: w.rec.def.Version, Tx: &w.rec.tx, TxVersion: w.rec.tx.Version + 1,
		})
		if err != nil {
			return to, fmt.Errorf("event %s of transaction %s: %w", l, w.rec.tx.ID, err)
		}
		to = append(to, outbox.Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return to, nil
}
