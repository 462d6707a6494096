package flow

import "time"

// window counts events by the second, over the last seconds.
type window struct {
	counts []int
	total  int
	last   int64 // the newest second; counts[last % len] is its
	best   int   // the most events of a second that is over
	bestAt int64 // the newest second when best was found
}

// newWindow returns a window over a time of whole seconds.
func newWindow(over time.Duration) window { return window{counts: make([]int, over/time.Second)} }

// add counts n events at an instant. What the window does not cover is not counted.
func (w *window) add(at time.Time, n int) {
	second := at.Unix()
	w.roll(second)
	if second > w.last-int64(len(w.counts)) {
		*w.count(second) += n
		w.total += n
	}
}

// sum returns the events of the time that the window covers at an instant.
func (w *window) sum(now time.Time) int {
	w.roll(now.Unix())
	return w.total
}

// latest returns the events of the newest second that is over.
func (w *window) latest(now time.Time) int {
	w.roll(now.Unix())
	return *w.count(w.last - 1)
}

// peak returns the most events of a second that is over.
func (w *window) peak(now time.Time) int {
	w.roll(now.Unix())
	if w.bestAt != w.last {
		w.best, w.bestAt = 0, w.last
		for s := w.last - int64(len(w.counts)) + 1; s < w.last; s++ {
			w.best = max(w.best, *w.count(s))
		}
	}
	return w.best
}

// roll makes a second the newest, unless a later one is.
func (w *window) roll(second int64) {
	if second-w.last >= int64(len(w.counts)) {
		clear(w.counts)
		w.total, w.last = 0, second
	}
	for w.last < second {
		w.last++
		oldest := w.count(w.last)
		w.total -= *oldest
		*oldest = 0
	}
}

func (w *window) count(second int64) *int {
	n := int64(len(w.counts))
	return &w.counts[(second%n+n)%n]
}
