package participant

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

const (
	inHandPerHandler = 4           // commands taken for each handler that may run: some wait for the PubAck of their reply
	inHandPerGroup   = 4           // the same for each command of a group: two groups may be under way
	lifeDefault      = time.Minute // of a command that does not say how long the coordinator waits
	againFirst       = 50 * time.Millisecond
	againMax         = 2 * time.Second
)

// intake is one call of Run: the commands in hand.
type intake struct {
	p        *Participant
	bus      *bus.Bus
	handling context.Context // of handlers: ends when the time to drain is over
	give     context.CancelFunc
	draining <-chan struct{}

	groups  *gather
	places  chan struct{} // one per command in hand
	running chan struct{} // one per command that uses the database
	alone   chan struct{} // full while a command waits to be alone, or is: nothing is taken meanwhile

	mu     sync.Mutex
	closed bool // nothing is taken any more
	jobs   map[*job]struct{}
	busy   int                // goroutines that work on commands and do not wait to be alone
	idle   chan struct{}      // closed when busy falls to zero; nil unless somebody waits for that
	steps  map[stepKey][]*job // of each step with a command under way: the commands that wait for it
	work   sync.WaitGroup
}

// stepKey names a barrier row.
type stepKey struct {
	tenant      string
	transaction saga.ID
	step        string
}

// job is a command in hand.
type job struct {
	delivery *bus.Delivery
	cmd      saga.Command
	bad      error // why it could not be decoded
	taken    time.Time
	suspect  suspect
}

// expired reports whether the coordinator has given this attempt up. It sends the next one.
func (j *job) expired() bool { return time.Since(j.taken) > cmp.Or(j.cmd.Timeout, lifeDefault) }

func newIntake(ctx context.Context, p *Participant, b *bus.Bus) *intake {
	in := &intake{
		p: p, bus: b, draining: ctx.Done(),
		places:  make(chan struct{}, max(inHandPerHandler*p.cfg.Concurrency, inHandPerGroup*p.cfg.GroupMax)),
		running: make(chan struct{}, p.cfg.Concurrency),
		alone:   make(chan struct{}, 1),
		jobs:    map[*job]struct{}{}, steps: map[stepKey][]*job{},
	}
	in.groups = newGather(in)
	in.handling, in.give = context.WithCancel(context.WithoutCancel(ctx))
	return in
}

// run takes commands until ctx ends and returns when none is in hand any more.
func (in *intake) run(ctx context.Context) error {
	defer in.give()
	var beats sync.WaitGroup
	stop := make(chan struct{})
	beats.Go(func() { in.heartbeat(stop) })
	err := in.bus.Consume(ctx, bus.Consumer{
		Stream: bus.Commands, Durable: in.p.cfg.Name,
		FilterSubjects: []string{wire.CommandSubject(in.p.cfg.Prefix, in.p.cfg.Name)},
		AckWait:        in.p.cfg.AckWait, MaxBatch: max(in.p.cfg.Concurrency, 2*in.p.cfg.GroupMax), DrainTimeout: in.p.cfg.DrainTimeout,
	}, in.take)
	in.give() // what has not ended by now is rolled back
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.work.Wait()
	close(stop)
	beats.Wait()
	return err
}

// take gets a command from the bus. It returns as soon as there is a place for it.
func (in *intake) take(d *bus.Delivery) {
	select {
	case in.places <- struct{}{}:
	case <-in.handling.Done():
		d.Leave()
		return
	}
	select {
	case in.alone <- struct{}{}:
		defer func() { <-in.alone }() // when it is busy: nobody who waits to be alone may overlook it
	case <-in.handling.Done():
		<-in.places
		d.Leave()
		return
	}
	j := &job{delivery: d, taken: time.Now()}
	if j.cmd, j.bad = wire.DecodeCommand(d.Message); j.bad == nil {
		in.p.hear(j.cmd.Floor)
	}
	j.suspect.delivery = d.NumDelivered()

	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		in.settle(j, d.Leave)
		return
	}
	in.jobs[j] = struct{}{}
	// Commands of one step run one after the other: copies and phases would only wait for each other's row
	// lock, each with a connection. Several processes do; the lock keeps them apart.
	key := stepKey{tenant: j.cmd.Tenant, transaction: j.cmd.Transaction, step: j.cmd.Step}
	if waiting, busy := in.steps[key]; busy && j.bad == nil {
		in.steps[key] = append(waiting, j)
		return
	}
	if j.bad == nil {
		in.steps[key] = nil
	}
	in.busy++
	in.work.Go(func() {
		defer in.rest()
		for j := j; j != nil; j = in.next(key, j) {
			in.finish(j)
		}
	})
}

// next returns the command that waited for the step of the one that has ended; nil if there is none.
func (in *intake) next(key stepKey, ended *job) *job {
	in.mu.Lock()
	defer in.mu.Unlock()
	if ended.bad != nil {
		return nil // it held no step
	}
	waiting := in.steps[key]
	if len(waiting) == 0 {
		delete(in.steps, key)
		return nil
	}
	in.steps[key] = waiting[1:]
	return waiting[0]
}

