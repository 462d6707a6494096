package flow

import "time"

const (
	alarmWindow = time.Minute
	causesMax   = 10_000 // that are counted at one time
)

// Alarm finds out that operations of one action become dead letters for one cause by the dozen, as after a bad deploy
// (E2). It is one coordinator's view: coordinators get replies evenly, so each multiplies what it sees by their number.
// It is not safe for concurrent use.
type Alarm struct {
	max    int
	share  int // coordinators that see a part each, at least 1
	counts map[Cause]*window
}

// Cause is what dead letters have in common.
type Cause struct {
	Participant string
	Action      string
	Fingerprint string // equal causes have equal ones
}

// NewAlarm returns an alarm that goes off when more than so many dead letters of one cause come within a minute. Of zero
// or less it never does.
func NewAlarm(perMinuteMax int) *Alarm {
	return &Alarm{max: perMinuteMax, share: 1, counts: map[Cause]*window{}}
}

// Share says how many coordinators there are.
func (a *Alarm) Share(coordinators int) { a.share = max(coordinators, 1) }

// Buried counts one dead letter. When it is one too many it returns how many there were in the minute, of all
// coordinators, and begins again from zero; otherwise it returns 0.
func (a *Alarm) Buried(c Cause, now time.Time) (count int) {
	if a.max <= 0 {
		return 0
	}
	w := a.counts[c]
	if w == nil {
		if len(a.counts) >= causesMax && !a.forget(now) {
			return 0
		}
		fresh := newWindow(alarmWindow)
		w = &fresh
		a.counts[c] = w
	}
	w.add(now, 1)
	if count = w.sum(now) * a.share; count <= a.max {
		return 0
	}
	delete(a.counts, c)
	return count
}

// forget makes room: it drops the causes of which nothing came in the last minute, and reports whether there were any.
func (a *Alarm) forget(now time.Time) (dropped bool) {
	for c, w := range a.counts {
		if w.sum(now) == 0 {
			delete(a.counts, c)
			dropped = true
		}
	}
	return dropped
}
