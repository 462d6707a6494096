package participant

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// errUnanswered: what became of the operation is not known, or the database could not be reached. There is
// nothing to answer; the operation is done again, and the barrier row tells.
var errUnanswered = errors.New("participant: no answer")

// checkBarrier returns an error if the barrier is not as it must be. A database that cannot be asked is none.
func (p *Participant) checkBarrier(ctx context.Context) error {
	err := CheckSchema(ctx, p.cfg.Pool)
	if errors.Is(err, ErrSchema) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "the database cannot be reached, commands wait", "error", err)
	}
	if err == nil {
		err = p.barrier.suspectPurge(ctx)
	}
	if err != nil && ctx.Err() == nil {
		p.log.DebugContext(ctx, "old suspicions stay", "error", err)
	}
	if err := p.tell(ctx); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "retention of other participants of this database cannot know of this one yet", "error", err)
	}
	return nil
}

// execute does what a command asks for, in one local transaction, and returns the reply to publish. An error
// is errUnanswered, or that of a reply that cannot be sent.
func (p *Participant) execute(ctx context.Context, cmd saga.Command, s *suspect) (bus.Message, error) {
	ctx, end := p.span(ctx, cmd)
	reply, err := p.reply(ctx, cmd, s)
	end(reply, err)
	if err != nil {
		return bus.Message{}, err
	}
	return wire.EncodeReply(reply, cmd.ReplyTo)
}

func (p *Participant) reply(ctx context.Context, cmd saga.Command, s *suspect) (saga.Reply, error) {
	h, _ := p.handler(cmd.Action)
	began := time.Now()
	entry, err := p.barrier.enter(ctx, cmd, h.lease())
	if err != nil {
		return p.failed(cmd, err)
	}
	if entry.Verdict.Do == saga.DoReply {
		return entry.Verdict.Reply, nil
	}
	if s.is(cmd) {
		entry.Abandon(ctx) // what follows may have to wait, and must be committed before
		if err := p.begin(ctx, cmd, s); err != nil {
			return p.failed(cmd, err)
		}
		if s.poison {
			return concluded(cmd, saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultPoison, Reason: fmt.Sprintf("begun %d times, and its process ended each time", s.begun-1)}), nil
		}
		defer p.end(ctx, cmd)
		began = time.Now()
		if entry, err = p.barrier.enter(ctx, cmd, h.lease()); err != nil {
			return p.failed(cmd, err)
		}
		if entry.Verdict.Do == saga.DoReply {
			return entry.Verdict.Reply, nil
		}
	}
	return p.run(ctx, entry, cmd, began)
}

// concluded is the answer to a command of which nothing is stored.
func concluded(cmd saga.Command, ran saga.Ran) saga.Reply {
	verdict, _ := saga.Conclude(saga.BarrierRow{}, cmd, ran)
	return verdict.Reply
}

// run calls the user code of an operation that the barrier let through, and concludes it. What is wrong with the command
// is found only here, so that a stored reply is repeated and a step that never ran is cancelled whatever this
// program knows of it.
func (p *Participant) run(ctx context.Context, entry *Entry, cmd saga.Command, began time.Time) (saga.Reply, error) {
	defer entry.Abandon(ctx)
	h, body, wrong := p.check(entry, cmd)
	if wrong.Outcome != "" {
		return concluded(cmd, wrong), nil
	}
	if h.external != nil {
		return p.runExternal(ctx, entry, h.external, body, began)
	}
	ran, err := p.call(ctx, entry, h, cmd, body, p.cfg.HandlerTimeout)
	if err != nil {
		return saga.Reply{}, err
	}
	p.hooks.reach(pointRan, cmd)
	if entry.over() { // the connection was taken away from the handler
		return concluded(cmd, ran), nil
	}
	reply, err := entry.Conclude(ctx, ran)
	if err != nil {
		return p.failed(cmd, err)
	}
	return reply, nil
}

