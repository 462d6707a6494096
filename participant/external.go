package participant

import (
	"context"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// DefaultLeaseMargin is how much longer a lease is than Config.HandlerTimeout, unless External.Lease says otherwise.
const DefaultLeaseMargin = 15 * time.Second

// DoFunc makes an effect outside of the database: it calls a payment gateway, or another service that takes no part
// in the transaction. No local transaction is open. It passes c.Key() downstream as the idempotency key, and
// must not send anything after its context has ended.
//
//	result, nil           it has happened
//	Refuse(code, err)     downstream said no: it has not happened, and never will under this key
//	NotSent(err)          it has not happened: nothing has left. A connection that could not be made is proof of
//	                      that; a time-out, a reset, an EOF or a status of 5xx is not
//	any other error,      nobody knows whether it has happened. It is found out when the lease is over
//	panic, time-out
//
// NotSent may wrap RetryAfter and Fault.
type DoFunc[In, Out any] func(ctx context.Context, c Call[In]) (Out, error)

// UndoFunc ends outside of the database what a DoFunc did: a refund, a capture, a release. No local transaction is open.
// c.TryKey() is the key that Do passed downstream; c.Key() is a key of this operation's own, to pass on.
//
// It has to be safe to repeat: it is called again until it succeeds, also when it succeeded and its answer was
// lost, and another process may do so at the same time. It cannot refuse.
type UndoFunc[In, Out any] func(ctx context.Context, c Settle[In, Out]) error

// InquireFunc finds out, without changing anything, what became of an effect. An error means that downstream could not be
// asked now: it is asked again later. Refuse(code, err) says that downstream has refused the effect for good.
type InquireFunc[In, Out any] func(ctx context.Context, e Effect[In]) (Found[Out], error)

// VoidFunc makes downstream refuse a key for ever, so that a request that is still on its way has no effect. It is
// called after an inquiry has found the effect absent. If the effect has happened meanwhile it returns an error, and
// the next inquiry finds it. It has to be safe to repeat.
type VoidFunc[In any] func(ctx context.Context, e Effect[In]) error

// Effect is what Inquire and Void are called with. The operation is the try, whichever phase has to know: Key
// returns the key that Do passed downstream.
type Effect[In any] struct {
	Operation
	Input    In
	InputRaw saga.Payload
}

// Found is what an inquiry has found out. The zero value is undecided: code that forgets to say proves nothing.
type Found[Out any] struct {
	what   saga.Downstream
	result Out
}

// FoundDone says that the effect has happened, with the result that Do would have returned.
func FoundDone[Out any](result Out) Found[Out] {
	return Found[Out]{what: saga.DownstreamDone, result: result}
}

// FoundAbsent says that downstream knows its requests, and this one is not among them.
func FoundAbsent[Out any]() Found[Out] { return Found[Out]{what: saga.DownstreamAbsent} }

// FoundUndecided says that downstream answered, and that its answer proves nothing and never will.
func FoundUndecided[Out any]() Found[Out] { return Found[Out]{what: saga.DownstreamUndecided} }

// External is an action of steps of kind saga whose effect is outside of the participant's database (U4): Do makes it,
// Undo compensates it. Both are required. It is not one local transaction, so that it can be in doubt whether the
// effect has happened: the process died, or the answer was lost. What follows depends on what downstream can do:
//
//	Inquire     Idempotent  the try comes again           the cancel comes
//	set         no          done → done; absent → Do      done → Undo; absent → Void, else unknown
//	set         yes         the same; undecided → Do      the same
//	nil         yes         Do, with the same key         unknown
//	nil         no          unknown                       unknown
//
// Unknown is a dead letter for an operator; it is never guessed. See docs/external-effects.md.
type External[In, Out any] struct {
	Do      DoFunc[In, Out]
	Undo    UndoFunc[In, Out]
	Inquire InquireFunc[In, Out] // nil: downstream cannot be asked
	Void    VoidFunc[In]         // nil: downstream cannot be made to refuse a key

	// Idempotent: downstream executes requests of one key once and repeats its answer, for longer than a
	// transaction may take.
	Idempotent bool

	// Lease is how long after a try has begun nobody else acts on it: at least Config.HandlerTimeout and the time that
	// downstream may take to act on a request that it has got; zero: Config.HandlerTimeout + DefaultLeaseMargin.
	Lease time.Duration
}

// ExternalTCC is an action of steps of kind tcc: Do reserves downstream (it authorises a payment), then either Confirm
// uses or Cancel releases what it reserved. The rest is as in External.
type ExternalTCC[In, Out any] struct {
	Do         DoFunc[In, Out]
	Confirm    UndoFunc[In, Out]
	Cancel     UndoFunc[In, Out]
	Inquire    InquireFunc[In, Out]
	Void       VoidFunc[In]
	Idempotent bool
	Lease      time.Duration
}

// ExternalPivot is an action of steps of kind pivot. A fence that finds the effect done lets the transaction commit. Do,
// Inquire and Void are required: while the outcome is open only the fence's proof decides (S2.6), and no operator may give
// a fence up (S2.13). So Inquire must not go on answering FoundUndecided. The rest is as in External.
type ExternalPivot[In, Out any] struct {
	Do         DoFunc[In, Out]
	Inquire    InquireFunc[In, Out]
	Void       VoidFunc[In]
	Idempotent bool
	Lease      time.Duration
}

// ExternalRetriable is an action of steps of kind retriable. It is never cancelled, and cannot refuse. The rest is as
// in External.
type ExternalRetriable[In, Out any] struct {
	Do         DoFunc[In, Out]
	Inquire    InquireFunc[In, Out]
	Idempotent bool
	Lease      time.Duration
}

func (x External[In, Out]) compile() handler {
	h := compileExternal(saga.KindSaga, x.Do, nil, x.Undo, x.Inquire, x.Void, x.Idempotent, x.Lease)
	h.require(saga.PhaseTry, "Do", x.Do != nil)
	h.require(saga.PhaseCancel, "Undo", x.Undo != nil)
	return h
}

func (x ExternalTCC[In, Out]) compile() handler {
	h := compileExternal(saga.KindTCC, x.Do, x.Confirm, x.Cancel, x.Inquire, x.Void, x.Idempotent, x.Lease)
	h.require(saga.PhaseTry, "Do", x.Do != nil)
	h.require(saga.PhaseConfirm, "Confirm", x.Confirm != nil)
	h.require(saga.PhaseCancel, "Cancel", x.Cancel != nil)
	return h
}

func (x ExternalPivot[In, Out]) compile() handler {
	h := compileExternal(saga.KindPivot, x.Do, nil, nil, x.Inquire, x.Void, x.Idempotent, x.Lease)
	h.require(saga.PhaseTry, "Do", x.Do != nil)
	h.require(saga.PhaseCancel, "Inquire", x.Inquire != nil) // the fence of a try in doubt: it asks, and voids
	h.needs("Void", x.Void != nil)
	h.why = fenceNeedsProof
	return h
}

func (x ExternalRetriable[In, Out]) compile() handler {
	h := compileExternal(saga.KindRetriable, x.Do, nil, nil, x.Inquire, nil, x.Idempotent, x.Lease)
	h.require(saga.PhaseTry, "Do", x.Do != nil)
	return h
}

// external is what a handler has beside its phases if its effects are outside of the database.
type external struct {
	lease      time.Duration
	idempotent bool
	prepare    func(op Operation, b wire.Body) (calls, error)
}

// calls is the user code of one command, its input decoded. What is not there is nil.
type calls struct {
	do      func(context.Context) (saga.Payload, error)
	settle  func(context.Context) error // confirm or undo
	inquire func(context.Context) (saga.Downstream, saga.Payload, error)
	void    func(context.Context) error
}

func compileExternal[In, Out any](kind saga.Kind, do DoFunc[In, Out], confirm, cancel UndoFunc[In, Out],
	inquire InquireFunc[In, Out], void VoidFunc[In], idempotent bool, lease time.Duration,
) handler {
	prepare := func(op Operation, b wire.Body) (c calls, err error) {
		input, err := decode[In]("the input", b.Input)
		if err != nil {
			return c, err
		}
		about := Effect[In]{Operation: op, Input: input, InputRaw: b.Input}
		about.Phase = saga.PhaseTry
		if inquire != nil {
			c.inquire = func(ctx context.Context) (saga.Downstream, saga.Payload, error) {
				found, err := inquire(ctx, about)
				if err != nil || found.what != saga.DownstreamDone {
					return found.what, saga.Payload{}, err
				}
				result, err := encode(found.result)
				return found.what, result, err
			}
		}
		if void != nil {
			c.void = func(ctx context.Context) error { return void(ctx, about) }
		}
		switch op.Phase {
		case saga.PhaseTry:
			call := Call[In]{Operation: op, Input: input, InputRaw: b.Input, Results: b.Results}
			c.do = func(ctx context.Context) (saga.Payload, error) {
				out, err := do(ctx, call)
				if err != nil {
					return saga.Payload{}, err
				}
				return encode(out)
			}
		case saga.PhaseConfirm:
			c.settle, err = prepareSettle(confirm, op, input, b)
		default:
			c.settle, err = prepareSettle(cancel, op, input, b)
		}
		return c, err
	}
	return handler{kind: kind, external: &external{lease: lease, idempotent: idempotent, prepare: prepare}}
}

func prepareSettle[In, Out any](f UndoFunc[In, Out], op Operation, input In, b wire.Body) (func(context.Context) error, error) {
	if f == nil {
		return nil, nil
	}
	c := Settle[In, Out]{Operation: op, Input: input, InputRaw: b.Input, TryRaw: b.Try}
	var err error
	if c.Try, err = decodeTry[Out](b.Try); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return f(ctx, c) }, nil
}

// fenceNeedsProof says why a pivot needs what other external effects may lack, and what to do without.
const fenceNeedsProof = "only downstream can tell what became of a pivot in doubt, and refuse it for ever, " +
	"so without them its fence never ends and no operator can end it (S2.6, S2.13); " +
	"add them, or make the step one of kind saga, whose cancel an operator can give up"

// require notes a function that a handler needs for a phase.
func (h *handler) require(phase saga.Phase, name string, has bool) {
	h.phases = append(h.phases, phase)
	h.needs(name, has)
}

// needs notes a function that a handler cannot do without.
func (h *handler) needs(name string, has bool) {
	if !has {
		h.missing = append(h.missing, name)
	}
}

// checkLease completes the lease, and returns what is wrong with it.
func (x *external) checkLease(handlerTimeout time.Duration) error {
	if x.lease == 0 {
		x.lease = handlerTimeout + DefaultLeaseMargin
	}
	if x.lease <= handlerTimeout {
		return fmt.Errorf("its Lease is %s, but Do may take Config.HandlerTimeout, which is %s; use more, or 0 for the default", x.lease, handlerTimeout)
	}
	return nil
}
