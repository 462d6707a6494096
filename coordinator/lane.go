package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// item is one event on its way through a lane.
type item struct {
	id     saga.ID
	event  saga.Event
	submit *submission     // with Submitted: what the transaction begins with
	source wire.Message    // with Replied: the message, kept if it turns out to be an incident
	audit  *dlq.AuditEntry // written with what the event changes
	letter int64           // version of the dead letter that an operator's event is about; zero: any
	// version of the transaction that an operator's event is about; zero: any
	version int64
	done    func(outcome) // called exactly once, after the commit or when the event failed
}

// outcome is what became of an event.
type outcome struct {
	rec      *record // as the event left it; nil if there is no such transaction
	stored   *record // as the batch left it, where that may differ
	answer   []byte  // of a submission: the stored answer of its key
	replayed bool    // the answer was stored by an earlier submission
	err      error
}

// lane runs the events of the transactions whose ids fall to it, one batch at a time: load, decide, store in
// one commit, then acknowledge and send. While a commit is in flight the next batch gathers, so batches are
// as large as the load makes them and an idle lane adds no delay.
type lane struct {
	store    *store
	log      *slog.Logger
	queue    chan *item
	batchMax int
	cache    *cache
	rnd      *rand.Rand
	handOff  func(...outbox.Entry)
	finished func(*record) // called after the commit that ended a transaction
	stopping chan struct{} // closed when no more items are offered
	stopped  chan struct{} // closed when the lane has ended
}

// errCannotStore marks an event that will never be stored.
var errCannotStore = errors.New("the event cannot be stored")

// errStopping is what an event gets that arrives while the coordinator stops: nothing was done.
var errStopping = fmt.Errorf("%w: it is stopping", ErrOverloaded)

