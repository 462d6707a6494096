package participant

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Operation says which operation of which transaction a handler is called for.
type Operation struct {
	Tenant      string
	Transaction saga.ID
	Step        string
	Phase       saga.Phase
	Kind        saga.Kind
	Action      string
	Attempt     int // from 1; of all attempts together one takes effect
	Revision    int // of the body, from 1; it rises when an operator edits it

	// Deadline is when going forward must end; zero for none. A try that starts after it is refused before the
	// handler is called; one that is running need not stop at it.
	Deadline    time.Time
	Traceparent string // W3C Trace Context of the command
	Tracestate  string
}

// Key returns the operation's identity, the same in all its attempts: the idempotency key to pass on.
func (o Operation) Key() string {
	return saga.OperationKey{Tenant: o.Tenant, Transaction: o.Transaction, Step: o.Step, Phase: o.Phase}.String()
}

// TryKey returns the identity of the step's try: in a confirm or cancel, the key that the try passed on.
func (o Operation) TryKey() string {
	o.Phase = saga.PhaseTry
	return o.Key()
}

// CanRefuse reports whether the handler may return Refuse: only a try can, and not one that must go forward (S2.7).
func (o Operation) CanRefuse() bool { return o.Phase == saga.PhaseTry && o.Kind != saga.KindRetriable }

// Call is what a try is called with.
type Call[In any] struct {
	Operation
	Input    In
	InputRaw saga.Payload        // the bytes that Input was decoded from
	Results  []saga.NamedPayload // of the steps in after that have one; read them with Result
}

// Settle is what a confirm or a cancel is called with.
type Settle[In, Out any] struct {
	Operation
	Input    In
	InputRaw saga.Payload

	// Try is what the try returned; nil if that was not known when the command was made, or if it returned
	// None. A cancel must work without it (S2.5): find what the try did by Tenant, Transaction and Step, which the
	// try should have written beside it.
	Try    *Out
	TryRaw saga.Payload // the bytes that Try was decoded from
}

// TryFunc does a step's work in tx. The result goes to later steps and to the step's own confirm and cancel.
type TryFunc[In, Out any] func(ctx context.Context, tx pgx.Tx, c Call[In]) (Out, error)

// SettleFunc ends what a try began, in tx. It cannot refuse.
type SettleFunc[In, Out any] func(ctx context.Context, tx pgx.Tx, c Settle[In, Out]) error

// Handler is one of TCC, Saga, Pivot and Retriable; or, if no statement depends on the result of another one, of BatchTCC,
// BatchSaga, BatchPivot and BatchRetriable, which cost fewer round trips; or, if the effect is outside of the database, one of ExternalTCC,
// External, ExternalPivot and ExternalRetriable.
type Handler interface {
	compile() handler
}

// TCC is an action of steps of kind tcc: Try reserves, then either Confirm uses or Cancel releases what it
// reserved. All three are required.
type TCC[In, Out any] struct {
	Try     TryFunc[In, Out]
	Confirm SettleFunc[In, Out]
	Cancel  SettleFunc[In, Out]
}

// Saga is an action of steps of kind saga: Try takes effect at once, Cancel compensates it. Both are required.
type Saga[In, Out any] struct {
	Try    TryFunc[In, Out]
	Cancel SettleFunc[In, Out]
}

// Pivot is an action of steps of kind pivot: its outcome decides the transaction, and nothing undoes it.
type Pivot[In, Out any] struct {
	Try TryFunc[In, Out]
}

// Retriable is an action of steps of kind retriable: it runs after the decision to commit and must succeed
// in the end, so it cannot refuse.
type Retriable[In, Out any] struct {
	Try TryFunc[In, Out]
}

// handler is an action with its types taken away.
type handler struct {
	kind    saga.Kind
	phases  []saga.Phase // that the kind calls user code for
	missing []string     // functions that are required
	why     string       // they are; empty: the kind says so

	// Inside of the local transaction; nil if external is set.
	try     func(ctx context.Context, tx pgx.Tx, op Operation, b wire.Body) (saga.Payload, error)
	confirm func(ctx context.Context, tx pgx.Tx, op Operation, b wire.Body) error
	cancel  func(ctx context.Context, tx pgx.Tx, op Operation, b wire.Body) error

	// queue is set by a handler that queues its statements; result is called once their callbacks have been.
	queue func(b *pgx.Batch, op Operation, body wire.Body) (result func() (saga.Payload, error), err error)

	external *external // nil: effects in the participant's database only
}

