package participant

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// recordTimeout bounds one attempt to store what is known about an external effect.
const recordTimeout = 5 * time.Second

const reasonLeasePassed = "the lease of the external effect has passed to another"

// effect is one command about an effect outside of the database.
type effect struct {
	p     *Participant
	cmd   saga.Command
	x     *external
	calls calls
	lease lease
	first bool // nothing of this try has been sent before

	userUntil  time.Time // when the context of user code ends
	leaseUntil time.Time // by this process's clock, read before the database read its own: not too late
}

// runExternal does what an admitted command about an external effect asks for: the rows run and trying of table B. The
// entry's transaction is not open while user code runs: either it is committed, with the claim, or rolled back.
//
// The context of user code ends a margin before the lease does, counted from before the claim, so that a process
// that was paused in between sends nothing after its lease.
func (p *Participant) runExternal(ctx context.Context, entry *Entry, x *external, body wire.Body, began time.Time) (saga.Reply, error) {
	e := &effect{
		p: p, cmd: entry.cmd, x: x, first: entry.Verdict.Do == saga.DoRun,
		userUntil: began.Add(p.cfg.HandlerTimeout), leaseUntil: began.Add(x.lease),
	}
	prepared := make(chan calls, 1)
	r, ended := e.call(ctx, func(context.Context) (r returned) { // decoders are user code too
		var c calls
		c, r.err = x.prepare(operationOf(e.cmd), body)
		prepared <- c
		return r
	})
	ran := e.ran(r, ended)
	if ran.Outcome != saga.OutcomeDone {
		return concluded(e.cmd, ran), nil
	}
	e.calls = <-prepared
	if e.cmd.Phase != saga.PhaseTry && e.first { // the row is tried
		entry.Abandon(ctx)
		return e.settle(ctx)
	}
	var err error
	if e.lease, err = entry.claim(ctx); err != nil {
		return p.failed(e.cmd, err)
	}
	if e.first {
		return e.do(ctx)
	}
	return e.inquire(ctx)
}

// call calls user code. The channel is not nil if it does not return.
func (e *effect) call(ctx context.Context, f func(context.Context) returned) (returned, <-chan returned) {
	ctx, cancel := context.WithDeadline(ctx, e.userUntil)
	defer cancel()
	return e.p.userCode(ctx, operationOf(e.cmd), grace(e.p.cfg.HandlerTimeout), f, func() error { return nil })
}

// ran translates what user code returned, if it did.
func (e *effect) ran(r returned, ended <-chan returned) saga.Ran {
	if ended != nil {
		return timedOut(e.p.cfg.HandlerTimeout)
	}
	return ranOf(r.result, r.err)
}

// do makes the effect, and stores what became of it. What it does not know it leaves to the lease: a request
// may be under way until then, unless nothing has left, or downstream executes it once anyway.
func (e *effect) do(ctx context.Context) (saga.Reply, error) {
	r, ended := e.call(ctx, func(ctx context.Context) (r returned) {
		r.result, r.err = e.calls.do(ctx)
		return r
	})
	e.p.hooks.reach(pointRan, e.cmd)
	ran := e.ran(r, ended)
	if verdict, _ := saga.Conclude(saga.BarrierRow{}, e.cmd, ran); verdict.Store {
		return e.store(ctx, verdict.Reply)
	}
	var unsent *notSentError
	nothing := errors.As(r.err, &unsent) || ran.Outcome == saga.OutcomeRefused // which a retriable step may not say
	if ended == nil && (nothing || e.x.idempotent) {
		e.release(ctx, nothing && e.first)
	} else {
		ran = e.later(ran)
	}
	if ctx.Err() != nil && !nothing {
		return saga.Reply{}, errUnanswered
	}
	return concluded(e.cmd, ran), nil
}

// later makes an answer that is not final ask for patience until the lease is over.
func (e *effect) later(ran saga.Ran) saga.Ran {
	if ran.Outcome == saga.OutcomeRetry {
		ran.RetryAfter = max(ran.RetryAfter, time.Until(e.leaseUntil))
	}
	return ran
}

