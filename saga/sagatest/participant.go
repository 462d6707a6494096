package sagatest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// participant is a service with a database of its own, a gateway behind it, and one or two replicas that share both.
type participant struct {
	w        *world
	name     string
	db       *barrier
	gateway  *gateway
	replicas []*replica
	told     saga.ID // the highest floor that a command has told of (B7)
}

// replica is one process of a participant.
type replica struct {
	*process
	p *participant
}

func newParticipant(w *world, name string, replicas int) *participant {
	p := &participant{w: w, name: name, db: newBarrier(w, name+".db"), gateway: &gateway{w: w, keys: map[rowKey]*charge{}}}
	for i := range replicas {
		r := &replica{p: p, process: &process{w: w, name: fmt.Sprintf("%s.%d", name, i+1)}}
		r.process.start = func() { w.bag.resume(name) }
		p.replicas = append(p.replicas, r)
		w.processes = append(w.processes, r.process)
		w.bag.join(name, r.process, r.take)
	}
	return p
}

// outage takes all replicas down for a while.
func (p *participant) outage() {
	d := p.w.tail(5*time.Second, outageMax)
	p.w.note(noID, p.name, "is down for %s", d)
	for _, r := range p.replicas {
		r.down = true
		r.crash()
	}
	p.w.after(d, func() {
		for _, r := range p.replicas {
			r.down = false
			r.restart()
		}
	})
}

const outageMax = time.Hour

// job is a command in hand.
type job struct {
	*replica
	d     *delivery
	cmd   saga.Command
	key   rowKey
	spec  action
	taken instant
	begun bool // counted as begun (S3: poison)
	never bool // it was begun too often, and is not run
}

// lifeDefault is how long a command is worked on that does not say how long the coordinator waits.
const lifeDefault = time.Minute

func (r *replica) take(d *delivery) {
	cmd, err := wire.DecodeCommand(d.Message)
	if err != nil {
		d.term()
		return
	}
	if r.p.told.Before(cmd.Floor) {
		r.p.told = cmd.Floor
	}
	r.w.note(cmd.Transaction, r.name, "takes %s", commandText{cmd})
	j := &job{
		replica: r, d: d, cmd: cmd, key: rowKey{cmd.Transaction, cmd.Step}, spec: actions[cmd.Action], taken: r.w.now,
	}
	if r.w.sabotaged(AckedBeforeReply) {
		d.ack()
	}
	r.then(pointFetched, j.execute)
}

// execute does what the command asks for, in one local transaction.
func (j *job) execute() {
	b := j.p.db
	if j.cmd.Verb == saga.VerbInquire {
		var reply saga.Reply
		b.read(j.process, func() {
			v, _ := saga.Admit(b.row(j.key), j.cmd, b.now())
			reply = v.Reply
		}, func(ok bool) {
			if !ok {
				j.again(j.execute)
				return
			}
			j.answer(reply)
		})
		return
	}
	b.enter(j.process, j.key, func(t *local, ok bool) {
		if !ok {
			j.answer(j.concluded(saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeBusy}))
			return
		}
		j.then(pointEntered, func() { j.admit(t) })
	}, func() { j.again(j.execute) })
}

// admit asks the barrier.
func (j *job) admit(t *local) {
	b := j.p.db
	row := b.row(j.key)
	verdict, next := saga.Admit(row, j.cmd, b.now())
	switch {
	case verdict.Do == saga.DoReply && verdict.Store:
		j.save(t, next, change{}, verdict.Reply)
	case verdict.Do == saga.DoReply:
		t.end()
		j.answer(verdict.Reply)
	case j.suspicious():
		t.end()
		j.suspect()
	case j.spec.external:
		j.external(t, row, verdict)
	case verdict.Do != saga.DoRun: // an external effect, and a program that knows nothing of it any more
		t.end()
		j.answer(j.concluded(saga.Ran{Outcome: saga.OutcomeUnknown}))
	default:
		j.run(t, row)
	}
	if verdict.Do == saga.DoRun {
		j.w.checkInTime(j)
	}
}

// suspicious reports whether the command may be what has ended its process before.
func (j *job) suspicious() bool { return !j.begun && (j.cmd.Attempt > 1 || j.d.n > 1) }

// begunMax is how often the user code of an operation may be begun without an end.
const begunMax = 5

