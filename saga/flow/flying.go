package flow

import "time"

// flying counts attempts whose reply is awaited, by the second in which their time is over. From then on they are not
// awaited any more, whoever has noticed: replies may come to another coordinator than the one that sent, and either of
// them may be gone. So whatever is missed heals within one attempt timeout.
type flying struct {
	ends  map[int64]int
	total int
	now   int64 // seconds up to it are over
}

func newFlying() flying { return flying{ends: map[int64]int{}} }

// add counts n attempts that end at an instant.
func (f *flying) add(endsAt time.Time, n int) {
	second := endsAt.Unix()
	if second <= f.now {
		return
	}
	f.total += n
	if f.ends[second] += n; f.ends[second] == 0 {
		delete(f.ends, second)
	}
}

// count returns the attempts that are awaited at an instant. It is negative when replies to the attempts of others came
// here.
func (f *flying) count(now time.Time) int {
	second := now.Unix()
	if second > f.now {
		for end, n := range f.ends {
			if end <= second {
				f.total -= n
				delete(f.ends, end)
			}
		}
		f.now = second
	}
	return f.total
}

// forget begins anew.
func (f *flying) forget() { f.ends, f.total = map[int64]int{}, 0 }
