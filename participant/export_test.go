package participant

import (
	"context"
	"time"

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

// OneGroupAtATime makes groups as large as they can be, and their commands wait for each other for so long.
func OneGroupAtATime(p *Participant, handler time.Duration) {
	p.groups.atOnce, p.groups.time, p.groups.slow, p.groups.handler = 1, time.Minute, time.Minute, handler
}

// NoGroupTime makes every group commit after its first command.
func NoGroupTime(p *Participant) { p.groups.time, p.groups.trips = 0, 0 }

// OnGather calls f when a command begins to wait for a group, with how many wait.
func OnGather(p *Participant, f func(waiting int)) { p.hooks.gather = f }

// TryBatches forgets that batches have failed.
func TryBatches(p *Participant) {
	p.batches.mu.Lock()
	defer p.batches.mu.Unlock()
	p.batches.skip, p.batches.wait = 0, 0
}
