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
	job    *dlq.JobItemRef // with an operator's replay: the item of a job that it carries out
	letter int64           // version of the dead letter that an operator's event is about; zero: any
	// approval is what a replay uses up; nil: nothing
	approval *approvalUse
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
	gate     *gate
	rnd      *rand.Rand
	handOff  func(...outbox.Entry)
	changed  func(*record) // called after the commit that changed a transaction
	stopping chan struct{} // closed when no more items are offered
	stopped  chan struct{} // closed when the lane has ended
}

// errStopping is what an event gets that arrives while the coordinator stops: nothing was done.
var errStopping = fmt.Errorf("%w: %w", ErrOverloaded, saga.ErrStopping)

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
	keysTaken := 0
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
		r.passage.Abandon()
		l.forget(items)
		failure := classify(err, decided)
		doubt = doubt || failure == saga.FailureDoubt
		groups := group(items)
		next := saga.AfterCommit(failure, saga.Batch{
			Tried: try, KeysTaken: keysTaken, Transactions: len(groups), Events: len(items),
		})
		switch next {
		case saga.NextAgain, saga.NextApart:
			l.log.Debug("another coordinator was first, loading again", "events", len(items))
			if next == saga.NextApart {
				sleep(ctx, time.Duration(1+l.rnd.IntN(20))*time.Millisecond)
			}
		case saga.NextAnswerKeys:
			keysTaken++
			if items, err = l.answerDuplicates(ctx, items); err != nil && !l.pause(ctx, wait, items, err) {
				return
			}
		case saga.NextWait:
			if !l.pause(ctx, wait, items, err) {
				return
			}
		default:
			l.giveUp(ctx, next, groups, err)
			return
		}
	}
}

// pause waits for a database that is away. When there is no time left it answers the items, and returns false.
func (l *lane) pause(ctx context.Context, wait backoff.BackOff, items []*item, err error) bool {
	d := wait.NextBackOff()
	if d == backoff.Stop {
		failAll(items, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
		return false
	}
	l.log.Warn("cannot reach the database, trying again", "error", err, "events", len(items), "in", d)
	sleep(ctx, d)
	return true
}

// giveUp ends a batch that failed for a reason that will not pass: in parts, or by answering its only event.
func (l *lane) giveUp(ctx context.Context, next saga.Next, groups [][]*item, err error) {
	switch next {
	case saga.NextByTransaction:
		for _, g := range groups {
			l.process(ctx, g)
		}
	case saga.NextByEvent:
		for i := range groups[0] {
			l.process(ctx, groups[0][i:i+1])
		}
	case saga.NextStale:
		failAll(groups[0], ErrStale)
	default:
		l.log.Error("an event cannot be stored and is set aside", "transaction", groups[0][0].id.String(), "error", err)
		failAll(groups[0], fmt.Errorf("%w: %w", saga.ErrCannotStore, err))
	}
}

// classify translates why a batch is not known to be stored. What follows from it is decided by saga.AfterCommit.
// A batch that was not decided has not sent its commit.
func classify(err error, decided bool) saga.Failure {
	switch {
	case errors.Is(err, errVersionConflict):
		return saga.FailureVersion
	case pg.IsUnique(err, ""), pg.Code(err) == codeForgottenKey:
		return saga.FailureKey
	case pg.Code(err) == dlq.CodeMoved:
		return saga.FailureLetter
	case permanent(err):
		return saga.FailurePermanent
	case decided && pg.CommitUnknown(err):
		return saga.FailureDoubt
	}
	return saga.FailureOutage
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
	return pg.Rejected(err)
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
		first := found[it.submit.key()]
		as, err := saga.JudgeSubmission(first.request(), *it.submit.rec.request(), it.submit.sent)
		if as == saga.SubmittingNew {
			rest = append(rest, it)
			continue
		}
		it.done(outcome{err: err, answer: first.answer, replayed: as == saga.SubmittingReplayed})
	}
	return rest, nil
}

// finish publishes and acknowledges what a commit has made true. In doubt, the commit before may have happened.
func (l *lane) finish(r *round, doubt bool) {
	l.handOff(r.entries...)
	r.passage.Stored(l.store.clock.now())
	for _, w := range r.writes {
		ended := w.changed && w.rec.tx.Status.Terminal()
		if ended {
			w.rec.tx.Inputs, w.rec.bodyBytes = nil, 0 // nothing is sent any more
		}
		l.cache.put(w.rec)
		if w.changed {
			l.changed(w.rec)
		}
	}
	l.alarm(r)
	for i, it := range r.items {
		o := r.outcomes[i]
		if o.stored != nil {
			o.rec.tx.Version, o.rec.wakeAt = o.stored.tx.Version, o.stored.wakeAt
		}
		if doubt {
			o.err = saga.AfterDoubt(it.event, o.err)
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
				l.gate.buried(letter, l.store.clock.now())
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
