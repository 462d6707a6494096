package coordinator

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Where events come from: replies and submissions over NATS, and timers.

// takeReply hands a reply to its lane. It is acknowledged when it is committed or known to be a repetition;
// until then NATS keeps it.
func (c *Coordinator) takeReply(ctx context.Context, d *bus.Delivery) {
	reply, undecodable := wire.DecodeReply(d.Message)
	if undecodable != nil {
		if !wire.Attributable(reply) {
			c.setAside(ctx, d, undecodable)
			return
		}
		reply = undecodableReply(reply, undecodable)
	} else {
		c.heard.note(&reply, c.store.clock.now())
	}
	it := &item{id: reply.Transaction, event: saga.Replied{Reply: reply}, source: d.Message}
	it.done = func(o outcome) {
		c.settle(ctx, d, saga.AckReply(o.err, undecodable != nil), cmp.Or(undecodable, o.err))
	}
	if err := c.lane(reply.Transaction).offer(ctx, it); err != nil {
		c.logFailedAck(d.Nak())
	}
}

// settle tells the bus about a message.
func (c *Coordinator) settle(ctx context.Context, d *bus.Delivery, ack saga.Ack, cause error) {
	switch ack {
	case saga.AckDone:
		c.logFailedAck(d.Ack())
	case saga.AckAgain:
		c.logFailedAck(d.Nak())
	case saga.AckLeave:
		d.Leave()
	case saga.AckSetAside:
		c.setAside(context.WithoutCancel(ctx), d, cause)
	}
}

// undecodableReply makes a fault of a reply that says which attempt it answers and cannot be understood beyond
// that. Sending the operation again would bring the same: a person has to look at it.
func undecodableReply(r saga.Reply, cause error) saga.Reply {
	return saga.Reply{
		Verb: r.Verb, Tenant: r.Tenant, Transaction: r.Transaction, Step: r.Step, Phase: r.Phase, Participant: r.Participant,
		Attempt: r.Attempt, Revision: r.Revision, ContentSHA256: r.ContentSHA256,
		Outcome: saga.OutcomeFault, Code: saga.FaultUndecodable, Reason: "the reply cannot be decoded: " + cause.Error(),
	}
}

// setAsideTimeout bounds how long a lane waits for one; a message that was not kept comes again.
const setAsideTimeout = 5 * time.Second

// setAside keeps a message that cannot be understood, with its exact bytes, so that nothing waits behind it
// (C5).
func (c *Coordinator) setAside(ctx context.Context, d *bus.Delivery, cause error) {
	ctx, cancel := context.WithTimeout(ctx, setAsideTimeout)
	defer cancel()
	participant := ""
	if _, p, _, err := wire.ParseReplySubject(d.Subject); err == nil {
		participant = p
	}
	if err := c.bury(ctx, d.Message, participant, cause); err != nil {
		c.log.Warn("an undecodable message could not be kept yet; it comes again", "subject", d.Subject, "error", err)
		d.Leave()
		return
	}
	c.log.Warn("an undecodable message was set aside", "subject", d.Subject, "cause", cause)
	c.logFailedAck(d.Term(saga.FaultUndecodable))
}

func (c *Coordinator) logFailedAck(err error) {
	if err != nil {
		c.log.Debug("a message could not be acknowledged; it comes again", "error", err)
	}
}

// headerRequestID names a submission over NATS, as Idempotency-Key does over HTTP.
const headerRequestID = "Saga-Request-Id"

// natsClient is the client of submissions that arrive over NATS: whoever may publish to the tenant's subject.
const natsClient = "nats"

func (c *Coordinator) consumeSubmissions(ctx context.Context) error {
	consumer := bus.Consumer{Stream: bus.Submissions, Durable: "coordinator", MaxAckPending: 1024, DrainTimeout: c.cfg.StopTimeout / 2}
	return c.cfg.Bus.Consume(ctx, consumer, func(d *bus.Delivery) { c.takeSubmission(ctx, d) })
}

// takeSubmission starts a transaction for a message to saga.submit.<tenant>, by the same rules as over HTTP.
// What is invalid is set aside with its exact bytes: there is nobody to answer.
func (c *Coordinator) takeSubmission(ctx context.Context, d *bus.Delivery) {
	_, tenant, err := wire.ParseSubmitSubject(d.Subject)
	if err != nil {
		c.setAside(ctx, d, err)
		return
	}
	p := SubmitParams{
		Caller: Caller{Tenant: tenant, Client: natsClient}, RequestID: first(d.Header[headerRequestID]), Body: d.Data,
		Traceparent: first(d.Header[wire.HeaderTraceparent]), Tracestate: first(d.Header[wire.HeaderTracestate]),
	}
	release, err := c.entrance.await(ctx, c.stopping, tenant, len(d.Data))
	if err != nil {
		c.logFailedAck(d.Nak())
		return
	}
	s, err := c.newSubmission(ctx, p)
	if err != nil {
		release()
		if _, repeated := errors.AsType[*storedError](err); repeated {
			err = nil
		}
		c.settleSubmission(ctx, d, err)
		return
	}
	it := &item{id: s.rec.tx.ID, event: saga.Submitted{}, submit: s}
	it.done = func(o outcome) {
		release()
		c.settleSubmission(ctx, d, o.err)
	}
	if err := c.lane(it.id).offer(ctx, it); err != nil {
		release()
		c.logFailedAck(d.Nak())
	}
}

func (c *Coordinator) settleSubmission(ctx context.Context, d *bus.Delivery, err error) {
	ack := saga.AckSubmission(err)
	if ack == saga.AckLeave {
		c.log.Warn("a submission over NATS could not be stored yet; it comes again", "error", err)
	}
	c.settle(ctx, d, ack, err)
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// runTimers wakes transactions that are due.
func (c *Coordinator) runTimers(ctx context.Context) error {
	ticker := time.NewTicker(c.cfg.TimerInterval)
	defer ticker.Stop()
	for {
		more := c.wakeDue(ctx)
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// wakeDue claims what is due and hands it to the lanes. It reports whether there is more.
func (c *Coordinator) wakeDue(ctx context.Context) bool {
	due, err := c.store.claimTimers(ctx, c.cfg.TimerBatchMax, saga.TimerLease)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("cannot look for what is due, trying again", "error", err)
		}
		return false
	}
	if len(due) == 0 {
		return false
	}
	heard := c.heard.snapshot()
	for _, id := range due {
		it := &item{id: id, event: saga.Woken{Heard: heard}, done: func(outcome) {}}
		if c.lane(id).offer(ctx, it) != nil {
			return false
		}
	}
	return len(due) == c.cfg.TimerBatchMax
}