// suspect counts that user code is about to begin, in a transaction of its own, and decides whether it may.
func (j *job) suspect() {
	b := j.p.db
	key := suspectKey{j.key, j.cmd.Phase}
	begun := 0
	b.commit(j.process, func() error {
		b.suspects[key]++
		begun = b.suspects[key]
		return nil
	}, func() {}, func(err error) {
		j.begun = true
		switch {
		case err != nil:
			j.begun = false
			j.again(j.execute)
		case saga.Suspect(begun, begunMax) == saga.RunNever:
			j.never = true
			j.answer(j.concluded(saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultPoison}))
		default:
			j.execute()
		}
	})
}

// absolve forgets the suspicion: user code has ended and its process lives; or a person has to look, and what is sent again
// after that begins anew.
func (j *job) absolve() {
	if j.begun {
		delete(j.p.db.suspects, suspectKey{j.key, j.cmd.Phase})
	}
}

// run calls the user code of an operation whose effect is in the database.
func (j *job) run(t *local, row saga.BarrierRow) {
	w := j.w
	m := w.mood(j.key, &j.cmd)
	if m == moodKill {
		j.crash()
		return
	}
	took := w.between(10*time.Microsecond, 2*time.Millisecond)
	if m == moodSlow {
		took = w.tail(100*time.Millisecond, 2*handlerTimeout)
	}
	j.after(min(took, handlerTimeout), func() {
		ran := m.ran(j.cmd, took)
		done := change{}
		if ran.Outcome == saga.OutcomeDone {
			if j.cmd.Phase == saga.PhaseTry {
				w.run++
				ran.Result = saga.Payload{Data: fmt.Appendf(nil, `{"run":%d}`, w.run)}
			}
			done = change{phase: j.cmd.Phase, kind: j.cmd.Kind, amount: amountOf(j.cmd)}
		}
		j.then(pointChanged, func() { j.conclude(t, row, ran, done) })
	})
}

// conclude stores what user code did, or rolls it back.
func (j *job) conclude(t *local, row saga.BarrierRow, ran saga.Ran, done change) {
	verdict, next := saga.Conclude(row, j.cmd, ran)
	if !verdict.Store {
		t.end()
		j.answer(verdict.Reply)
		return
	}
	j.then(pointStored, func() { j.save(t, next, done, verdict.Reply) })
}

// save commits the row and the business change, then answers.
func (j *job) save(t *local, next saga.BarrierRow, done change, reply saga.Reply) {
	t.save(j.process, func(saga.BarrierRow) (saga.BarrierRow, change, error) { return next, done, nil }, func(err error) {
		if err != nil { // not done, or not known: the row tells
			j.again(j.execute)
			return
		}
		j.then(pointLocalCommitted, func() { j.answer(reply) })
	})
	j.then(pointLocalCommitSent, func() {})
	if j.w.sabotaged(AnsweredBeforeCommit) {
		j.answer(reply)
	}
}

// concluded is the answer to a command of which nothing is stored.
func (j *job) concluded(ran saga.Ran) saga.Reply {
	verdict, _ := saga.Conclude(saga.BarrierRow{}, j.cmd, ran)
	return verdict.Reply
}

// answer publishes the reply, and acknowledges the command only after its PubAck (B5).
func (j *job) answer(reply saga.Reply) {
	m, err := wire.EncodeReply(reply, j.cmd.ReplyTo)
	if err != nil {
		j.w.violated("S3", j.cmd.Transaction, "a reply cannot be encoded: %v", err)
		return
	}
	j.w.checkReply(j, reply)
	if !j.never {
		j.absolve()
	}
	var publish func()
	publish = func() {
		j.w.note(j.cmd.Transaction, j.name, "replies %s", replyText{reply})
		j.w.bag.publish(j.process, m, j.cmd.Transaction, func(err error) {
			if err != nil {
				j.again(publish)
				return
			}
			j.absolve()
			j.then(pointReplyPubAcked, j.d.ack)
		})
		j.then(pointReplyPublished, func() {})
	}
	publish()
}

// again does something again after a while, unless the coordinator has given the attempt up: then the command is left, and
// comes again or does not.
func (j *job) again(what func()) {
	if j.w.now >= j.taken.add(cmp.Or(j.cmd.Timeout, lifeDefault)) {
		j.absolve()
		return
	}
	j.after(j.w.between(50*time.Millisecond, 2*time.Second), what)
}

// retain forgets what is past the participant's retention (B7).
func (p *participant) retain() {
	p.db.forget(saga.RaiseFloor(p.db.floor, p.told, p.w.retention, p.db.held()))
}
