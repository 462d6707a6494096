package participant

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/internal/bus"
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
	return nil
}

// execute does what a command asks for, in one local transaction, and returns the reply to publish. An error
// is errUnanswered, or that of a reply that cannot be sent.
func (p *Participant) execute(ctx context.Context, cmd saga.Command, deliveries uint64) (bus.Message, error) {
	ctx, end := p.span(ctx, cmd)
	reply, err := p.reply(ctx, cmd, deliveries)
	end(reply, err)
	if err != nil {
		return bus.Message{}, err
	}
	return wire.EncodeReply(reply, cmd.ReplyTo)
}

func (p *Participant) reply(ctx context.Context, cmd saga.Command, deliveries uint64) (saga.Reply, error) {
	entry, err := p.barrier.Enter(ctx, cmd)
	if err != nil {
		return p.failed(cmd, err)
	}
	var ran saga.Ran
	switch entry.Verdict.Do {
	case saga.DoReply:
		return entry.Verdict.Reply, nil
	case saga.DoRun:
		if ran, err = p.run(ctx, entry, cmd, deliveries); err != nil {
			return saga.Reply{}, err
		}
	default: // somebody else's external effect, which this package does not know how to look up
		ran = saga.Ran{Outcome: saga.OutcomeUnknown, Reason: "the step has an effect outside of the database, whose lease is over"}
	}
	p.hooks.reach(pointRan, cmd)
	if entry.over() { // the connection was taken away from the handler
		verdict, _ := saga.Conclude(saga.BarrierRow{}, cmd, ran)
		return verdict.Reply, nil
	}
	reply, err := entry.Conclude(ctx, ran)
	if err != nil {
		return p.failed(cmd, err)
	}
	return reply, nil
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
	if state := sqlState(err); errors.Is(err, ErrTxOwned) || state == stateNotLeft || state == stateNotEntered {
		ran.Outcome, ran.Code = saga.OutcomeFault, saga.FaultHandler
	}
	verdict, _ := saga.Conclude(saga.BarrierRow{}, cmd, ran)
	return verdict.Reply, nil
}

// SQLSTATEs of the barrier: a handler that ends its transaction by SQL causes them.
const (
	stateNotEntered = "SG003"
	stateNotLeft    = "SG004"
)

func sqlState(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// outage reports whether err says that the database cannot work now, rather than that it has refused a
// statement: no connection, a server that stops, starts or only reads, no memory, disk or connections left.
func outage(err error) bool {
	var ce *pgconn.ConnectError
	var pe *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, ErrTxOwned), errors.Is(err, ErrTxOver):
		return false
	case errors.As(err, &ce) || !errors.As(err, &pe):
		return true
	case pe.Severity == "FATAL" || pe.Severity == "PANIC" || pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC":
		return true
	}
	for _, class := range []string{"08", "53", "57P", "58", "25006"} {
		if strings.HasPrefix(pe.Code, class) {
			return true
		}
	}
	return false
}

// run calls the handler of an operation that the barrier let through. What is wrong with the command is found
// only here, so that a stored reply is repeated and a step that never ran is cancelled whatever this
// program knows of it.
func (p *Participant) run(ctx context.Context, entry *Entry, cmd saga.Command, deliveries uint64) (saga.Ran, error) {
	fault := func(code, format string, args ...any) (saga.Ran, error) {
		return saga.Ran{Outcome: saga.OutcomeFault, Code: code, Reason: fmt.Sprintf(format, args...)}, nil
	}
	if deliveries > uint64(p.cfg.DeliveriesMax) {
		p.log.ErrorContext(ctx, "command was delivered too often without a reply, and is not run",
			"operation", cmd.Key().String(), "attempt", cmd.Attempt, "deliveries", deliveries)
		return fault(saga.FaultPoison, "delivered %d times without a reply", deliveries)
	}
	h, ok := p.handler(cmd.Action)
	if !ok {
		return saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeUnknownAction, Reason: "participant " + p.cfg.Name + " has no action " + cmd.Action}, nil
	}
	if cmd.Kind != h.kind {
		return fault(saga.FaultUndecodable, "the step is of kind %s, but the action %s is of kind %s", cmd.Kind, cmd.Action, h.kind)
	}
	if !h.has(cmd.Phase) {
		return fault(saga.FaultUndecodable, "an action of kind %s has no %s", h.kind, cmd.Phase)
	}
	body, err := wire.ParseBody(cmd.Phase, cmd.Body)
	if err != nil {
		return fault(saga.FaultUndecodable, "%v", err)
	}
	return p.call(ctx, entry, h, cmd, body)
}

// returned is what a handler returned.
type returned struct {
	result saga.Payload
	err    error
	misuse error
}

// call runs user code on a goroutine of its own, so that one that does not return can be given up.
func (p *Participant) call(ctx context.Context, entry *Entry, h handler, cmd saga.Command, body wire.Body) (saga.Ran, error) {
	hctx, cancel := context.WithTimeout(ctx, p.cfg.HandlerTimeout)
	defer cancel()
	conn := entry.Tx().Conn()
	tx := &guardedTx{guard: &guard{conn: conn.PgConn()}, tx: entry.Tx()}
	ended := make(chan returned, 1)
	go p.userCode(hctx, h, tx, operationOf(cmd), body, ended)

	r, ok := p.await(hctx, ended)
	if !ok {
		p.giveUp(ctx, entry, conn, ended, cmd)
		if ctx.Err() != nil {
			return saga.Ran{}, errUnanswered
		}
		return timedOut(p.cfg.HandlerTimeout), nil
	}
	status := conn.PgConn().TxStatus()
	switch {
	case r.misuse != nil:
		return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: r.misuse.Error()}, nil
	case conn.IsClosed() && ctx.Err() == nil && hctx.Err() != nil:
		return timedOut(p.cfg.HandlerTimeout), nil
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

// await waits for user code until its time, and the grace after it, are over.
func (p *Participant) await(hctx context.Context, ended <-chan returned) (returned, bool) {
	select {
	case r := <-ended:
		return r, true
	case <-hctx.Done():
	}
	grace := time.NewTimer(p.cfg.grace())
	defer grace.Stop()
	select {
	case r := <-ended:
		return r, true
	case <-grace.C:
		return returned{}, false
	}
}

// giveUp takes the database away from user code that does not return: the server rolls back and lets go of
// its locks. The place of the connection in the pool becomes free when the code returns.
func (p *Participant) giveUp(ctx context.Context, entry *Entry, conn *pgx.Conn, ended <-chan returned, cmd saga.Command) {
	p.log.ErrorContext(ctx, "handler does not return and is given up; its goroutine and a connection of the pool are lost until it does",
		"operation", cmd.Key().String(), "action", cmd.Action, "attempt", cmd.Attempt)
	_ = conn.PgConn().Conn().Close() // an error says that it is closed
	lost := *entry
	*entry = Entry{Verdict: lost.Verdict, cmd: lost.cmd}
	go func() {
		<-ended
		lost.Abandon(ctx)
	}()
}

func timedOut(after time.Duration) saga.Ran {
	return saga.Ran{Outcome: saga.OutcomeRetry, Code: CodeTimeout, Reason: "the handler did not return within " + after.String()}
}

// userCode calls the handler, catches its panics and ends its use of the transaction.
func (p *Participant) userCode(ctx context.Context, h handler, tx *guardedTx, op Operation, body wire.Body, ended chan<- returned) {
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
		r.misuse = tx.guard.finish()
		ended <- r
	}()
	r.result, r.err = h.run(ctx, tx, op, body)
	completed = true
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
