package participant

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sagacity-tx/sagacity/saga"
)

// span begins the span of a command if a tracer is configured, as a child of the command's trace context, which
// handlers find in their context. The returned function ends it.
func (p *Participant) span(ctx context.Context, cmd saga.Command) (context.Context, func(saga.Reply, error)) {
	if p.tracer == nil {
		return ctx, func(saga.Reply, error) {}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
		"traceparent": cmd.Traceparent, "tracestate": cmd.Tracestate,
	})
	ctx, span := p.tracer.Start(ctx, cmd.Action+" "+string(cmd.Phase),
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("saga.tenant", cmd.Tenant),
			attribute.String("saga.transaction", cmd.Transaction.String()),
			attribute.String("saga.step", cmd.Step),
			attribute.String("saga.phase", string(cmd.Phase)),
			attribute.String("saga.action", cmd.Action),
			attribute.String("saga.verb", string(cmd.Verb)),
			attribute.Int("saga.attempt", cmd.Attempt),
		))
	return ctx, func(reply saga.Reply, err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, "no answer")
		} else {
			span.SetAttributes(
				attribute.String("saga.outcome", string(reply.Outcome)),
				attribute.String("saga.code", reply.Code),
				attribute.Bool("saga.replayed", reply.Replayed),
			)
		}
		span.End()
	}
}
