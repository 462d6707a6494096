package flow_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga/flow"
)

var cause = flow.Cause{Participant: "bank-a", Action: "debit", Fingerprint: "0123456789abcdef"}

// The alarm goes off at one more than the most that may come in a minute, once, and then counts from zero (E2).
func TestAlarm(t *testing.T) {
	a := flow.NewAlarm(3)
	for second, want := range []int{0, 0, 0, 4, 0, 0, 0, 4} {
		if got := a.Buried(cause, at(float64(second))); got != want {
			t.Errorf("number %d: %d, want %d", second+1, got, want)
		}
	}
}

// What is older than a minute does not count, nor does another cause, action or participant.
func TestAlarmCountsOneCauseOfTheLastMinute(t *testing.T) {
	a := flow.NewAlarm(2)
	others := []flow.Cause{
		{Participant: "bank-b", Action: cause.Action, Fingerprint: cause.Fingerprint},
		{Participant: cause.Participant, Action: "credit", Fingerprint: cause.Fingerprint},
		{Participant: cause.Participant, Action: cause.Action, Fingerprint: "f"},
	}
	for second := 0.0; second < 600; second += 30 {
		for _, c := range append(others, cause) {
			if got := a.Buried(c, at(second)); got != 0 {
				t.Fatalf("%v at %v: %d", c, second, got)
			}
		}
	}
	if got := a.Buried(cause, at(571)); got != 3 {
		t.Errorf("three in a minute: %d", got)
	}
}

// One of two coordinators sees half of the dead letters, and goes off at half the number.
func TestAlarmShares(t *testing.T) {
	a := flow.NewAlarm(10)
	a.Share(2)
	n := 1
	for a.Buried(cause, at(0)) == 0 {
		n++
	}
	if n != 6 {
		t.Errorf("it went off at %d", n)
	}
}

func TestAlarmIsOff(t *testing.T) {
	a := flow.NewAlarm(0)
	for range 1000 {
		if got := a.Buried(cause, at(0)); got != 0 {
			t.Fatalf("an alarm that is off goes off: %d", got)
		}
	}
}

// However many causes there are, few are kept, and those of a minute ago make room for new ones.
func TestAlarmIsBounded(t *testing.T) {
	a := flow.NewAlarm(1)
	for n := range 20_000 {
		a.Buried(flow.Cause{Fingerprint: strconv.Itoa(n)}, at(0))
	}
	a.Buried(cause, at(1))
	if got := a.Buried(cause, at(1)); got != 0 {
		t.Errorf("it keeps any number of causes: %d", got)
	}
	a.Buried(cause, at(100))
	if got := a.Buried(cause, at(100)); got != 2 {
		t.Errorf("old causes make no room: %d", got)
	}
}

// It agrees with a plain count of the last minute, to the second.
func TestAlarmAgreesWithACount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		a := flow.NewAlarm(limit)
		var seconds []int
		second := 0
		for range rapid.IntRange(1, 200).Draw(t, "dead letters") {
			second += rapid.IntRange(0, 30).Draw(t, "later by")
			seconds = append(seconds, second)
			want := 0
			for _, s := range seconds {
				if s > second-60 {
					want++
				}
			}
			got := a.Buried(cause, at(float64(second)))
			if want <= limit {
				want = 0
			}
			if got != want {
				t.Fatalf("at %d: %d, want %d", second, got, want)
			}
			if got != 0 {
				seconds = nil
			}
		}
	})
}