// inquire finds out what became of a try whose lease was over, and goes on from there.
func (e *effect) inquire(ctx context.Context) (saga.Reply, error) {
	try := e.cmd.Phase == saga.PhaseTry
	r := returned{found: saga.DownstreamUndecided}
	if e.calls.inquire != nil {
		var ended <-chan returned
		r, ended = e.call(ctx, func(ctx context.Context) (r returned) {
			r.found, r.result, r.err = e.calls.inquire(ctx)
			return r
		})
		if ended != nil {
			r = returned{err: &retry{err: errors.New("the inquiry did not return within " + e.p.cfg.HandlerTimeout.String())}}
		}
	}
	if r.err != nil {
		ran := ranOf(saga.Payload{}, r.err)
		if !try || !e.x.idempotent || ran.Outcome != saga.OutcomeRetry {
			return e.notFound(ctx, ran)
		}
		r.found = saga.DownstreamUndecided // it may be run again whatever was found out
	}
	if !try && r.found == saga.DownstreamDone { // the same as Resume says, in two steps: done, then the cancel of that
		return e.settleFound(ctx, saga.Ran{Outcome: saga.OutcomeDone, Result: r.result})
	}
	verdict, _ := saga.Resume(saga.BarrierRow{}, e.cmd, r.found, r.result, e.x.idempotent)
	switch {
	case verdict.Store:
		return e.store(ctx, verdict.Reply)
	case verdict.Do == saga.DoRun:
		return e.do(ctx)
	case verdict.Do == saga.DoVoid && e.calls.void != nil:
		return e.void(ctx)
	case verdict.Do == saga.DoVoid:
		verdict.Reply = concluded(e.cmd, saga.Ran{Outcome: saga.OutcomeUnknown, Reason: "the external effect has not happened, and downstream cannot be made to refuse it"})
	}
	e.release(ctx, false)
	return verdict.Reply, nil
}

// notFound is the end of an inquiry that returned an error.
func (e *effect) notFound(ctx context.Context, ran saga.Ran) (saga.Reply, error) {
	verdict, _ := saga.Conclude(saga.BarrierRow{}, e.cmd, ran)
	switch {
	case verdict.Store: // refused, and the command is the try
		return e.store(ctx, verdict.Reply)
	case ran.Outcome == saga.OutcomeRefused && e.cmd.Phase == saga.PhaseCancel:
		return e.settleFound(ctx, ran)
	}
	e.release(ctx, false)
	if ctx.Err() != nil {
		return saga.Reply{}, errUnanswered
	}
	return verdict.Reply, nil
}

// settleFound stores what became of the try, for a cancel, and lets the barrier admit that again: of a pivot it is
// answered that it has executed, what was refused needs no more, and what has happened is undone.
func (e *effect) settleFound(ctx context.Context, ran saga.Ran) (saga.Reply, error) {
	try := e.cmd
	try.Phase = saga.PhaseTry
	verdict, _ := saga.Conclude(saga.BarrierRow{}, try, ran)
	if !verdict.Store { // a result that is too large
		e.release(ctx, false)
		return concluded(e.cmd, saga.Ran{Outcome: saga.OutcomeFault, Code: verdict.Reply.Code, Reason: verdict.Reply.Reason}), nil
	}
	err := e.p.record(ctx, func(ctx context.Context) error { return e.p.barrier.found(ctx, e.lease, verdict.Reply) })
	if err != nil && pg.Code(err) != stateNotEntered {
		return e.p.failed(e.cmd, err)
	}
	entry, err := e.p.barrier.Enter(ctx, e.cmd)
	if err != nil {
		return e.p.failed(e.cmd, err)
	}
	defer entry.Abandon(ctx)
	switch {
	case entry.Verdict.Do == saga.DoReply:
		return entry.Verdict.Reply, nil
	case entry.Verdict.Do == saga.DoRun && e.calls.settle != nil:
		entry.Abandon(ctx)
		return e.settle(ctx)
	}
	return concluded(e.cmd, saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeBusy, Reason: reasonLeasePassed}), nil
}

