package saga

import (
	"fmt"
	"strings"
	"time"
)

// Explanation says in sentences for people what a transaction does, why it waits, what happens next and what
// can be asked for (E1). The texts may change with any version; the other members are for programs.
type Explanation struct {
	At      time.Time  // the instant that it is about
	State   []string   // what state the transaction is in, and why
	Waits   []Waiting  // operations that are under way, are set aside or have to wait for others
	Next    []Upcoming // what happens without anybody's doing
	Options []Option   // what can be asked for, and what would come of it
}

// Sentences returns all texts, in the order in which they are to be read.
func (e *Explanation) Sentences() []string {
	all := append([]string{}, e.State...)
	for i := range e.Waits {
		all = append(all, e.Waits[i].Text)
	}
	for i := range e.Next {
		all = append(all, e.Next[i].Text)
	}
	for i := range e.Options {
		all = append(all, e.Options[i].Text)
	}
	return all
}

// WaitFor is what an operation waits for.
type WaitFor string

// What operations wait for.
const (
	WaitForReply      WaitFor = "reply"      // an attempt was sent
	WaitForBackoff    WaitFor = "backoff"    // the delay before the next attempt
	WaitForLease      WaitFor = "lease"      // someone holds the lease of its external effect
	WaitForBudget     WaitFor = "budget"     // the participant's retry budget
	WaitForBreaker    WaitFor = "breaker"    // the participant is silent
	WaitForLimit      WaitFor = "limit"      // the participant has enough in flight
	WaitForCeiling    WaitFor = "ceiling"    // the participant's backlog drains
	WaitForPause      WaitFor = "pause"      // an operator's resume
	WaitForTurn       WaitFor = "turn"       // its next attempt is due at once
	WaitForPerson     WaitFor = "person"     // it is a dead letter
	WaitForFence      WaitFor = "fence"      // a pivot's try: the fence's reply decides, or its own
	WaitForOperations WaitFor = "operations" // those in On come before it
)

// Waiting is an operation that is not settled, and what it waits for.
type Waiting struct {
	Step         string
	Phase        Phase
	Participant  string
	Action       string
	State        OperationState // idle: never sent
	For          WaitFor
	On           []string  // with operations: those before it, as step/phase
	Since        time.Time // when the last attempt was sent; zero if none was
	Until        time.Time // when its wait ends by itself; zero if never
	Attempt      int       // number of the last attempt
	AttemptsLeft int       // that may fail before it is exhausted
	Replaying    bool
	Text         string
}

// Upcoming is something that happens by itself.
type Upcoming struct {
	At   time.Time // zero: no certain time
	Text string
}

// Option is something that a client or an operator can ask for, and what would come of it.
type Option struct {
	Action   string // replay, discard, resolve or cancel
	Step     string // of replay and discard
	Phase    Phase
	Possible bool
	Changes  bool   // it would change the transaction; false for what is under way already
	Code     string // if it is not possible: that of the StateError
	Text     string
}

// overdueAfter is how late something may be before people are told: coordinators look at timers several times a
// second, and take over from one that died within a few.
const overdueAfter = 10 * time.Second

// Explain explains a transaction as it is, at an instant of the coordinator database's clock. It decides nothing,
// and asks Step what would come of each option.
func Explain(def *Definition, tx Transaction, now time.Time) Explanation {
	x := explainer{machine: machine{def: def, tx: tx, now: now, rnd: noChance{}}}
	x.out.At = now
	x.explainState()
	if !tx.Status.Terminal() {
		x.explainWaits()
		x.explainNext()
	}
	x.explainOptions()
	return x.out
}

// noChance stands in where no random number matters.
type noChance struct{}

// Int64N returns 0.
func (noChance) Int64N(int64) int64 { return 0 }

// explainer gathers an explanation. Its machine only answers questions.
type explainer struct {
	machine
	out Explanation
}

func (x *explainer) say(format string, args ...any) {
	x.out.State = append(x.out.State, fmt.Sprintf(format, args...))
}

