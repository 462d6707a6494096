package model

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sagacity-tx/sagacity/saga"
)

// What every write of the coordinator is held against, whatever the participants do.

// checkEdge returns the rule that a judgement of the stored row breaks, or "".
func (m *Model) checkEdge(before *saga.Transaction, ev saga.Event, j saga.Judgement, err error) string {
	var refused *saga.StateError
	_, replied := ev.(saga.Replied)
	_, woken := ev.(saga.Woken)
	switch {
	case err != nil && (!errors.As(err, &refused) || replied || woken):
		return fmt.Sprintf("duty 4: an event that nobody chose is refused: %v", err)
	case err != nil:
		return ""
	case j.Reload:
		return "S2.10: the stored row is to be reloaded"
	case len(j.Effects.Incidents) > 0:
		return "S2.10: an incident, although all participants obey: " + j.Effects.Incidents[0].Problem
	case j.Tx.Version != before.Version:
		return "I-7: the version is the store's to raise"
	case !j.Effects.Changed && len(j.Effects.Commands)+len(j.Effects.DeadLetters) > 0:
		return "duty 1: effects without a write"
	case !j.Effects.Changed:
		return ""
	case replied && m.repeats(before, ev.(saga.Replied).Reply):
		return "S2.10: a reply to an operation whose outcome is recorded is merged again"
	}
	for _, check := range []func(*saga.Transaction, saga.Event, saga.Judgement) string{
		m.checkDecision, m.checkOperations, m.checkCommands, m.checkLetters, m.checkRest,
	} {
		if problem := check(before, ev, j); problem != "" {
			return problem
		}
	}
	return ""
}

// repeats reports whether the reply is about an operation whose outcome is recorded.
func (m *Model) repeats(before *saga.Transaction, r saga.Reply) bool {
	op := slot{m.def.StepIndex(r.Step), r.Phase != saga.PhaseTry}.of(before)
	return op.Sent() && !op.State.Open()
}

// direction is where a status goes: 0 undecided, 1 commit, 2 cancel.
func direction(tx *saga.Transaction) int {
	switch tx.Status {
	case saga.StatusConfirming, saga.StatusCommitted:
		return 1
	case saga.StatusCancelling, saga.StatusCancelled:
		return 2
	case saga.StatusResolved:
		if tx.Cause.Why == "" {
			return 1
		}
		return 2
	default:
		return 0
	}
}

// checkDecision: one decision, never changed; terminal states are absorbing (I-7).
func (m *Model) checkDecision(before *saga.Transaction, _ saga.Event, j saga.Judgement) string {
	was, is := direction(before), direction(&j.Tx)
	switch {
	case before.Status.Terminal():
		return "I-7: " + string(before.Status) + " is not absorbing"
	case was != 0 && was != is:
		return fmt.Sprintf("I-7: the decision changes: %s, then %s", before.Status, j.Tx.Status)
	case (is != 0) == j.Tx.DecidedAt.IsZero(), j.Tx.Status.Terminal() == j.Tx.FinishedAt.IsZero():
		return "S2.1: the instants of the decision and of the end do not agree with the status"
	case j.Tx.Status == saga.StatusCommitted && j.Tx.Cause.Why != "", j.Tx.Status == saga.StatusCancelled && j.Tx.Cause.Why == "":
		return "S2: only what is cancelled says why"
	}
	return ""
}

// checkOperations: what is recorded never changes (S2.10), the decision closes every open try and the fence (S2.12),
// attempts stay within their number, and what is set aside is sent again by an operator only (I-13).
func (m *Model) checkOperations(before *saga.Transaction, ev saga.Event, j saga.Judgement) string {
	for _, s := range m.slots() {
		was, is := saga.Operation{}, s.of(&j.Tx)
		if before.Status != "" {
			was = *s.of(before)
		}
		name := m.def.Steps[s.step].Name + "/" + string(is.Phase)
		sentAgain := active(is) && was.Sent() && !active(&was)
		forward := m.def.Steps[s.step].Kind == saga.KindRetriable || s.settle
		attemptsMax := m.def.Steps[s.step].Retry.MaxAttempts
		if forward {
			attemptsMax = m.def.Steps[s.step].Retry.PhaseTwoAttempts
		}
		switch {
		case was.Sent() && !was.State.Open() && (was.State != is.State || was.Phase != is.Phase || !bytes.Equal(was.Result.Data, is.Result.Data)):
			return fmt.Sprintf("S2.10: what is recorded of %s changes from %s to %s", name, was.State, is.State)
		case was.Sent() && (was.ContentSHA256 != is.ContentSHA256 || was.Revision != is.Revision):
			return "S1.4: the content of " + name + " changes"
		case sentAgain && !isReplay(ev, m.def.Steps[s.step].Name, is.Phase):
			return "I-13: " + name + " was set aside or ended, and is sent again without an operator"
		case !s.settle && active(is) && !is.Replaying && direction(&j.Tx) == 0 && j.Tx.Steps[s.step].Settle.Sent():
			return "S2.6: the try of " + m.def.Steps[s.step].Name + " is sent beside its fence"
		case sentAgain && (is.Floor != is.Attempt || is.Attempt <= was.Attempt):
			return "S1.1: the replay of " + name + " is no new attempt"
		case active(&was) && active(is) && (is.Floor != was.Floor || is.CountedTo < was.CountedTo || is.Attempt < was.Attempt):
			return "S2.8: the numbers of the attempts of " + name + " go back"
		case active(is) && is.Counted >= attemptsMax:
			return fmt.Sprintf("I-13: %s goes on after %d attempts that counted", name, is.Counted)
		case direction(before) == 0 && direction(&j.Tx) != 0 && is.State.Open() && is.Attempt <= was.Attempt:
			return "S2.12: the decision leaves " + name + " open"
		}
	}
	return ""
}

