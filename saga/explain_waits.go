package saga

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Why operations wait, and what happens next.

// explainWaits goes through the operations of the present direction that are not settled: first those that were
// sent, in the order of the steps, then those that come next.
func (x *explainer) explainWaits() {
	var idle []int
	for i := range x.tx.Steps {
		for _, op := range []*Operation{&x.tx.Steps[i].Try, &x.tx.Steps[i].Settle} {
			if op.State.Open() && x.inDirection(i, op.Phase) {
				x.out.Waits = append(x.out.Waits, x.waiting(i, op))
			}
		}
		if _, op := x.ofDirection(i); op != nil && !op.Begun() {
			idle = append(idle, i)
		}
	}
	for _, i := range idle {
		if x.tx.Status != StatusAccepted { // there all wait for the start
			x.waitsForOthers(i)
		}
	}
}

// ofDirection returns the operation that the step has in the present direction, or nil. A pivot's fence is none:
// it is only sent when its outcome is open.
func (x *explainer) ofDirection(step int) (Phase, *Operation) {
	switch x.tx.Status {
	case StatusAccepted, StatusRunning:
		return x.tryOf(step)
	case StatusConfirming:
		return x.phaseTwo(step)
	case StatusCancelling:
		return x.cancelOf(step)
	default:
		return "", nil
	}
}

// waiting explains an operation that was sent.
func (x *explainer) waiting(step int, op *Operation) Waiting {
	s := &x.def.Steps[step]
	w := Waiting{
		Step: s.Name, Phase: op.Phase, Participant: s.Participant, Action: s.Action, State: op.State,
		Since: op.SentAt, Until: op.NextAt, Attempt: op.Attempt, AttemptsLeft: max(0, s.attemptsMax(op.Phase)-op.Counted),
		Replaying: op.Replaying,
	}
	name := "The " + x.name(step, op.Phase)
	switch {
	case op.State == OperationSent:
		w.For = WaitForReply
		w.Text = fmt.Sprintf("%s waits for a reply of %s: attempt %d was sent %s.", name, x.to(step), op.Attempt, x.when(op.SentAt))
		if op.Attempt > 1 && op.LastOutcome != "" && !op.Replaying {
			w.Text += fmt.Sprintf(" The attempt before %s.", ended(op))
		}
	case op.State == OperationWaiting && op.Wait == WaitLease:
		w.For = WaitForLease
		w.Text = fmt.Sprintf("%s waits for the end of a lease: %s said to attempt %d that its external effect is under way. It is sent again %s.",
			name, x.to(step), op.Attempt, x.when(op.NextAt))
	case op.State == OperationWaiting && gates[op.Wait].text != "":
		w.For = gates[op.Wait].waitFor
		w.Text = fmt.Sprintf("%s waits to be sent to %s: %s. It asks again %s.", name, x.to(step), gates[op.Wait].text, x.when(op.NextAt))
		if op.Sent() {
			w.Text += fmt.Sprintf(" Attempt %d %s.", op.Attempt, ended(op))
		}
	case op.State == OperationWaiting && op.Wait == WaitNone:
		w.For = WaitForTurn
		w.Text = fmt.Sprintf("%s is about to be sent again to %s, %s.", name, x.to(step), x.when(op.NextAt))
	case op.State == OperationWaiting:
		w.For = WaitForBackoff
		w.Text = fmt.Sprintf("%s waits for its next attempt: attempt %d at %s %s. It is sent again %s.",
			name, op.Attempt, x.to(step), ended(op), x.when(op.NextAt))
	case op.State == OperationHeld:
		w.For, w.Until = WaitForFence, time.Time{}
		w.Text = fmt.Sprintf("%s is not sent again, because its fence was: whichever of the two is answered first decides.", name)
		w.AttemptsLeft = 0
	case op.State == OperationDead:
		w.For, w.Until = WaitForPerson, time.Time{}
		w.Text = fmt.Sprintf("%s is a dead letter: attempt %d at %s, sent %s, %s. It is not sent again by itself; a late reply would still count.",
			name, op.Attempt, x.to(step), x.when(op.SentAt), ended(op))
		w.AttemptsLeft = 0
	}
	if op.Replaying {
		w.Text += " An operator replayed it."
	}
	if op.State.active() {
		w.Text += x.exhaustion(step, op)
	}
	return w
}

// gates says what holds an operation that a gate does not let through.
var gates = map[Wait]struct {
	waitFor WaitFor
	text    string
}{
	WaitBudget:  {WaitForBudget, "its retry budget is used up, so that retries do not make an outage bigger"},
	WaitBreaker: {WaitForBreaker, "it has been silent, and its circuit breaker is open"},
	WaitLimit:   {WaitForLimit, "it has as many attempts in flight as it may have"},
	WaitCeiling: {WaitForCeiling, "its backlog drains at a bounded rate"},
	WaitPause:   {WaitForPause, "it is paused, and waits for an operator to resume it (coordinator pause list says what and why)"},
}

