package bank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

const sleepMax = time.Hour

// Wish makes a handler misbehave. The zero value wishes nothing. Attempts count, not runs: what a run that
// failed wrote is rolled back, so a count of runs would be too.
type Wish struct {
	Phase       saga.Phase `json:"phase,omitempty"`        // that it is for; empty: try
	SleepMs     int        `json:"sleep_ms,omitempty"`     // take so long, before anything is changed
	SleepWhile  string     `json:"sleep_while,omitempty"`  // do not end while this switch is on
	FailTimes   int        `json:"fail_times,omitempty"`   // fail for a passing reason in attempts 1 to n
	FailWhile   string     `json:"fail_while,omitempty"`   // fail while this switch is on
	PanicTimes  int        `json:"panic_times,omitempty"`  // panic in attempts 1 to n
	PanicWhile  string     `json:"panic_while,omitempty"`  // panic while this switch is on
	Refuse      string     `json:"refuse,omitempty"`       // refuse with this code
	RefuseWhile string     `json:"refuse_while,omitempty"` // refuse while this switch is on
	Fault       string     `json:"fault,omitempty"`        // say that it can never succeed, for this reason
}

var errWished = errors.New("the input asked for it")

// grant does what the wish says. It is called after the money was moved, so that what it breaks has to be
// rolled back.
func (w Wish) grant(ctx context.Context, tx pgx.Tx, op participant.Operation) error {
	if !w.isFor(op.Phase) {
		return nil
	}
	on := map[string]bool{"": false}
	for _, name := range []string{w.FailWhile, w.PanicWhile, w.RefuseWhile} {
		if name == "" {
			continue
		}
		var is bool
		if err := tx.QueryRow(ctx, sqlSwitchGet, name).Scan(&is); err != nil {
			return err
		}
		on[name] = is
	}
	return w.grantIf(on, op)
}

// grantIf is grant for one who has read which switches are on.
func (w Wish) grantIf(on map[string]bool, op participant.Operation) error {
	switch {
	case op.Attempt <= w.PanicTimes || on[w.PanicWhile]:
		panic(fmt.Sprintf("attempt %d of %s: %v", op.Attempt, op.Action, errWished))
	case op.Attempt <= w.FailTimes || on[w.FailWhile]:
		return fmt.Errorf("attempt %d of %s: %w", op.Attempt, op.Action, errWished)
	case w.Fault != "":
		return participant.Fault(errors.New(w.Fault))
	case w.Refuse != "" || on[w.RefuseWhile]:
		return &refused{w.Refuse, errWished}
	}
	return nil
}

// sleep takes as long as the wish says.
func (w Wish) sleep(ctx context.Context, tx pgx.Tx, op participant.Operation) error {
	if !w.isFor(op.Phase) {
		return nil
	}
	if err := pause(ctx, min(time.Duration(w.SleepMs)*time.Millisecond, sleepMax)); err != nil {
		return err
	}
	for on := w.SleepWhile != ""; on; {
		if err := tx.QueryRow(ctx, sqlSwitchGet, w.SleepWhile).Scan(&on); err != nil {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (w Wish) isFor(phase saga.Phase) bool {
	return phase == w.Phase || w.Phase == "" && phase == saga.PhaseTry
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
