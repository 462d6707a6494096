package flow

import "time"

// window counts events by time, in buckets of one width, over the time that its buckets cover.
type window struct {
	width  time.Duration
	counts []int
	total  int
	last   int64 // number of the newest bucket; counts[last % len] is its
	best   int   // the most events of a bucket that is over
	bestAt int64 // the newest bucket when best was found
}

func newWindow(buckets int, width time.Duration) window {
	return window{width: width, counts: make([]int, buckets)}
}

// add counts n events at an instant. What the window does not cover is not counted.
func (w *window) add(at time.Time, n int) {
	bucket := w.bucket(at)
	w.roll(bucket)
	if bucket > w.last-int64(len(w.counts)) {
		*w.count(bucket) += n
		w.total += n
	}
}

// sum returns the events of the time that the window covers at an instant.
func (w *window) sum(now time.Time) int {
	w.roll(w.bucket(now))
	return w.total
}

// peak returns the most events of a bucket that is over.
func (w *window) peak(now time.Time) int {
	w.roll(w.bucket(now))
	if w.bestAt != w.last {
		w.best, w.bestAt = 0, w.last
		for b := w.last - int64(len(w.counts)) + 1; b < w.last; b++ {
			w.best = max(w.best, *w.count(b))
		}
	}
	return w.best
}

// roll makes a bucket the newest, unless a later one is.
func (w *window) roll(bucket int64) {
	if bucket-w.last >= int64(len(w.counts)) {
		clear(w.counts)
		w.total, w.last = 0, bucket
	}
	for w.last < bucket {
		w.last++
		oldest := w.count(w.last)
		w.total -= *oldest
		*oldest = 0
	}
}

func (w *window) bucket(at time.Time) int64 { return at.UnixNano() / int64(w.width) }

func (w *window) count(bucket int64) *int {
	n := int64(len(w.counts))
	return &w.counts[(bucket%n+n)%n]
}