// silent reports whether the last attempt that ended got no reply.
func silent(op *Operation) bool {
	return op.LastOutcome == OutcomeUnknown && op.LastCode == codeTimeout && strings.HasPrefix(op.LastReason, reasonTimeout)
}

// ended says how the last attempt that ended without settling its operation did.
func ended(op *Operation) string {
	switch {
	case silent(op):
		return "got no reply, so its outcome is unknown"
	case op.LastOutcome == OutcomeState:
		return "was an inquiry that settled nothing"
	case op.LastOutcome == "":
		return "was overtaken"
	}
	return fmt.Sprintf("ended with %s%s", op.LastOutcome, said(op.LastCode, op.LastReason))
}

// exhaustion says how many attempts are left and what follows, once some have counted; and what silence means.
func (x *explainer) exhaustion(step int, op *Operation) string {
	s := &x.def.Steps[step]
	text := ""
	if op.Counted > 0 {
		then := "it becomes a dead letter"
		switch {
		case op.Phase == PhaseTry && s.Kind == KindPivot:
			then = "a fence finds out whether it was executed"
		case op.Phase == PhaseTry && s.Kind.cancellable() && s.OnExhausted == OnExhaustedCancel:
			then = "the transaction is cancelled"
		}
		left := max(0, s.attemptsMax(op.Phase)-op.Counted)
		text = fmt.Sprintf(" Attempts that count: %d of %d; after %d more %s.", op.Counted, s.attemptsMax(op.Phase), left, then)
	}
	if silent(op) {
		counts := "silence uses up no attempts"
		switch {
		case op.Phase != PhaseTry || !s.Kind.cancellable():
		case s.Retry.Strategy == StrategyDeadLetter:
			counts = "with the strategy dead_letter silence counts too"
		default:
			counts = "silence uses up attempts only while it answers others"
		}
		text += " The participant may be down: " + counts + "."
	}
	return text
}

// waitsForOthers explains an operation that was never sent: it comes next if those before it are under way.
func (x *explainer) waitsForOthers(step int) {
	phase, _ := x.ofDirection(step)
	s := &x.def.Steps[step]
	w := Waiting{
		Step: s.Name, Phase: phase, Participant: s.Participant, Action: s.Action, For: WaitForOperations,
		AttemptsLeft: s.attemptsMax(phase),
	}
	var names []string
	dead := false
	for _, j := range x.before(step) {
		p, op := x.ofDirection(j)
		dead = dead || op.State == OperationDead
		w.On = append(w.On, x.def.Steps[j].Name+"/"+string(p))
		names = append(names, "the "+x.name(j, p))
	}
	person := ""
	if dead {
		person = ", and a dead letter among them needs a person"
		if len(names) == 1 {
			person = ", which needs a person"
		}
	}
	w.Text = fmt.Sprintf("The %s has not been sent: it waits for %s%s.", x.name(step, phase), enumerate(names), person)
	if len(names) == 0 {
		w.For, w.Text = WaitForTurn, fmt.Sprintf("The %s is about to be sent.", x.name(step, phase))
	}
	x.out.Waits = append(x.out.Waits, w)
}

// before returns the steps whose operations of the present direction have to be settled before the step's is sent.
// Steps that have nothing to do in this direction pass on what they would wait for.
func (x *explainer) before(step int) []int {
	if x.tx.Status == StatusRunning && x.def.Steps[step].Kind == KindPivot {
		return x.unsettled(func(i int) bool { return x.def.Steps[i].Kind.cancellable() })
	}
	next := x.def.graph.after
	if x.tx.Status == StatusCancelling {
		next = x.def.graph.dependents
	}
	blocking := map[int]bool{}
	seen := map[int]bool{}
	var visit func(int)
	visit = func(i int) {
		for _, j := range next[i] {
			if seen[j] {
				continue
			}
			seen[j] = true
			switch _, op := x.ofDirection(j); {
			case op == nil || op.State.settled():
				visit(j)
			default:
				blocking[j] = true
			}
		}
	}
	visit(step)
	return x.unsettled(func(i int) bool { return blocking[i] })
}

func (x *explainer) unsettled(which func(step int) bool) []int {
	var steps []int
	for i := range x.tx.Steps {
		if _, op := x.ofDirection(i); which(i) && op != nil && !op.State.settled() {
			steps = append(steps, i)
		}
	}
	return slices.Clip(steps)
}