// offer queues the item, waiting for a place.
func (l *lane) offer(ctx context.Context, it *item) error {
	err := l.tryOffer(it)
	if err == nil || errors.Is(err, errStopping) {
		return err
	}
	select {
	case l.queue <- it:
		return nil
	case <-l.stopping:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryOffer queues the item if there is a place at once.
func (l *lane) tryOffer(it *item) error {
	select {
	case <-l.stopping:
		return errStopping
	default:
	}
	select {
	case l.queue <- it:
		return nil
	default:
		return ErrOverloaded
	}
}

// run works until the lane is stopped and its queue is empty, or ctx ends.
func (l *lane) run(ctx context.Context) {
	defer close(l.stopped)
	for {
		batch := l.gather(ctx)
		if batch == nil {
			l.refuseRest()
			return
		}
		l.process(ctx, batch)
	}
}

// gather waits for an item and takes what else is there.
func (l *lane) gather(ctx context.Context) []*item {
	var batch []*item
	select {
	case it := <-l.queue:
		batch = append(batch, it)
	case <-ctx.Done():
		return nil
	case <-l.stopping:
	}
	for len(batch) < l.batchMax {
		select {
		case it := <-l.queue:
			batch = append(batch, it)
			continue
		default:
		}
		break
	}
	return batch // nil once stopping and empty
}

// refuseRest answers what was queued while the lane ended.
func (l *lane) refuseRest() {
	for {
		select {
		case it := <-l.queue:
			it.done(outcome{err: errStopping})
		default:
			return
		}
	}
}

// process takes the items through to their end. It tries again, on newly loaded transactions, until the
// commit is known to have happened: events that were merged already are not merged twice.
func (l *lane) process(ctx context.Context, items []*item) {
	wait := backoff.WithContext(reconnectBackoff(), ctx)
	duplicates := 0
	doubt := false // a commit that failed may have happened
	for try := 0; len(items) > 0; try++ {
		r, err := l.decide(ctx, items, try > 0)
		decided := err == nil
		if decided {
			err = l.commit(ctx, r)
		}
		if err == nil {
			l.finish(r, doubt)
			items = r.deferred
			continue
		}
		l.forget(items)
		switch {
		case errors.Is(err, errVersionConflict):
			l.log.Debug("another coordinator was first, loading again", "events", len(items))
			err = nil
			if try > conflictsBeforePause {
				sleep(ctx, time.Duration(1+l.rnd.IntN(20))*time.Millisecond)
			}
		case pg.IsUnique(err, "") && duplicates < duplicatesMax:
			duplicates++
			items, err = l.answerDuplicates(ctx, items)
		case permanent(err):
			l.isolate(ctx, items, err)
			return
		}
		if err != nil {
			doubt = doubt || decided && pg.CommitUnknown(err)
			pause := wait.NextBackOff()
			if pause == backoff.Stop {
				failAll(items, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
				return
			}
			l.log.Warn("cannot reach the database, trying again", "error", err, "events", len(items), "in", pause)
			sleep(ctx, pause)
		}
	}
}

// conflictsBeforePause is how often a batch is decided again at once; coordinators that keep meeting then draw
// apart.
const conflictsBeforePause = 3

// duplicatesMax bounds how often a batch may meet keys that are taken before that counts as a fault.
const duplicatesMax = 20

// isolate handles a batch that failed for a reason that will not pass transaction by transaction, and one
// transaction event by event, so that only the event that is to blame is set aside.
func (l *lane) isolate(ctx context.Context, items []*item, err error) {
	if groups := group(items); len(groups) > 1 {
		for _, g := range groups {
			l.process(ctx, g)
		}
		return
	}
	if len(items) > 1 {
		for i := range items {
			l.process(ctx, items[i:i+1])
		}
		return
	}
	if pg.Code(err) == dlq.CodeMoved {
		failAll(items, ErrStale)
		return
	}
	l.log.Error("an event cannot be stored and is set aside", "transaction", items[0].id.String(), "error", err)
	failAll(items, fmt.Errorf("%w: %w", errCannotStore, err))
}

// permanent reports whether storing the same again must fail the same way: faults of our own, what the wire or
// the outbox refuses, and what PostgreSQL refuses for a reason that lies in the statement or the data.
func permanent(err error) bool {
	var encode *wire.EncodeError
	var tooLarge *outbox.TooLargeError
	var invalid *outbox.InvalidError
	var fault *faultError
	if errors.As(err, &encode) || errors.As(err, &tooLarge) || errors.As(err, &invalid) || errors.As(err, &fault) {
		return true
	}
	code := pg.Code(err)
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "08", "57", // the connection, the server's operator
		"0A", "26", // a cached plan or prepared statement is gone
		"25", "28", "3D", // a standby, credentials, no such database
		"40", "53", "55", "58": // deadlocks, resources, locks, I/O
		return false
	}
	return true
}

// answerDuplicates answers the submissions whose keys are stored already, and returns the other items.
func (l *lane) answerDuplicates(ctx context.Context, items []*item) ([]*item, error) {
	var keys []requestKey
	for _, it := range items {
		if it.submit != nil && it.submit.rec.requestID != "" {
			keys = append(keys, it.submit.key())
		}
	}
	found, err := l.store.findRequests(ctx, keys)
	if err != nil {
		return items, err
	}
	var rest []*item
	for _, it := range items {
		if it.submit == nil {
			rest = append(rest, it)
			continue
		}
		first, known := found[it.submit.key()]
		switch {
		case !known || first.id == it.id: // new, or our own from a commit whose answer was lost
			rest = append(rest, it)
		case first.contentSHA256 != it.submit.rec.contentSHA256:
			it.done(outcome{err: ErrKeyReused})
		default:
			it.done(outcome{answer: first.answer, replayed: true})
		}
	}
	return rest, nil
}

// finish publishes and acknowledges what a commit has made true. In doubt, an operator's action that is refused
// may have been carried out by the commit before.
func (l *lane) finish(r *round, doubt bool) {
	l.handOff(r.entries...)
	for _, w := range r.writes {
		ended := w.changed && w.rec.tx.Status.Terminal()
		if ended {
			w.rec.tx.Inputs, w.rec.bodyBytes = nil, 0 // nothing is sent any more
		}
		l.cache.put(w.rec)
		if ended {
			l.finished(w.rec)
		}
	}
	l.alarm(r)
	for i, it := range r.items {
		o := r.outcomes[i]
		if o.stored != nil {
			o.rec.tx.Version, o.rec.wakeAt = o.stored.tx.Version, o.stored.wakeAt
		}
		if doubt && it.audit != nil && o.err != nil {
			o.err = fmt.Errorf("%w: %s", ErrOutcomeUnknown, o.err.Error())
		}
		it.done(o)
	}
}

// alarm logs what a person should look at.
func (l *lane) alarm(r *round) {
	for _, w := range r.writes {
		for i := range w.letters {
			if letter := &w.letters[i]; letter.To == saga.DeadLetterOpen {
				l.log.Warn("an operation is set aside as a dead letter", "transaction", w.rec.tx.ID.String(), "step", letter.Step,
					"phase", letter.Phase, "cause", letter.Cause, "reason", text(letter.Reason))
			}
		}
	}
	for _, o := range r.orphans {
		l.log.Error("incident: a reply that cannot be", "transaction", o.it.id.String(), "problem", text(o.problem))
	}
}

func (l *lane) forget(items []*item) {
	for _, it := range items {
		l.cache.drop(it.id)
	}
}

func failAll(items []*item, err error) {
	for _, it := range items {
		it.done(outcome{err: err})
	}
}

// group splits items by transaction, keeping their order.
func group(items []*item) [][]*item {
	at := make(map[saga.ID]int, len(items))
	var groups [][]*item
	for _, it := range items {
		i, ok := at[it.id]
		if !ok {
			i = len(groups)
			at[it.id] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], it)
	}
	return groups
}

// reconnectBackoff is for loops that wait for the database or NATS to come back.
func reconnectBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
