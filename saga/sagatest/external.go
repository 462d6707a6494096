package sagatest

import (
	"errors"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// External effects: no local transaction is open while the gateway is called. What follows from each answer is decided
// by saga.Claim, saga.Resume and saga.Conclude.

// errLeasePassed says that the row has another lease than the process that wants to write (B6).
var errLeasePassed = errors.New("the lease has passed to another")

// effect is one command about an external effect.
type effect struct {
	*job
	row       saga.BarrierRow // as claimed
	first     bool            // nothing of this try has been sent before
	userUntil instant         // the process sends nothing after that, by its own clock
	leaseEnds instant         // by its own clock, read before the claim: not too late
}

// external does what an admitted command about an external effect asks for.
func (j *job) external(t *local, row saga.BarrierRow, verdict saga.Verdict) {
	e := &effect{
		job: j, row: row, first: verdict.Do == saga.DoRun,
		userUntil: j.w.now.add(handlerTimeout), leaseEnds: j.w.now.add(leaseTime),
	}
	if j.cmd.Phase != saga.PhaseTry && e.first { // the row is tried
		t.end()
		e.settle()
		return
	}
	b := j.p.db
	t.save(j.process, func(saga.BarrierRow) (saga.BarrierRow, change, error) {
		e.row = saga.Claim(row, j.cmd, b.now().Add(leaseTime))
		return e.row, change{}, nil
	}, func(err error) {
		if err != nil {
			j.again(j.execute)
			return
		}
		j.then(pointClaimed, func() {
			if e.first {
				e.do()
				return
			}
			e.inquire()
		})
	})
}

// do makes the effect and stores what became of it.
func (e *effect) do() {
	switch m := e.w.mood(e.key, &e.cmd); m {
	case moodKill:
		e.crash()
		return
	case moodRetry, moodPanic, moodFault, moodUnknown: // before it has sent anything, which nobody can know
		e.answer(e.concluded(m.ran(e.cmd, 0)))
		return
	default:
	}
	e.p.gateway.do(e.process, e.key, e.cmd.Kind, e.spec.idempotent, e.userUntil, func(result saga.Payload, err error) {
		e.then(pointDownstream, func() { e.did(result, err) })
	})
}

func (e *effect) did(result saga.Payload, err error) {
	ran := ranOf(err)
	ran.Result = result
	verdict, next := saga.Conclude(e.row, e.cmd, ran)
	if verdict.Store {
		e.store(next, verdict.Reply)
		return
	}
	nothing := errors.Is(err, errNotSent) || ran.Outcome == saga.OutcomeRefused
	switch {
	case nothing || e.spec.idempotent:
		e.release(nothing && e.first)
	case ran.Outcome == saga.OutcomeRetry:
		ran.RetryAfter = max(ran.RetryAfter, time.Duration(e.leaseEnds-e.w.now))
	}
	e.answer(e.concluded(ran))
}

// ranOf translates a gateway's answer.
func ranOf(err error) saga.Ran {
	switch {
	case err == nil:
		return saga.Ran{Outcome: saga.OutcomeDone}
	case errors.Is(err, errSaidNo):
		return saga.Ran{Outcome: saga.OutcomeRefused, Code: "no"}
	}
	return saga.Ran{Outcome: saga.OutcomeRetry, Reason: err.Error()}
}

// inquire finds out what became of a try whose lease is over, and goes on from there.
func (e *effect) inquire() {
	if !e.spec.inquire {
		e.resume(saga.DownstreamUndecided, saga.Payload{})
		return
	}
	try := e.cmd.Phase == saga.PhaseTry
	switch m := e.w.mood(e.key, &e.cmd); m {
	case moodKill:
		e.crash()
		return
	case moodRetry, moodPanic, moodFault:
		if ran := m.ran(e.cmd, 0); !try || !e.spec.idempotent || ran.Outcome != saga.OutcomeRetry {
			e.release(false)
			e.answer(e.concluded(ran))
			return
		}
		e.resume(saga.DownstreamUndecided, saga.Payload{})
		return
	default:
	}
	e.p.gateway.inquire(e.process, e.key, e.userUntil, func(found saga.Downstream, result saga.Payload, err error) {
		switch {
		case errors.Is(err, errSaidNo):
			e.foundRefused()
		case err != nil && try && e.spec.idempotent:
			e.resume(saga.DownstreamUndecided, saga.Payload{})
		case err != nil:
			e.release(false)
			e.answer(e.concluded(ranOf(err)))
		default:
			e.resume(found, result)
		}
	})
}

// foundRefused stores that downstream has refused the try for good.
func (e *effect) foundRefused() {
	try := e.cmd
	try.Phase = saga.PhaseTry
	try.ContentSHA256, try.Revision = e.row.Try.ContentSHA256, e.row.Try.Revision
	verdict, next := saga.Conclude(e.row, try, ranOf(errSaidNo))
	if !verdict.Store {
		e.release(false)
		e.answer(e.concluded(ranOf(errSaidNo)))
		return
	}
	if e.cmd.Phase == saga.PhaseTry {
		e.store(next, verdict.Reply)
		return
	}
	e.storeRow(next, e.execute)
}

// resume goes on by what was found out.
func (e *effect) resume(found saga.Downstream, result saga.Payload) {
	verdict, next := saga.Resume(e.row, e.cmd, found, result, e.spec.idempotent)
	switch {
	case verdict.Store:
		e.store(next, verdict.Reply)
	case verdict.Do == saga.DoRun && e.cmd.Phase == saga.PhaseTry:
		e.do()
	case verdict.Do == saga.DoRun:
		e.undo()
	case verdict.Do == saga.DoVoid && e.spec.void:
		e.void()
	case verdict.Do == saga.DoVoid:
		e.release(false)
		e.answer(e.concluded(saga.Ran{Outcome: saga.OutcomeUnknown}))
	default:
		e.release(false)
		e.answer(verdict.Reply)
	}
}

// undo compensates, under the lease, what an inquiry has found done.
func (e *effect) undo() {
	e.p.gateway.settle(e.process, e.key, e.cmd.Phase, e.userUntil, e.concludeLeased)
}

// void makes downstream refuse the try for ever, and then cancels the step.
func (e *effect) void() {
	e.p.gateway.void(e.process, e.key, e.userUntil, e.concludeLeased)
}

// concludeLeased stores that a cancel is done, or gives the lease back.
func (e *effect) concludeLeased(err error) {
	e.then(pointDownstream, func() {
		if err != nil {
			e.release(false)
			e.answer(e.concluded(ranOf(err)))
			return
		}
		verdict, next := saga.Conclude(e.row, e.cmd, ranOf(nil))
		e.store(next, verdict.Reply)
	})
}

// settle runs the confirm or cancel of a try that has happened, then stores that. Nothing is claimed: it is safe to repeat.
func (e *effect) settle() {
	m := e.w.mood(e.key, &e.cmd)
	if m != moodDone && m != moodSlow && m != moodKill {
		e.answer(e.concluded(m.ran(e.cmd, 0)))
		return
	}
	if m == moodKill {
		e.crash()
		return
	}
	e.p.gateway.settle(e.process, e.key, e.cmd.Phase, e.userUntil, func(err error) {
		if err != nil {
			e.answer(e.concluded(ranOf(err)))
			return
		}
		e.then(pointDownstream, e.settled)
	})
}

// settled admits the command again, now that it has been carried out, and stores that.
func (e *effect) settled() {
	b := e.p.db
	b.enter(e.process, e.key, func(t *local, ok bool) {
		if !ok {
			e.answer(e.concluded(saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeBusy}))
			return
		}
		row := b.row(e.key)
		verdict, _ := saga.Admit(row, e.cmd, b.now())
		switch verdict.Do {
		case saga.DoReply:
			t.end()
			e.answer(verdict.Reply)
		case saga.DoRun:
			verdict, next := saga.Conclude(row, e.cmd, ranOf(nil))
			e.save(t, next, change{}, verdict.Reply)
		default:
			t.end()
			e.answer(e.concluded(saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeBusy}))
		}
	}, func() { e.again(e.settled) })
}