// explainNext says what happens by itself: timers first, then what the end of the waits leads to.
func (x *explainer) explainNext() {
	wake := x.wakeAt()
	if x.tx.Status == StatusAccepted {
		x.next(x.tx.StartAt, "It starts %s.", x.when(x.tx.StartAt))
	}
	x.nextAttempt()
	x.nextDeadline()
	x.nextEnd()
	switch {
	case wake.IsZero() && x.tx.Suspended():
		x.next(time.Time{}, "No timer runs: it waits for a person, or for a late reply.")
	case wake.IsZero():
		x.next(time.Time{}, "No timer runs, and nothing is due.")
	case x.now.Sub(wake) > overdueAfter:
		x.next(wake, "Something has been due since %s: check that a coordinator runs, and that it reaches its database.", x.when(wake))
	}
}

func (x *explainer) next(at time.Time, format string, args ...any) {
	x.out.Next = append(x.out.Next, Upcoming{At: at, Text: fmt.Sprintf(format, args...)})
}

// nextAttempt says what the earliest timer of an operation does.
func (x *explainer) nextAttempt() {
	first, more := -1, 0
	var op *Operation
	x.eachActive(func(step int, o *Operation) {
		more++
		if first < 0 || o.NextAt.Before(op.NextAt) {
			first, op = step, o
		}
	})
	if first < 0 {
		return
	}
	others := ""
	if more > 1 {
		others = fmt.Sprintf(" %s later.", plural(more-1, "other operation is due", "other operations are due"))
	}
	name := x.name(first, op.Phase)
	switch {
	case op.State == OperationWaiting && gates[op.Wait].text != "":
		x.next(op.NextAt, "Attempt %d of the %s is sent when nothing holds it any more; that is looked at again %s.%s", op.Attempt+1, name, x.when(op.NextAt), others)
		return
	case op.State == OperationWaiting && x.now.Before(op.NextAt):
		x.next(op.NextAt, "Attempt %d of the %s is sent %s.%s", op.Attempt+1, name, x.when(op.NextAt), others)
		return
	case op.State == OperationWaiting:
		x.next(op.NextAt, "Attempt %d of the %s has been due since %s.%s", op.Attempt+1, name, x.when(op.NextAt), others)
		return
	case !x.now.Before(op.NextAt):
		x.next(op.NextAt, "The time for a reply to attempt %d of the %s ended %s: it is about to end as unknown.%s", op.Attempt, name, x.when(op.NextAt), others)
		return
	}
	x.next(op.NextAt, "If no reply has come by then, attempt %d of the %s ends as unknown %s, and another follows after a delay.%s",
		op.Attempt, name, x.when(op.NextAt), others)
}

// nextDeadline says what the deadline does, if it still can.
func (x *explainer) nextDeadline() {
	at, p := x.tx.Deadline, x.def.graph.pivot
	past := !at.IsZero() && !x.now.Before(at)
	switch {
	case x.decided() || p >= 0 && x.tx.Steps[p].Settle.Begun():
		if past {
			x.next(time.Time{}, "The deadline passed %s, which no longer matters: it ends going forward before the decision only.", x.when(at))
		}
	case at.IsZero():
		x.next(at, "It has no deadline.")
	case past && x.pivotSent():
		x.next(at, "The deadline passed %s: a fence is about to find out whether the pivot was executed.", x.when(at))
	case past:
		x.next(at, "The deadline passed %s: the transaction is about to be cancelled.", x.when(at))
	case x.pivotSent():
		x.next(at, "The deadline is %s: if the pivot is still open then, a fence finds out whether it was executed.", x.when(at))
	default:
		x.next(at, "The deadline is %s: if nothing is decided by then, the transaction is cancelled.", x.when(at))
	}
}

// nextEnd says where all this leads.
func (x *explainer) nextEnd() {
	p := x.def.graph.pivot
	var end string
	switch {
	case x.tx.Status == StatusConfirming:
		end = "When everything is done, it is committed."
	case x.tx.Status == StatusCancelling:
		end = "When all cancels are done, it is cancelled, and no effect of it remains."
	case p >= 0 && x.tx.Steps[p].Settle.Begun():
		end = fmt.Sprintf("If the pivot %s was not executed, the transaction is cancelled; if it was, the transaction commits.", x.def.Steps[p].Name)
	default:
		end = "When all tries are done, it is decided to commit; if one is refused, to cancel."
	}
	if x.givenUp() {
		end = "When the rest is settled, it ends as resolved, because an operation was given up."
	}
	x.next(time.Time{}, "%s", end)
}

func (x *explainer) givenUp() bool {
	return slices.ContainsFunc(x.tx.Steps, func(s StepState) bool {
		return s.Try.State == OperationGivenUp || s.Settle.State == OperationGivenUp
	})
}
