package coordinatortest

import (
	"container/heap"
	"time"
)

// agenda is what is to happen, by instant, and in the order it was added among equal ones.
type agenda struct {
	entries []entry
	added   int
}

type entry struct {
	at     time.Time
	number int
	run    func()
}

func (a *agenda) add(at time.Time, run func()) {
	a.added++
	heap.Push(a, entry{at: at, number: a.added, run: run})
}

// next returns the instant of the first entry.
func (a *agenda) next() (time.Time, bool) {
	if len(a.entries) == 0 {
		return time.Time{}, false
	}
	return a.entries[0].at, true
}

// take removes the first entry if it is due.
func (a *agenda) take(now time.Time) (run func(), ok bool) {
	if at, ok := a.next(); !ok || at.After(now) {
		return nil, false
	}
	return heap.Pop(a).(entry).run, true
}

// Len, Less, Swap, Push and Pop are those of a heap.
func (a *agenda) Len() int { return len(a.entries) }

// Less orders by instant.
func (a *agenda) Less(i, j int) bool {
	if x, y := a.entries[i].at, a.entries[j].at; !x.Equal(y) {
		return x.Before(y)
	}
	return a.entries[i].number < a.entries[j].number
}

// Swap exchanges two entries.
func (a *agenda) Swap(i, j int) { a.entries[i], a.entries[j] = a.entries[j], a.entries[i] }

// Push adds at the end.
func (a *agenda) Push(x any) { a.entries = append(a.entries, x.(entry)) }

// Pop removes from the end.
func (a *agenda) Pop() any {
	last := a.entries[len(a.entries)-1]
	a.entries = a.entries[:len(a.entries)-1]
	return last
}