func (x *explainer) explainState() {
	switch x.tx.Status {
	case StatusAccepted:
		x.say("The transaction is accepted: its start is delayed and nothing has been sent.")
	case StatusRunning:
		x.explainRunning()
	case StatusConfirming:
		done, all := x.progress(x.phaseTwo)
		x.say("The transaction is confirming: it was decided to commit %s. Confirms and retriable tries done: %d of %d.", x.when(x.tx.DecidedAt), done, all)
	case StatusCancelling:
		done, all := x.progress(x.cancelOf)
		x.say("The transaction is cancelling: it was decided to cancel %s, because %s. Cancels done: %d of %d.", x.when(x.tx.DecidedAt), x.cause(), done, all)
	case StatusCommitted:
		x.say("The transaction committed %s: everything is done.", x.when(x.tx.FinishedAt))
	case StatusCancelled:
		x.say("The transaction was cancelled %s, because %s: no effect of it remains.", x.when(x.tx.FinishedAt), x.cause())
	case StatusResolved:
		x.explainResolved()
	default: // not submitted yet
	}
	if x.tx.Suspended() && !x.tx.Status.Terminal() {
		dead, replays := x.suspending()
		x.say("It is suspended: %s. Until then its result is unknown to the client.", suspendedBy(dead, replays))
	}
}

func (x *explainer) explainRunning() {
	done, all := x.progress(x.tryOf)
	x.say("The transaction is running: nothing is decided yet. Tries done: %d of %d.", done, all)
	if p := x.def.graph.pivot; p >= 0 && x.tx.Steps[p].Settle.Begun() {
		x.say("It is being found out whether the pivot %s was executed, because %s: the reply to its fence decides.", x.def.Steps[p].Name, x.cause())
	}
}

// explainResolved says what is not known of a transaction that an operator ended (S2.13).
func (x *explainer) explainResolved() {
	direction := "commit"
	var givenUp []string
	for i := range x.tx.Steps {
		for _, op := range []*Operation{&x.tx.Steps[i].Try, &x.tx.Steps[i].Settle} {
			if op.State != OperationGivenUp {
				continue
			}
			if op.Phase == PhaseCancel {
				direction = "cancel"
			}
			givenUp = append(givenUp, "the "+x.name(i, op.Phase))
		}
	}
	x.say("An operator ended the transaction %s: it was decided to %s, and %s given up.", x.when(x.tx.FinishedAt), direction, subject(givenUp, "was", "were"))
	x.say("Whether the effect of what was given up happened is not known, and a late copy may still take effect; look at the participants.")
}

// progress counts the operations of a direction that are done, and all of them.
func (x *explainer) progress(of func(step int) (Phase, *Operation)) (done, all int) {
	for i := range x.tx.Steps {
		_, op := of(i)
		if op == nil {
			continue
		}
		all++
		if op.State == OperationDone {
			done++
		}
	}
	return done, all
}

// tryOf returns the try that a step has before the decision, or nil.
func (x *explainer) tryOf(step int) (Phase, *Operation) {
	if x.def.Steps[step].Kind == KindRetriable {
		return "", nil
	}
	return PhaseTry, &x.tx.Steps[step].Try
}

// cancelOf returns the cancel that a step has after the decision to cancel, or nil.
func (x *explainer) cancelOf(step int) (Phase, *Operation) {
	if !x.inCancelSet(step) {
		return "", nil
	}
	return PhaseCancel, &x.tx.Steps[step].Settle
}

func (x *explainer) suspending() (dead, replays int) {
	for i := range x.tx.Steps {
		for _, op := range []*Operation{&x.tx.Steps[i].Try, &x.tx.Steps[i].Settle} {
			switch {
			case op.State == OperationDead:
				dead++
			case op.Replaying:
				replays++
			}
		}
	}
	return dead, replays
}

func suspendedBy(dead, replays int) string {
	var parts []string
	if dead > 0 {
		parts = append(parts, plural(dead, "dead letter waits", "dead letters wait")+" for a person")
	}
	if replays > 0 {
		parts = append(parts, plural(replays, "replay is", "replays are")+" in flight")
	}
	return strings.Join(parts, " and ")
}

// cause says what led to the decision to cancel, or to the fence.
func (x *explainer) cause() string {
	c := x.tx.Cause
	switch c.Why {
	case WhyRefused:
		if c.Code == string(OutcomeHanging) {
			return fmt.Sprintf("step %s is cancelled in its participant's barrier already", c.Step)
		}
		return fmt.Sprintf("step %s refused%s", c.Step, said(c.Code, c.Reason))
	case WhyDeadline:
		if c.Step != "" {
			return fmt.Sprintf("the try of step %s came after the deadline", c.Step)
		}
		return "the deadline had passed"
	case WhyClient:
		return "the client asked for it" + said("", c.Reason)
	case WhyExhausted:
		if c.Code == codeDiscarded {
			return fmt.Sprintf("an operator discarded the try of step %s%s", c.Step, said("", c.Reason))
		}
		return fmt.Sprintf("the try of step %s has used up its attempts%s", c.Step, said(c.Code, c.Reason))
	default:
		return "of a reason that is not recorded"
	}
}