func (h TCC[In, Out]) compile() handler {
	return compile(saga.KindTCC, h.Try, h.Confirm, h.Cancel, saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel)
}

func (h Saga[In, Out]) compile() handler {
	return compile(saga.KindSaga, h.Try, nil, h.Cancel, saga.PhaseTry, saga.PhaseCancel)
}

func (h Pivot[In, Out]) compile() handler {
	return compile(saga.KindPivot, h.Try, nil, nil, saga.PhaseTry)
}

func (h Retriable[In, Out]) compile() handler {
	return compile(saga.KindRetriable, h.Try, nil, nil, saga.PhaseTry)
}

func compile[In, Out any](kind saga.Kind, try TryFunc[In, Out], confirm, cancel SettleFunc[In, Out], phases ...saga.Phase) handler {
	h := handler{kind: kind, try: compileTry(try), confirm: compileSettle(confirm), cancel: compileSettle(cancel)}
	has := map[saga.Phase]bool{saga.PhaseTry: try != nil, saga.PhaseConfirm: confirm != nil, saga.PhaseCancel: cancel != nil}
	for _, p := range phases {
		h.require(p, string(p), has[p])
	}
	return h
}

func compileTry[In, Out any](f TryFunc[In, Out]) func(context.Context, pgx.Tx, Operation, wire.Body) (saga.Payload, error) {
	return func(ctx context.Context, tx pgx.Tx, op Operation, b wire.Body) (saga.Payload, error) {
		c, err := callOf[In](op, b)
		if err != nil {
			return saga.Payload{}, err
		}
		out, err := f(ctx, tx, c)
		if err != nil {
			return saga.Payload{}, err
		}
		return encode(out)
	}
}

func callOf[In any](op Operation, b wire.Body) (c Call[In], err error) {
	c = Call[In]{Operation: op, InputRaw: b.Input, Results: b.Results}
	c.Input, err = decode[In]("the input", b.Input)
	return c, err
}

func compileSettle[In, Out any](f SettleFunc[In, Out]) func(context.Context, pgx.Tx, Operation, wire.Body) error {
	return func(ctx context.Context, tx pgx.Tx, op Operation, b wire.Body) error {
		c, err := settleOf[In, Out](op, b)
		if err != nil {
			return err
		}
		return f(ctx, tx, c)
	}
}

func settleOf[In, Out any](op Operation, b wire.Body) (c Settle[In, Out], err error) {
	c = Settle[In, Out]{Operation: op, InputRaw: b.Input, TryRaw: b.Try}
	if c.Input, err = decode[In]("the input", b.Input); err != nil {
		return c, err
	}
	c.Try, err = decodeTry[Out](b.Try)
	return c, err
}

// decodeTry reads what the try returned; nil if there is nothing.
func decodeTry[Out any](p saga.Payload) (*Out, error) {
	var try *Out
	if _, none := any(try).(*None); none || p.IsZero() {
		return nil, nil
	}
	out, err := decode[Out]("the result of the try", p)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// lease returns how long a try of the action keeps others away; 0 if its effects are in the database.
func (h handler) lease() time.Duration {
	if h.external == nil {
		return 0
	}
	return h.external.lease
}

// has reports whether there is user code for a phase.
func (h handler) has(p saga.Phase) bool { return slices.Contains(h.phases, p) }

// run calls the user code of the operation's phase.
func (h handler) run(ctx context.Context, tx pgx.Tx, op Operation, b wire.Body) (saga.Payload, error) {
	switch op.Phase {
	case saga.PhaseConfirm:
		return saga.Payload{}, h.confirm(ctx, tx, op, b)
	case saga.PhaseCancel:
		return saga.Payload{}, h.cancel(ctx, tx, op, b)
	default:
		return h.try(ctx, tx, op, b)
	}
}
