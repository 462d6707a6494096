package participant

import (
	"context"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

// The points of hooks.
const (
	PointTaken     = string(pointTaken)
	PointRan       = string(pointRan)
	PointAnswered  = string(pointAnswered)
	PointPublished = string(pointPublished)
)

// OnPoint calls f at every point of every operation.
func OnPoint(p *Participant, f func(point string, cmd saga.Command)) {
	p.hooks.at = func(at point, cmd saga.Command) { f(string(at), cmd) }
}

// OnPublish lets f decide, for each reply, whether its publishing fails.
func OnPublish(p *Participant, f func(bus.Message) error) {
	p.hooks.publish = func(real publishFunc) publishFunc {
		return func(ctx context.Context, msgs []bus.Message, done func(int, error)) {
			if err := f(msgs[0]); err != nil {
				done(0, err)
				return
			}
			real(ctx, msgs, done)
		}
	}
}
