package sagatest

import (
	"errors"

	"github.com/sagacity-tx/sagacity/saga"
)

// What an event may do to the operation that it is about: the rules of merging (S2.10), counting (S2.8) and of what
// operators may ask for (S2.13), held against the state before it.

// checkReplyMerged: what a reply may change.
func checkReplyMerged(h *history, def *saga.Definition, j *judged, must mustFunc) {
	ev, ok := j.event.(saga.Replied)
	if !ok || !j.effects.Changed {
		return
	}
	r := &ev.Reply
	i := def.StepIndex(r.Step)
	op := operation(def, &j.before, r.Step, r.Phase)
	name := r.Step + "/" + string(r.Phase)
	must(op.Sent(), "S2.10", "%s was never sent, and a reply to it is merged", name)
	must(op.State.Open(), "S2.10", "%s is %s, and a reply to it is merged", name, op.State)
	must(inDirection(j.before.Status, def.Steps[i].Kind, r.Phase), "S2.10", "it is %s, and a reply to %s is merged", j.before.Status, name)
	must(r.Revision == op.Revision, "S1.5", "a reply to revision %d of %s is merged, which is at %d", r.Revision, name, op.Revision)
	fence := def.Steps[i].Kind == saga.KindPivot && r.Phase == saga.PhaseCancel
	switch r.Outcome {
	case saga.OutcomeDone, saga.OutcomeRefused, saga.OutcomeHanging:
		other := r.ContentSHA256 != [32]byte{} && r.ContentSHA256 != op.ContentSHA256
		must(!other, "U3", "a reply about other content than that of %s is merged", name)
		return
	case saga.OutcomeState, saga.OutcomeReserved: // a reservation is for ever, whichever attempt asked for it
		return
	case saga.OutcomeFault:
		if fence && r.Code == saga.FaultContradicts {
			return
		}
	default:
	}
	must(r.Attempt >= h.floors[slot{r.Step, r.Phase}], "S2.10", "%s to attempt %d of %s counts, which was replayed since", r.Outcome, r.Attempt, name)
	exhausted := j.after.Cause.Why == saga.WhyExhausted && j.after.Cause.Step == r.Step && cancellable(def.Steps[i].Kind)
	must(r.Code != saga.CodePanic || j.before.Cause == j.after.Cause || !exhausted, "S3", "a panic of %s cancels", name)
}

// inDirection reports whether replies to an operation are merged while the transaction is so.
func inDirection(status saga.Status, kind saga.Kind, phase saga.Phase) bool {
	switch status {
	case saga.StatusRunning:
		return phase == saga.PhaseTry && kind != saga.KindRetriable || phase == saga.PhaseCancel && kind == saga.KindPivot
	case saga.StatusConfirming:
		return phase == saga.PhaseConfirm || phase == saga.PhaseTry && kind == saga.KindRetriable
	case saga.StatusCancelling:
		return phase == saga.PhaseCancel && cancellable(kind)
	case saga.StatusAccepted, saga.StatusCommitted, saga.StatusCancelled, saga.StatusResolved:
	}
	return false
}

// checkCounted: no attempt counts twice (S2.8).
func checkCounted(h *history, def *saga.Definition, j *judged, must mustFunc) {
	for i := range j.after.Steps {
		for _, op := range []*saga.Operation{&j.after.Steps[i].Try, &j.after.Steps[i].Settle} {
			if op.State == saga.OperationSent || op.State == saga.OperationWaiting {
				since := op.Attempt - max(h.floors[slot{def.Steps[i].Name, op.Phase}], 1) + 1
				must(op.Counted <= max(since, 0), "S2.8", "%d attempts of %s/%s count, of %d", op.Counted, def.Steps[i].Name, op.Phase, since)
			}
		}
	}
}

// checkAsked: what operators may ask for (S2.12, S2.13). It notes which attempt a replay begins with.
func checkAsked(h *history, def *saga.Definition, j *judged, must mustFunc) {
	if !j.effects.Changed {
		return
	}
	switch ev := j.event.(type) {
	case saga.ReplayRequested:
		op := operation(def, &j.before, ev.Step, ev.Phase)
		if after := operation(def, &j.after, ev.Step, ev.Phase); after.Replaying {
			must(op.State == saga.OperationDead, "D3", "%s/%s is replayed, which is %s", ev.Step, ev.Phase, op.State)
			checkApproved(h, j, ev, &op, &after, must)
			h.floors[slot{ev.Step, ev.Phase}] = op.Attempt + 1
		}
	case saga.DiscardRequested:
		i := def.StepIndex(ev.Step)
		must(def.Steps[i].Kind != saga.KindPivot || ev.Phase != saga.PhaseCancel, "S2.13", "the fence of %s is discarded", ev.Step)
	case saga.ResolveRequested:
		for i := range j.before.Steps {
			for _, op := range []*saga.Operation{&j.before.Steps[i].Try, &j.before.Steps[i].Settle} {
				under := op.State == saga.OperationSent || op.State == saga.OperationWaiting
				must(!under, "S2.13", "it is resolved, and %s/%s is %s", def.Steps[i].Name, op.Phase, op.State)
			}
		}
	}
}

// checkAnswered: no operator is told that nothing was done when it was, by a commit whose answer was lost (C9). A client
// who cancels is told how it stands, which may be another state by then.
func (w *world) checkAnswered(it *item, err error) {
	_, refused := errors.AsType[*saga.StateError](err)
	asked := false
	switch it.event.(type) {
	case saga.ReplayRequested, saga.EditRequested, saga.DiscardRequested, saga.ResolveRequested:
		asked = true
	}
	if refused && asked && it.stored && w.mode == Normal {
		w.violated("C9", it.id, "%s was stored, and is answered %v", eventText(it.event), err)
	}
}