func isReplay(ev saga.Event, step string, phase saga.Phase) bool {
	r, ok := ev.(saga.ReplayRequested)
	return ok && r.Step == step && r.Phase == phase
}

// checkCommands: each command is the next attempt of an operation that the write records as sent, of the same content
// as ever (S1.4), and in its turn (I-4, S2.3, S2.4, S2.6). It remembers new contents.
func (m *Model) checkCommands(_ *saga.Transaction, _ saga.Event, j saga.Judgement) string {
	for _, c := range j.Effects.Commands {
		s := slot{m.def.StepIndex(c.Step), c.Phase != saga.PhaseTry}
		op := s.of(&j.Tx)
		known, ok := m.commands[s.step][commandKey{c.Phase, m.content(c.ContentSHA256)}]
		switch {
		case op.State != saga.OperationSent || op.Attempt != c.Attempt || op.ContentSHA256 != c.ContentSHA256:
			return fmt.Sprintf("C2: %s/%s is sent, but recorded as %s", c.Step, c.Phase, op.State)
		case c.ContentSHA256 != saga.ContentSHA256(c.Action, c.Body), ok && !bytes.Equal(known.Body, c.Body):
			return fmt.Sprintf("S1.4: the body of %s/%s is not what its hash says", c.Step, c.Phase)
		case (c.Phase != saga.PhaseTry || c.Kind == saga.KindRetriable) != c.Deadline.IsZero():
			return fmt.Sprintf("S2.7: the deadline of %s/%s", c.Step, c.Phase)
		}
		if c.Attempt == 1 {
			if problem := m.checkTurn(&j.Tx, s.step, c); problem != "" {
				return problem
			}
		}
		m.commands[s.step][commandKey{c.Phase, m.content(c.ContentSHA256)}] = c
	}
	return ""
}

// checkTurn holds the first sending of an operation against the order of the definition.
func (m *Model) checkTurn(tx *saga.Transaction, step int, c saga.Command) string {
	for j, other := range m.def.Steps {
		after, before := m.comesAfter[step][j], m.comesAfter[j][step]
		try, settle := tx.Steps[j].Try, tx.Steps[j].Settle
		tried := try.State == saga.OperationDone
		through := func(op saga.Operation) bool {
			return op.State == saga.OperationDone || op.State == saga.OperationGivenUp
		}
		var problem string
		switch {
		case c.Phase == saga.PhaseCancel && c.Kind == saga.KindPivot:
			if !tx.Steps[step].Try.Sent() {
				problem = "S2.6: a fence before the try"
			}
		case c.Phase == saga.PhaseCancel:
			if before && compensable(other.Kind) && (tried || try.State == saga.OperationClosed) && !through(settle) {
				problem = "S2.4: before what comes after it is cancelled"
			}
		case c.Phase == saga.PhaseConfirm, c.Kind == saga.KindRetriable:
			if (compensable(other.Kind) || other.Kind == saga.KindPivot) && !tried {
				problem = "I-4: before every try is done"
			}
			if after && (other.Kind == saga.KindTCC && !through(settle) || other.Kind == saga.KindRetriable && !through(try)) {
				problem = "S2.3: before what it is after"
			}
		case (after || c.Kind == saga.KindPivot && compensable(other.Kind)) && !tried:
			problem = "S2.2: before what it is after"
		}
		if problem != "" {
			return fmt.Sprintf("%s: %s/%s is sent while %s is %s %s", problem, c.Step, c.Phase, other.Name, try.State, settle.State)
		}
	}
	return ""
}

