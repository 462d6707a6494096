package saga_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
)

func TestMoveTimer(t *testing.T) {
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	never := time.Time{}
	for name, c := range map[string]struct {
		stored, wake time.Time
		woken, ended bool
		want         time.Time
	}{
		"earlier":                {at(5), at(3), false, false, at(3)},
		"later":                  {at(5), at(7), false, false, at(5)},
		"later, by its wake":     {at(5), at(7), true, false, at(7)},
		"nothing due any more":   {at(5), never, false, false, at(5)},
		"nothing due, its wake":  {at(5), never, true, false, never},
		"due after a person":     {never, at(7), false, false, at(7)},
		"still waits for one":    {never, never, false, false, never},
		"ended":                  {at(5), at(7), false, true, never},
		"ended by its own wake":  {at(5), never, true, true, never},
		"ended without a timer":  {never, never, false, true, never},
		"as it was, by its wake": {at(5), at(5), true, false, at(5)},
	} {
		if got := saga.MoveTimer(c.stored, c.wake, c.woken, c.ended); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Whatever writes, wakes and claims come in whatever order: what is due is claimable at the latest when it is due,
// or a lease later (I-11). A wake that is lost with its coordinator comes again.
func TestTimersLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stored, due time.Time // due: what Step returned last
		now := begin
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			claimable := saga.TimerDue(stored, now)
			if claimable {
				stored = saga.ClaimTimer(now)
				if saga.TimerDue(stored, now) || !saga.TimerDue(stored, now.Add(saga.TimerLease)) {
					t.Fatalf("claimed at %s until %s", now, stored)
				}
				if rapid.Bool().Draw(t, "crash") {
					continue
				}
			}
			due = time.Time{}
			if rapid.Bool().Draw(t, "due") {
				due = now.Add(time.Duration(rapid.IntRange(1, 10_000).Draw(t, "due in ms")) * time.Millisecond)
			}
			stored = saga.MoveTimer(stored, due, claimable, false)
			if !due.IsZero() && !saga.TimerDue(stored, due) {
				t.Fatalf("due at %s, and the timer is at %s", due, stored)
			}
		}
	})
}