// store stores the operation's definitive reply under the lease, and answers it; or what is recorded by now, if the
// lease has passed to another (B6).
func (e *effect) store(next saga.BarrierRow, reply saga.Reply) {
	e.storeRow(next, func() { e.answer(reply) })
}

func (e *effect) storeRow(next saga.BarrierRow, then func()) {
	e.write(func(row saga.BarrierRow) (saga.BarrierRow, change, error) {
		if !e.mine(row) {
			return row, change{}, errLeasePassed
		}
		return next, change{}, nil
	}, func(err error) {
		switch {
		case errors.Is(err, errLeasePassed):
			e.execute() // it is answered from the row, or waits for the other
		case err != nil: // what happened outside is known only here
			e.after(e.w.between(50*time.Millisecond, 2*time.Second), func() { e.storeRow(next, then) })
		default:
			e.then(pointLocalCommitted, then)
		}
	})
}

// mine reports whether the row's lease is still the one that was claimed.
func (e *effect) mine(row saga.BarrierRow) bool {
	return row.State == saga.BarrierTrying && row.LeaseToken == e.row.LeaseToken || e.w.sabotaged(WithoutLeaseToken)
}

// write is one local transaction that changes the row.
func (e *effect) write(decide func(saga.BarrierRow) (saga.BarrierRow, change, error), answer func(error)) {
	e.p.db.enter(e.process, e.key, func(t *local, ok bool) {
		if !ok {
			answer(errNotCommitted)
			return
		}
		t.save(e.process, decide, answer)
	}, func() { answer(errNotCommitted) })
}

// release ends the lease before its time. With nothing, the try is as if it had never come. If it does not succeed the lease
// ends by itself.
func (e *effect) release(nothing bool) {
	b := e.p.db
	e.write(func(row saga.BarrierRow) (saga.BarrierRow, change, error) {
		if !e.mine(row) {
			return row, change{}, errLeasePassed
		}
		if nothing {
			row.State, row.LeaseUntil = saga.BarrierAbsent, time.Time{}
			row.Try.ContentSHA256, row.Try.Revision = [32]byte{}, 0
		} else {
			row.LeaseUntil = b.now()
		}
		return row, change{}, nil
	}, func(error) {})
}