// checkLetters: an operation is an open dead letter, or its replay is in flight, exactly if its dead letter says so
// (D2); none is left at the end (I-15).
func (m *Model) checkLetters(before *saga.Transaction, _ saga.Event, j saga.Judgement) string {
	for _, s := range m.slots() {
		was, is := saga.Operation{}, s.of(&j.Tx)
		if before.Status != "" {
			was = *s.of(before)
		}
		letter := letterOf(&was)
		for _, d := range j.Effects.DeadLetters {
			if d.Step == m.def.Steps[s.step].Name && d.Phase == is.Phase {
				letter = d.To
			}
		}
		if letter != saga.DeadLetterOpen && letter != saga.DeadLetterReplaying {
			letter = ""
		}
		if letter != letterOf(is) {
			return fmt.Sprintf("D2: %s/%s is %s, and its dead letter %q", m.def.Steps[s.step].Name, is.Phase, is.State, letter)
		}
		if letter != "" && j.Tx.Status.Terminal() {
			return fmt.Sprintf("I-15: %s with an open dead letter of %s/%s", j.Tx.Status, m.def.Steps[s.step].Name, is.Phase)
		}
	}
	return ""
}

// letterOf is what the dead letter of an operation has to be.
func letterOf(op *saga.Operation) saga.DeadLetterStatus {
	switch {
	case op.State == saga.OperationDead:
		return saga.DeadLetterOpen
	case op.Replaying:
		return saga.DeadLetterReplaying
	}
	return ""
}

// checkRest: something is due or an operator is asked until the end (I-11); only what has given-up operations is
// resolved (S2.13).
func (m *Model) checkRest(_ *saga.Transaction, _ saga.Event, j saga.Judgement) string {
	givenUp := false
	for _, s := range m.slots() {
		op := s.of(&j.Tx)
		givenUp = givenUp || op.State == saga.OperationGivenUp
		if active(op) && (j.Effects.Wake.IsZero() || j.Effects.Wake.After(op.NextAt)) {
			return "duty 6: the wake misses " + m.def.Steps[s.step].Name + "/" + string(op.Phase)
		}
	}
	switch {
	case j.Tx.Status.Terminal() && !j.Effects.Wake.IsZero():
		return "duty 6: a wake after the end"
	case j.Tx.Status.Terminal() && givenUp != (j.Tx.Status == saga.StatusResolved):
		return fmt.Sprintf("S2.13: %s, and operations were given up: %t", j.Tx.Status, givenUp)
	case !j.Tx.Status.Terminal() && j.Effects.Wake.IsZero() && !j.Tx.Suspended():
		return "I-11: nothing is due and no operator is asked"
	}
	return ""
}

// checkDeadReplies shows that the replies that the model drops change nothing: all of them after the end, and the
// transient ones to an operation that is not being sent, to an attempt before the last sending by an operator, and a
// retry of an attempt that has counted.
func (m *Model) checkDeadReplies(r *row) string {
	for _, s := range m.slots() {
		op := *s.of(&r.tx)
		if !op.Sent() {
			continue
		}
		for attempt := 1; attempt <= op.Attempt; attempt++ {
			for _, reply := range deadReplies(&r.tx, op, attempt) {
				reply.Step, reply.Participant = m.def.Steps[s.step].Name, m.def.Steps[s.step].Participant
				reply.Tenant, reply.Transaction = r.tx.Tenant, r.tx.ID
				reply.Phase, reply.Attempt, reply.Revision, reply.ContentSHA256 = op.Phase, attempt, op.Revision, op.ContentSHA256
				j, err := saga.Judge(saga.Case{Def: m.def, Tx: r.tx, Event: saga.Replied{Reply: reply}}, early, longest{})
				if err != nil || j.Effects.Changed {
					return fmt.Sprintf("S2.10: %s (%s) to attempt %d of %s/%s, which is %s, still counts (%v)",
						reply.Outcome, reply.Code, attempt, reply.Step, op.Phase, op.State, err)
				}
			}
		}
	}
	return ""
}

// deadReplies are one of each sort that Step treats alike.
func deadReplies(tx *saga.Transaction, op saga.Operation, attempt int) []saga.Reply {
	transient := []saga.Reply{{Outcome: saga.OutcomeRetry, Code: saga.CodeError}, {Outcome: saga.OutcomeFault, Code: saga.FaultHandler}}
	switch {
	case tx.Status.Terminal():
		return append(transient, saga.Reply{Outcome: saga.OutcomeDone}, saga.Reply{Outcome: saga.OutcomeRefused},
			saga.Reply{Outcome: saga.OutcomeHanging}, saga.Reply{Outcome: saga.OutcomeFault, Code: saga.FaultContradicts},
			saga.Reply{Outcome: saga.OutcomeState, State: saga.BarrierTried})
	case !active(&op), attempt < op.Floor:
		return transient
	case attempt <= op.CountedTo:
		return transient[:1]
	}
	return nil
}