// void makes downstream refuse the try for ever, and then cancels the step.
func (e *effect) void(ctx context.Context) (saga.Reply, error) {
	r, ended := e.call(ctx, func(ctx context.Context) returned { return returned{err: e.calls.void(ctx)} })
	ran := e.ran(r, ended)
	if verdict, _ := saga.Conclude(saga.BarrierRow{}, e.cmd, ran); verdict.Store {
		return e.store(ctx, verdict.Reply)
	}
	return e.notFound(ctx, phaseTwo(e.cmd, ran))
}

// phaseTwo makes a refusal, where there is no way back, the fault that it is (S2.7).
func phaseTwo(cmd saga.Command, ran saga.Ran) saga.Ran {
	if ran.Outcome != saga.OutcomeRefused {
		return ran
	}
	reply := concluded(cmd, ran)
	return saga.Ran{Outcome: reply.Outcome, Code: reply.Code, Reason: reply.Reason}
}

// settle runs the confirm or cancel of a try that has happened, then stores that. Nothing is claimed: user code is
// safe to repeat.
func (e *effect) settle(ctx context.Context) (reply saga.Reply, err error) {
	r, ended := e.call(ctx, func(ctx context.Context) returned { return returned{err: e.calls.settle(ctx)} })
	e.p.hooks.reach(pointRan, e.cmd)
	switch ran := e.ran(r, ended); {
	case ran.Outcome == saga.OutcomeDone:
	case ctx.Err() != nil:
		return saga.Reply{}, errUnanswered
	default:
		return concluded(e.cmd, ran), nil
	}
	err = e.p.record(ctx, func(ctx context.Context) error {
		entry, err := e.p.barrier.Enter(ctx, e.cmd)
		if err != nil {
			return err
		}
		defer entry.Abandon(ctx)
		switch entry.Verdict.Do {
		case saga.DoReply: // another process was faster, or holds the row
			reply = entry.Verdict.Reply
		case saga.DoRun:
			reply, err = entry.Conclude(ctx, saga.Ran{Outcome: saga.OutcomeDone})
		default:
			reply = concluded(e.cmd, saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeBusy, Reason: reasonLeasePassed})
		}
		return err
	})
	if err != nil {
		return e.p.failed(e.cmd, err)
	}
	return reply, nil
}

// store stores the operation's definitive reply, and returns what is to be answered: that reply; or, if the lease has
// passed to another, what is recorded by now (B6).
func (e *effect) store(ctx context.Context, reply saga.Reply) (saga.Reply, error) {
	err := e.p.record(ctx, func(ctx context.Context) error { return e.p.barrier.leave(ctx, e.lease, reply) })
	switch {
	case err == nil:
		return reply, nil
	case pg.Code(err) != stateNotEntered:
		return e.p.failed(e.cmd, err)
	}
	e.p.log.WarnContext(ctx, reasonLeasePassed, "operation", e.cmd.Key().String(), "attempt", e.cmd.Attempt, "outcome", reply.Outcome)
	entry, err := e.p.barrier.Enter(ctx, e.cmd)
	if err != nil {
		return e.p.failed(e.cmd, err)
	}
	defer entry.Abandon(ctx)
	if entry.Verdict.Do == saga.DoReply {
		return entry.Verdict.Reply, nil
	}
	return concluded(e.cmd, saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeBusy, Reason: reasonLeasePassed}), nil
}

// release ends the lease. If that does not succeed it ends by itself.
func (e *effect) release(ctx context.Context, nothing bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := e.p.barrier.release(ctx, e.lease, nothing); err != nil {
		e.p.log.WarnContext(ctx, "lease was not released, and ends by itself", "operation", e.cmd.Key().String(), "error", err)
	}
}

// record repeats f until the database has answered. What happened outside is known only here: it must not be
// lost in an outage that will be over, nor because it is time to drain. What ends it is the end of ctx, after
// one more try.
func (p *Participant) record(ctx context.Context, f func(context.Context) error) error {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(againFirst), backoff.WithMaxInterval(againMax), backoff.WithMaxElapsedTime(0))
	for {
		fctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		err := f(fctx)
		cancel()
		var unknown *CommitUnknownError
		if err == nil || ctx.Err() != nil || !errors.As(err, &unknown) && !outage(err) && !pg.IsRetryable(err) {
			return err
		}
		p.log.WarnContext(ctx, "an effect that is known could not be recorded yet", "error", err)
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}
