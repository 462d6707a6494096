package saga

import "errors"

// What can be asked for. Step itself is asked what would come of it, so that an explanation never promises what
// the transition function refuses.

func (x *explainer) explainOptions() {
	dead := false
	if !x.tx.Status.Terminal() {
		for i := range x.tx.Steps {
			for _, op := range []*Operation{&x.tx.Steps[i].Try, &x.tx.Steps[i].Settle} {
				if op.State == OperationDead {
					dead = true
					x.optionReplay(i, op)
					x.optionDiscard(i, op)
				}
			}
		}
	}
	if dead && x.decided() {
		x.optionResolve()
	}
	x.optionCancel()
}

// attempt asks Step what would come of the event.
func (x *explainer) attempt(ev Event) (Transaction, Effects, *StateError) {
	next, effects, err := Step(x.def, x.tx, ev, x.now, x.rnd)
	var refused *StateError
	errors.As(err, &refused)
	return next, effects, refused
}

func (x *explainer) option(o Option, effects Effects, refused *StateError) {
	o.Possible, o.Changes = refused == nil, effects.Changed
	if refused != nil {
		o.Code = refused.Code
	}
	x.out.Options = append(x.out.Options, o)
}

func (x *explainer) optionReplay(step int, op *Operation) {
	name := x.name(step, op.Phase)
	o := Option{Action: "replay", Step: x.def.Steps[step].Name, Phase: op.Phase}
	_, effects, refused := x.attempt(ReplayRequested{Step: o.Step, Phase: o.Phase})
	switch {
	case refused != nil:
		o.Text = "The dead letter of the " + name + " cannot be replayed: " + refused.Problem + "."
	case op.editing():
		o.Text = "The dead letter of the " + name + " can be replayed with the input that was edited, once a second person approves it."
	default:
		o.Text = "The dead letter of the " + name + " can be replayed: the same operation is sent again. " + replayHint(op)
		if inDoubt(op.LastOutcome, op.LastCode) {
			o.Text += " A second person has to approve it."
		}
	}
	x.option(o, effects, refused)
}

// replayHint says when a replay makes sense.
func replayHint(op *Operation) string {
	switch {
	case op.LastOutcome == OutcomeUnknown && !silent(op):
		return "First find out whether its effect outside of the participant's database happened."
	case op.LastOutcome != OutcomeFault:
		return "Do so once the cause is gone."
	}
	switch op.LastCode {
	case FaultConflict:
		return "As it is it will conflict again: the participant has recorded other content."
	case FaultNotTried, FaultContradicts:
		return "It helps only once the participant's database is right: what is recorded there does not fit."
	case FaultSuperseded, FaultPastRetention:
		return "It will be answered in the same way: the participant holds a newer revision, or has forgotten the transaction."
	default:
		return "Do so once the participant is repaired."
	}
}

func (x *explainer) optionDiscard(step int, op *Operation) {
	name := x.name(step, op.Phase)
	o := Option{Action: "discard", Step: x.def.Steps[step].Name, Phase: op.Phase}
	_, effects, refused := x.attempt(DiscardRequested{Step: o.Step, Phase: o.Phase})
	switch {
	case refused != nil:
		o.Text = "It cannot be discarded: " + refused.Problem + "."
	case op.Phase == PhaseTry && x.def.Steps[step].Kind == KindPivot:
		o.Text = "Discarding it sends a fence, which finds out whether the pivot was executed."
	case !x.decided():
		o.Text = "Discarding it cancels the transaction."
	default:
		o.Text = "Discarding it gives the " + name + " up: the transaction ends as resolved, and whether that effect happened is not known."
	}
	x.option(o, effects, refused)
}

func (x *explainer) optionResolve() {
	o := Option{Action: "resolve"}
	next, effects, refused := x.attempt(ResolveRequested{})
	switch {
	case refused != nil:
		o.Text = "It cannot be resolved now: " + refused.Problem + "."
	case next.Status.Terminal():
		o.Text = "Resolving gives up all dead letters and ends the transaction; what was given up may or may not have taken effect."
	default:
		o.Text = "Resolving gives up all dead letters; what waited for them goes on, and then the transaction ends as resolved."
	}
	x.option(o, effects, refused)
}

func (x *explainer) optionCancel() {
	o := Option{Action: "cancel"}
	next, effects, refused := x.attempt(CancelRequested{})
	switch {
	case refused != nil && x.tx.Status == StatusCommitted:
		o.Text = "It cannot be cancelled: it has committed. Undo it with a transaction of its own."
	case refused != nil && x.tx.Status == StatusResolved:
		o.Text = "It cannot be cancelled: an operator has ended it."
	case refused != nil:
		o.Text = "It cannot be cancelled: the decision to commit has been made, and never changes."
	case x.tx.Status == StatusCancelled:
		o.Text = "Nothing is left to do: it is cancelled."
	case x.tx.Status == StatusCancelling:
		o.Text = "Cancelling it again changes nothing: it is being cancelled."
	case next.Status == StatusCancelled:
		o.Text = "It can be cancelled, and ends at once: nothing has to be undone."
	case next.Status == StatusCancelling:
		o.Text = "It can be cancelled: what was sent is then undone."
	case effects.Changed:
		o.Text = "Cancelling sends a fence, which finds out whether the pivot was executed: the transaction is cancelled only if it was not."
	default:
		o.Text = "Cancelling changes nothing: the fence is under way, and its reply decides."
	}
	x.option(o, effects, refused)
}
