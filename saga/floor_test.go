package saga_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
)

func TestFirstIDAt(t *testing.T) {
	id := saga.FirstIDAt(begin.Add(7 * time.Millisecond))
	if back, err := saga.ParseID(id.String()); err != nil || back != id {
		t.Errorf("%s is no id: %v", id, err)
	}
	if !id.Time().Equal(begin.Add(7 * time.Millisecond)) {
		t.Errorf("%s is of %s", id, id.Time())
	}
	last := saga.FirstIDAt(begin.Add(6 * time.Millisecond))
	for i := range last {
		if i >= 6 {
			last[i] |= 0x0f
		}
	}
	if !last.Before(id) || id.Before(last) || id.Before(id) {
		t.Errorf("%s and %s are not in order", last, id)
	}
	if early := saga.FirstIDAt(time.Unix(-5, 0)); !early.Before(saga.FirstIDAt(time.UnixMilli(1))) {
		t.Errorf("before the epoch: %s", early)
	}
}

func TestFloor(t *testing.T) {
	margin := saga.FirstIDAt(begin.Add(-10 * time.Minute))
	for name, c := range map[string]struct{ oldest, want saga.ID }{
		"nothing is under way":  {saga.ID{}, margin},
		"an old transaction":    {saga.FirstIDAt(begin.Add(-time.Hour)), saga.FirstIDAt(begin.Add(-time.Hour))},
		"only new transactions": {saga.FirstIDAt(begin.Add(-time.Minute)), margin},
	} {
		if got := saga.Floor(c.oldest, begin); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// No id that a client may still make, with a clock that is as wrong as is allowed, is below the floor (S1.2, B7).
func TestFloorLeavesRoomForClients(t *testing.T) {
	made := saga.FirstIDAt(begin.Add(-5 * time.Minute))
	if err := (&saga.Submission{ID: made}).CheckTimes(begin); err != nil {
		t.Fatal(err)
	}
	if floor := saga.Floor(saga.ID{}, begin); made.Before(floor) {
		t.Errorf("%s is below %s", made, floor)
	}
}

func TestRaiseFloor(t *testing.T) {
	day := 24 * time.Hour
	ago := func(d time.Duration) saga.ID { return saga.FirstIDAt(begin.Add(-d)) }
	for name, c := range map[string]struct {
		current, sagaFloor, held, want saga.ID
	}{
		"minus the retention period":          {ago(30 * day), ago(day), saga.ID{}, ago(8 * day)},
		"the first time":                      {saga.ID{}, ago(day), saga.ID{}, ago(8 * day)},
		"no command has told of any":          {ago(30 * day), saga.ID{}, saga.ID{}, ago(30 * day)},
		"a coordinator that is behind":        {ago(3 * day), ago(day), saga.ID{}, ago(3 * day)},
		"a tried row is held":                 {ago(30 * day), ago(day), ago(20 * day), ago(20 * day)},
		"a younger one is not in the way":     {ago(30 * day), ago(day), ago(2 * day), ago(8 * day)},
		"a held row below, kept by nobody":    {ago(10 * day), ago(day), ago(20 * day), ago(10 * day)},
		"a transaction that takes very long":  {ago(30 * day), ago(100 * day), saga.ID{}, ago(30 * day)},
		"held, and no command has told":       {ago(30 * day), saga.ID{}, ago(40 * day), ago(30 * day)},
		"at the held row, which is not below": {ago(30 * day), ago(day), ago(8 * day), ago(8 * day)},
	} {
		if got := saga.RaiseFloor(c.current, c.sagaFloor, 7*day, c.held); got != c.want {
			t.Errorf("%s: %s, want %s", name, got.Time(), c.want.Time())
		}
	}
}

// B7 and I-10, for a participant that sees commands in any order: the floor never falls, never rises above the highest
// Saga-Floor it was told minus retention, and never passes a row that is held at that time.
func TestFloorOnlyRisesWhereItMay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		retention := time.Duration(rapid.IntRange(0, 100).Draw(t, "retention")) * time.Hour
		anID := func(label string) saga.ID {
			if hours := rapid.IntRange(-1, 300).Draw(t, label); hours >= 0 {
				return saga.FirstIDAt(begin.Add(time.Duration(hours) * time.Hour))
			}
			return saga.ID{}
		}
		var floor, highest saga.ID
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			told, held := anID("saga floor"), anID("held")
			if highest.Before(told) {
				highest = told
			}
			next := saga.RaiseFloor(floor, told, retention, held)
			switch {
			case next.Before(floor):
				t.Fatalf("lowered from %s to %s", floor, next)
			case next != floor && highest.Time().Add(-retention).Before(next.Time()):
				t.Fatalf("%s is above %s minus %s", next.Time(), highest.Time(), retention)
			case next != floor && !held.IsZero() && held.Before(next):
				t.Fatalf("%s passes the held %s", next, held)
			}
			floor = next
		}
	})
}

// I-10: only what has ended, long enough ago, and waits for nobody, is forgotten.
func TestMayDrop(t *testing.T) {
	const retention = time.Hour
	old := begin.Add(-retention - 1)
	for _, status := range []saga.Status{
		saga.StatusAccepted, saga.StatusRunning, saga.StatusConfirming, saga.StatusCancelling,
		saga.StatusCommitted, saga.StatusCancelled, saga.StatusResolved,
	} {
		if got := saga.MayDrop(saga.Retained{Status: status, FinishedAt: old}, retention, begin); got != status.Terminal() {
			t.Errorf("%s: %t", status, got)
		}
	}
	for name, tx := range map[string]saga.Retained{
		"not old enough":      {Status: saga.StatusCommitted, FinishedAt: begin.Add(-retention)},
		"no end is known":     {Status: saga.StatusCommitted},
		"an open dead letter": {Status: saga.StatusResolved, FinishedAt: old, OpenLetters: 1},
	} {
		if saga.MayDrop(tx, retention, begin) {
			t.Errorf("%s: dropped", name)
		}
	}
}