// rest says that a goroutine has nothing to do, or waits to be alone.
func (in *intake) rest() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy--
	if in.busy == 0 && in.idle != nil {
		close(in.idle)
		in.idle = nil
	}
}

// resume takes rest back.
func (in *intake) resume() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy++
}

// quiet returns a channel that is closed once every goroutine rests.
func (in *intake) quiet() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.idle == nil {
		in.idle = make(chan struct{})
	}
	idle := in.idle
	if in.busy == 0 {
		close(idle)
		in.idle = nil
	}
	return idle
}

// settle ends a delivery and gives its place back.
func (in *intake) settle(j *job, how func()) {
	how()
	<-in.places
}

// finish answers a command and acknowledges it: only after the local commit and the PubAck of the reply (B5).
// Otherwise it says nothing, and the command comes again.
func (in *intake) finish(j *job) {
	how := j.delivery.Leave
	defer func() {
		in.mu.Lock()
		delete(in.jobs, j)
		in.mu.Unlock()
		in.settle(j, how)
	}()
	if j.bad != nil && !wire.Answerable(j.cmd) {
		in.p.log.Error("command cannot be decoded or answered, and is dropped",
			"error", j.bad, "subject", j.delivery.Subject, "headers", j.delivery.Header, "body", j.delivery.Data)
		how = func() { _ = j.delivery.Term(j.bad.Error()) }
		return
	}
	reply, ok := in.answer(j)
	if !ok {
		return
	}
	in.p.hooks.reach(pointAnswered, j.cmd)
	if !in.publish(j, reply) {
		return
	}
	in.p.hooks.reach(pointPublished, j.cmd)
	if j.suspect.poison { // a person has to look now; what is sent again after that begins anew
		in.p.end(in.handling, j.cmd)
	}
	how = func() {
		if err := j.delivery.Ack(); err != nil {
			in.p.log.Debug("command was not acknowledged and comes again", "operation", j.cmd.Key().String(), "error", err)
		}
	}
}

// answer does what the command asks for and returns the reply to publish.
func (in *intake) answer(j *job) (reply bus.Message, ok bool) {
	if j.bad != nil {
		in.p.log.Error("command cannot be decoded", "error", j.bad, "operation", j.cmd.Key().String())
		reply, err := wire.EncodeReply(undecodableReply(j.cmd, j.bad), j.cmd.ReplyTo)
		if err != nil {
			in.p.log.Error("reply cannot be encoded", "operation", j.cmd.Key().String(), "error", err)
		}
		return reply, err == nil
	}
	if reply, ok := in.groups.answer(j); ok {
		return reply, true
	}
	ok = in.again(j, "the database gave no answer", func() (err error) {
		s := &seat{in: in}
		if err := s.take(in.handling); err != nil {
			return err
		}
		defer s.leave()
		j.suspect.alone = s.takeAlone
		in.p.hooks.reach(pointTaken, j.cmd)
		reply, err = in.p.execute(in.handling, j.cmd, &j.suspect)
		return err
	})
	return reply, ok
}

// publish publishes a reply and waits for its PubAck.
func (in *intake) publish(j *job, reply bus.Message) bool {
	return in.again(j, "the reply was not published", func() error {
		acknowledged := make(chan error, 1)
		in.p.hooks.publisher(in.bus)(in.handling, []bus.Message{reply}, func(_ int, err error) { acknowledged <- err })
		return <-acknowledged
	})
}

// again repeats f until it succeeds, the coordinator has given the attempt up, or it is time to drain. f is
// repeated here rather than by redelivery, so that an outage of PostgreSQL or NATS does not look like a command
// that kills its process.
func (in *intake) again(j *job, what string, f func() error) bool {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(againFirst), backoff.WithMaxInterval(againMax), backoff.WithMaxElapsedTime(0))
	for first := true; ; first = false {
		err := f()
		if err == nil {
			return true
		}
		var unsendable *wire.EncodeError
		last := in.handling.Err() != nil || j.expired() || bus.Permanent(err) || errors.As(err, &unsendable)
		if first || last {
			in.p.log.Warn(what, "operation", j.cmd.Key().String(), "attempt", j.cmd.Attempt, "error", err, "given_up", last)
		}
		if last || !in.wait(pause.NextBackOff()) {
			return false
		}
	}
}

// wait returns false if it is time to drain.
func (in *intake) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-in.draining:
		return false
	}
}

// heartbeat tells the server about commands that take long, so that they are not delivered again meanwhile.
func (in *intake) heartbeat(stop <-chan struct{}) {
	every := in.p.cfg.AckWait / 3
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		var long []*job
		in.mu.Lock()
		for j := range in.jobs {
			if time.Since(j.taken) > every/2 {
				long = append(long, j)
			}
		}
		in.mu.Unlock()
		for _, j := range long {
			if err := j.delivery.InProgress(); err != nil {
				in.p.log.Debug("heartbeat was not sent", "operation", j.cmd.Key().String(), "error", err)
			}
		}
		in.p.absolveAgain(in.handling)
	}
}
