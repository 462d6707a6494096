package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// DefaultAutoPause is how many operations of one action may become dead letters of one cause within a minute.
const DefaultAutoPause = 100

// autoPauser is the actor of automatic pauses.
const autoPauser = "coordinator"

// alarm is one that went off: an action to pause, and why.
type alarm struct {
	what   flow.Pause
	reason string
}

// buried counts a dead letter, and notes whether its action has to be paused.
func (g *gate) buried(letter *dlq.Change, now time.Time) {
	cause := flow.Cause{Participant: letter.Command.Participant, Action: letter.Command.Action, Fingerprint: letter.Fingerprint()}
	g.mu.Lock()
	defer g.mu.Unlock()
	count := g.alarm.Buried(cause, now)
	if count == 0 || len(g.alarms) >= PausesMax {
		return
	}
	g.alarms = append(g.alarms, alarm{
		what: flow.Pause{Scope: flow.ScopeAction, Participant: cause.Participant, Action: cause.Action},
		reason: text(fmt.Sprintf("%d dead letters within a minute with fingerprint %s (%s, %s: %s)",
			count, cause.Fingerprint, letter.Phase, letter.Cause, letter.Reason)),
	})
}

// pauseByAlarm pauses the actions whose alarm went off (E2). What cannot be stored now is tried again.
func (c *Coordinator) pauseByAlarm(ctx context.Context) error {
	c.gate.mu.Lock()
	alarms := c.gate.alarms
	c.gate.alarms = nil
	c.gate.mu.Unlock()
	for i, a := range alarms {
		_, created, err := c.pause(ctx, PauseParams{Actor: autoPauser, What: a.what, Reason: a.reason}, true)
		_, full := errors.AsType[*saga.InvalidError](err)
		switch {
		case full:
			c.log.Error("an action fails and cannot be paused", "what", a.what.String(), "reason", a.reason, "error", err)
		case err != nil:
			c.gate.mu.Lock()
			c.gate.alarms = append(c.gate.alarms, alarms[i:]...)
			c.gate.mu.Unlock()
			return err
		case created:
			c.log.Error("an action is paused automatically: it fails again and again for one cause; repair it, then resume it",
				"what", a.what.String(), "reason", a.reason)
		}
	}
	return nil
}