// check returns the handler and the body of a command, or what is to be answered instead.
func (p *Participant) check(entry *Entry, cmd saga.Command) (h handler, body wire.Body, wrong saga.Ran) {
	fault := func(code, format string, args ...any) (handler, wire.Body, saga.Ran) {
		return h, body, saga.Ran{Outcome: saga.OutcomeFault, Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	h, ok := p.handler(cmd.Action)
	switch {
	case !ok:
		return h, body, saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeUnknownAction, Reason: "participant " + p.cfg.Name + " has no action " + cmd.Action}
	case cmd.Kind != h.kind:
		return fault(saga.FaultUndecodable, "the step is of kind %s, but the action %s is of kind %s", cmd.Kind, cmd.Action, h.kind)
	case !h.has(cmd.Phase):
		return fault(saga.FaultUndecodable, "an action of kind %s has no %s", h.kind, cmd.Phase)
	case entry.Verdict.Do != saga.DoRun && h.external == nil:
		return h, body, saga.Ran{Outcome: saga.OutcomeUnknown, Reason: "the try had an effect outside of the database, and the action " + cmd.Action + " cannot find out about it"}
	}
	body, err := wire.ParseBody(cmd.Phase, cmd.Body)
	if err != nil {
		return fault(saga.FaultUndecodable, "%v", err)
	}
	return h, body, wrong
}

// failed decides what an error of the barrier means: an answer, where the database said for certain that the
// transaction is rolled back for a reason of its own, else none.
func (p *Participant) failed(cmd saga.Command, err error) (saga.Reply, error) {
	var unknown *CommitUnknownError
	if errors.As(err, &unknown) || outage(err) {
		return saga.Reply{}, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	p.log.Error("operation failed", "operation", cmd.Key().String(), "attempt", cmd.Attempt, "error", err)
	ran := ranOf(saga.Payload{}, err)
	if state := pg.Code(err); errors.Is(err, ErrTxOwned) || state == stateNotLeft || state == stateNotEntered {
		ran.Outcome, ran.Code = saga.OutcomeFault, saga.FaultHandler
	}
	return concluded(cmd, ran), nil
}

// SQLSTATEs of the barrier: a handler that ends its transaction by SQL causes the first two.
const (
	stateNotEntered = "SG003"
	stateNotLeft    = "SG004"
	stateNotAll     = "SG005" // an operation of a batch is not to run
)

// outage reports whether err says that the database cannot work now, rather than that it has refused a
// statement or that the handler has misused its transaction.
func outage(err error) bool {
	return !errors.Is(err, ErrTxOwned) && !errors.Is(err, ErrTxOver) && pg.Outage(err)
}

// returned is what a handler returned.
type returned struct {
	found  saga.Downstream // of an inquiry
	result saga.Payload
	err    error
	misuse error
}

// call runs a handler with its transaction, for so long at most.
func (p *Participant) call(ctx context.Context, entry *Entry, h handler, cmd saga.Command, body wire.Body, limit time.Duration) (saga.Ran, error) {
	hctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn := entry.Tx().Conn()
	op, tx, guard := operationOf(cmd), entry.tx, entry.tx.guard // not from the entry, which may be given up meanwhile
	r, ended := p.userCode(hctx, op, grace(limit), func(ctx context.Context) (r returned) {
		r.result, r.err = h.run(ctx, tx, op, body)
		return r
	}, guard.finish)
	if ended != nil {
		p.giveUp(entry, conn, ended)
		if ctx.Err() != nil {
			return saga.Ran{}, errUnanswered
		}
		return timedOut(limit), nil
	}
	status := conn.PgConn().TxStatus()
	switch {
	case r.misuse != nil:
		return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: r.misuse.Error()}, nil
	case conn.IsClosed() && ctx.Err() == nil && hctx.Err() != nil:
		return timedOut(limit), nil
	case conn.IsClosed(), ctx.Err() != nil && r.err != nil:
		// Whatever the handler says, the reason is that the connection was lost or that time is over.
		entry.Abandon(ctx)
		return saga.Ran{}, fmt.Errorf("%w: %w", errUnanswered, errors.Join(r.err, ctx.Err()))
	case status == 'I':
		return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: "the handler ended its transaction by SQL"}, nil
	case status == 'E' && r.err == nil:
		r.err = errors.New("a statement failed, but the handler returned no error")
	}
	return ranOf(r.result, r.err), nil
}

// userCode calls f, which is user code, on a goroutine of its own; catches its panics, and calls finish after it.
// Until the context has ended, and for the grace after it, it waits for f. Then it gives f up, and returns a
// channel that says when it has ended; otherwise nil.
func (p *Participant) userCode(ctx context.Context, op Operation, grace time.Duration, f func(context.Context) returned, finish func() error) (returned, <-chan returned) {
	ended := make(chan returned, 1)
	go func() {
		var r returned
		completed := false
		defer func() { // not after the call: runtime.Goexit does not return
			if !completed {
				value := recover()
				if value == nil {
					value = "runtime.Goexit was called"
				}
				p.log.ErrorContext(ctx, "handler panicked", "operation", op.Key(), "action", op.Action, "attempt", op.Attempt,
					"panic", fmt.Sprint(value), "stack", string(debug.Stack()))
				r = returned{err: &panicked{value: value}}
			}
			r.misuse = finish()
			ended <- r
		}()
		r = f(ctx)
		completed = true
	}()
	select {
	case r := <-ended:
		return r, nil
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-ended:
		return r, nil
	case <-timer.C:
		p.log.ErrorContext(ctx, "handler does not return and is given up; its goroutine is lost until it does",
			"operation", op.Key(), "action", op.Action, "attempt", op.Attempt)
		return returned{}, ended
	}
}

// giveUp takes the database away from user code that does not return: the server rolls back and lets go of
// its locks. The place of the connection in the pool becomes free when the code returns.
func (p *Participant) giveUp(entry *Entry, conn *pgx.Conn, ended <-chan returned) {
	_ = conn.PgConn().Conn().Close() // an error says that it is closed
	lost := *entry
	*entry = Entry{Verdict: lost.Verdict, cmd: lost.cmd}
	go func() {
		<-ended
		lost.Abandon(context.Background())
	}()
}

func timedOut(after time.Duration) saga.Ran {
	return saga.Ran{Outcome: saga.OutcomeRetry, Code: CodeTimeout, Reason: "the handler did not return within " + after.String()}
}

func operationOf(cmd saga.Command) Operation {
	return Operation{
		Tenant: cmd.Tenant, Transaction: cmd.Transaction, Step: cmd.Step, Phase: cmd.Phase, Kind: cmd.Kind, Action: cmd.Action,
		Attempt: cmd.Attempt, Revision: cmd.Revision, Deadline: cmd.Deadline,
		Traceparent: cmd.Traceparent, Tracestate: cmd.Tracestate,
	}
}

func undecodableReply(cmd saga.Command, err error) saga.Reply {
	reply := saga.AnswerTo(cmd)
	reply.Outcome, reply.Code, reply.Reason = saga.OutcomeFault, saga.FaultUndecodable, err.Error()
	return reply
}
