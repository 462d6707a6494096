package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// recall looks for the stored answers of submissions that are about to be refused (I7). One query is under way at a time,
// and the keys that come meanwhile share the next one: a flood of refusals costs one connection and few queries.
type recall struct {
	find     func(context.Context, []requestKey) (map[requestKey]*storedRequest, error)
	bytesMax int // of the submissions that wait here, with flow.AdmissionOverhead

	mu      sync.Mutex
	waiting []lookup
	bytes   int
	running bool
}

type lookup struct {
	key    requestKey
	answer chan *storedRequest // nil if nothing is known
}

const (
	// recallTimeout bounds how long a refusal may take. A repetition that is not found in that time is refused: it
	// may be repeated again.
	recallTimeout  = 2 * time.Second
	recallBatchMax = 512
)

// refused decides about a submission that cannot be taken now: a repetition of a stored one gets its answer, anything
// else the reason. A coordinator that stops looks for nothing.
func (c *Coordinator) refused(ctx context.Context, key requestKey, s saga.Submission, reason error) error {
	if saga.CheckRequestID(key.requestID) != nil || errors.Is(reason, errStopping) {
		return reason // without a key too
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	return repetition(c.recall.get(ctx, key, len(s.Body)+flow.AdmissionOverhead), key, s.ContentSHA256(), reason)
}

// get returns what is stored under the key of a submission of so many bytes. It returns nil if nothing is, and if nobody
// knows: ctx ends first, or too much waits already.
func (r *recall) get(ctx context.Context, key requestKey, bytes int) *storedRequest {
	l := lookup{key: key, answer: make(chan *storedRequest, 1)}
	if !r.enqueue(l, bytes) {
		return nil
	}
	defer r.leave(bytes)
	select {
	case found := <-l.answer:
		return found
	case <-ctx.Done():
		return nil
	}
}

func (r *recall) enqueue(l lookup, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+bytes > r.bytesMax {
		return false
	}
	r.bytes += bytes
	r.waiting = append(r.waiting, l)
	if !r.running {
		r.running = true
		go r.run()
	}
	return true
}

func (r *recall) leave(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= bytes
}

// run answers until nobody waits.
func (r *recall) run() {
	for {
		r.mu.Lock()
		batch := r.waiting[:min(len(r.waiting), recallBatchMax)]
		r.waiting = r.waiting[len(batch):]
		r.running = len(batch) > 0
		r.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		keys := make([]requestKey, len(batch))
		for i := range batch {
			keys[i] = batch[i].key
		}
		ctx, cancel := context.WithTimeout(context.Background(), recallTimeout)
		found, err := r.find(ctx, keys)
		cancel()
		if err != nil {
			found = nil // nobody knows
		}
		for i := range batch {
			batch[i].answer <- found[batch[i].key]
		}
	}
}
