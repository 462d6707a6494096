package outbox

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

// settlement is what has to become of a row.
type settlement struct {
	item   *item
	result relay.Result
	err    error
}

// settler gathers settlements while the ones before are being written.
type settler struct {
	wake signal
	mu   sync.Mutex
	list []settlement
}

func (s *settler) add(one settlement) {
	s.mu.Lock()
	s.list = append(s.list, one)
	s.mu.Unlock()
	s.wake.set()
}

// take returns what has gathered, at most settleBatch.
func (s *settler) take() []settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.list), settleBatch)
	taken := s.list[:n:n]
	if s.list = s.list[n:]; len(s.list) == 0 {
		s.list = nil
	}
	return taken
}

// settleLoop writes settlements until no more answers come and all are written, or ctx ends. Nobody waits for
// them, so they gather for a moment: each would have a commit of its own otherwise.
func (r *Relay) settleLoop(ctx context.Context, answersEnd <-chan struct{}) {
	for {
		select {
		case <-r.settler.wake:
		case <-answersEnd:
		case <-ctx.Done():
		}
		gathered := time.NewTimer(settleGather)
		select {
		case <-gathered.C:
			r.settleAll(ctx)
		case <-answersEnd:
			r.settleAll(ctx)
			return
		case <-ctx.Done():
			return
		}
	}
}

// settleAll writes all that has gathered. What cannot be written is tried until ctx ends.
func (r *Relay) settleAll(ctx context.Context) {
	for ctx.Err() == nil {
		batch := r.settler.take()
		if len(batch) == 0 {
			return
		}
		r.report(batch)
		retry := newBackoff()
		for {
			err := r.settle(ctx, batch)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return // the rows are found again later
			}
			wait := retry.NextBackOff()
			r.log.Warn("outbox rows cannot be settled, will try again", "rows", len(batch), "error", err, "wait", wait)
			sleep(ctx, wait, nil)
		}
		items := make([]*item, len(batch))
		for i, s := range batch {
			items[i] = s.item
		}
		r.memory.forget(items)
		r.room.set()
	}
}

// report logs what a person may have to look at. It is not done where PubAcks arrive: logging may block.
func (r *Relay) report(batch []settlement) {
	transients := 0
	var last error
	for _, s := range batch {
		switch s.result {
		case relay.Permanent:
			r.log.Error("message cannot be published and stays in the outbox; change the limit or delete the row",
				"id", s.item.id, "subject", s.item.msg.Subject, "bytes", s.item.size, "error", s.err)
		case relay.Blocked, relay.Transient:
			transients, last = transients+1, s.err
		case relay.Acknowledged, relay.Expired:
		}
	}
	if transients > 0 {
		r.log.Debug("messages were not acknowledged and will be published again", "messages", transients, "error", last)
	}
}

// settle deletes rows that are done and says of the others when they may be taken again, in one round
// trip and one transaction. Rows are locked in order of their ids; two relays that were busy with the
// same rows may still meet, and then one of them tries again.
func (r *Relay) settle(ctx context.Context, batch []settlement) error {
	var done, again idArray
	delays := map[uuid.UUID]int64{}
	for _, s := range batch {
		switch relay.Settle(s.result, r.memory.isClaimed(s.item)) {
		case relay.Delete:
			done = append(done, pg.UUID(s.item.id))
		case relay.Release:
			again = append(again, pg.UUID(s.item.id))
			delays[s.item.id] = relay.RetryDelay(s.result, s.item.age, rand.Float64()).Milliseconds()
		case relay.Leave:
		}
	}
	b := &pgx.Batch{}
	b.Queue(sqlSettings)
	if len(done) > 0 {
		sortIDs(done)
		b.Queue(sqlDelete, done)
	}
	if len(again) > 0 {
		sortIDs(again)
		delaysMS := make([]int64, len(again))
		for i, id := range again {
			delaysMS[i] = delays[id.Bytes]
		}
		b.Queue(sqlRelease, again, delaysMS)
	}
	if b.Len() == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return r.cfg.Pool.SendBatch(ctx, b).Close()
}

func sortIDs(ids idArray) {
	slices.SortFunc(ids, func(a, b pgtype.UUID) int { return bytes.Compare(a.Bytes[:], b.Bytes[:]) })
}

// signal wakes one waiting loop. Setting it twice is setting it once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// sleep waits until d is over, the signal comes or ctx ends.
func sleep(ctx context.Context, d time.Duration, wake signal) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}
