package participant

import (
	"context"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

// point is a place between two steps of an operation where a participant may die (K).
type point string

const (
	pointTaken     point = "taken"     // before the barrier is entered
	pointRan       point = "ran"       // the business change is done, not committed
	pointAnswered  point = "answered"  // committed, before the reply is published
	pointPublished point = "published" // the PubAck came, before the command is acknowledged
)

type publishFunc func(ctx context.Context, msgs []bus.Message, done func(i int, err error))

// hooks let tests look between the steps. The zero value does nothing.
type hooks struct {
	at      func(point, saga.Command)
	publish func(real publishFunc) publishFunc
	gather  func(waiting int) // so many commands wait for a group
}

func (h *hooks) reach(p point, cmd saga.Command) {
	if h.at != nil {
		h.at(p, cmd)
	}
}

func (h *hooks) publisher(b *bus.Bus) publishFunc {
	if h.publish != nil {
		return h.publish(b.Publish)
	}
	return b.Publish
}
