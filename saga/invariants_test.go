package saga_test

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/sagacity-tx/sagacity/saga"
)

// What holds after every single event, whatever happened before.

// checkWrite holds Changed against what changed, and terminal states against change (I-7).
func (w *world) checkWrite(before, next saga.Transaction, e saga.Effects) {
	if !e.Changed {
		w.must(reflect.DeepEqual(before, next), "the transaction changed although Changed is false")
		w.must(len(e.Commands)+len(e.Attempts)+len(e.DeadLetters) == 0, "there are effects although Changed is false")
	}
	w.must(!before.Status.Terminal() || !e.Changed, "I-7: %s changes", before.Status)
	w.must(before.Version == next.Version && before.ID == next.ID, "I-7: the store raises the version, nobody else")
}

// following lists where each status may lead in one write (S2.1: decision and completion may come in one).
func following(s saga.Status) []saga.Status {
	commit := []saga.Status{saga.StatusConfirming, saga.StatusCommitted}
	cancel := []saga.Status{saga.StatusCancelling, saga.StatusCancelled}
	switch s {
	case "":
		return slices.Concat([]saga.Status{saga.StatusAccepted, saga.StatusRunning}, commit, cancel)
	case saga.StatusAccepted:
		return slices.Concat([]saga.Status{saga.StatusRunning}, commit, cancel)
	case saga.StatusRunning:
		return slices.Concat(commit, cancel)
	case saga.StatusConfirming:
		return []saga.Status{saga.StatusCommitted, saga.StatusResolved}
	case saga.StatusCancelling:
		return []saga.Status{saga.StatusCancelled, saga.StatusResolved}
	default:
		return nil
	}
}

// checkDecision holds the one decision (I-7) and notes the cancel set (S2.4).
func (w *world) checkDecision(before saga.Transaction) {
	now := w.tx.Status
	w.must(now == before.Status || slices.Contains(following(before.Status), now), "I-7: %s follows %s", now, before.Status)
	w.must(now.Terminal() != w.tx.FinishedAt.IsZero(), "FinishedAt of %s", now)
	decided := now != saga.StatusAccepted && now != saga.StatusRunning
	w.must(decided != w.tx.DecidedAt.IsZero(), "DecidedAt of %s", now)
	w.must(before.DecidedAt.IsZero() || before.DecidedAt.Equal(w.tx.DecidedAt), "I-7: decided twice")
	cancelled := now == saga.StatusCancelling || now == saga.StatusCancelled
	w.must(!cancelled || w.tx.Cause.Why != "", "a cancel without a cause")
	if !before.DecidedAt.IsZero() || !cancelled {
		return
	}
	w.toCancel = map[string]bool{}
	for i, s := range w.def.Steps {
		_, sent := w.last[slot{s.Name, saga.PhaseTry}]
		compensable := s.Kind == saga.KindSaga || s.Kind == saga.KindTCC
		w.toCancel[s.Name] = compensable && sent && w.tx.Steps[i].Try.State != saga.OperationRefused
	}
	w.checkPivotProof()
}

// checkPivotProof: once the pivot's try is sent, only a proof that it has no effect leads to cancel (S2.6).
func (w *world) checkPivotProof() {
	for i, s := range w.def.Steps {
		_, sent := w.last[slot{s.Name, saga.PhaseTry}]
		if s.Kind != saga.KindPivot || !sent {
			continue
		}
		row := w.rows[s.Name]
		proven := row.state == saga.BarrierRefused || row.state == saga.BarrierNullCancelled
		w.must(proven, "S2.6: cancelled while the pivot is %s, its try %s", row.state, w.tx.Steps[i].Try.State)
	}
}

// checkCommands holds what is sent against the former attempts (S1.1, S1.4), the order (S2.3, S2.4) and the
// dead letters (I-13).
func (w *world) checkCommands(before saga.Transaction, ev saga.Event, e saga.Effects) {
	for _, c := range e.Commands {
		op := slot{c.Step, c.Phase}
		last := w.last[op]
		w.must(c.Attempt == last.Attempt+1, "S1.1: %s attempt %d follows %d", op, c.Attempt, last.Attempt)
		w.must(c.ContentSHA256 == saga.ContentSHA256(c.Action, c.Body), "S1.4: %s has another body's hash", op)
		if last.Attempt > 0 {
			w.must(bytes.Equal(c.Body, last.Body) && c.ContentSHA256 == last.ContentSHA256 && c.Revision == last.Revision,
				"S1.4: %s changes between attempts", op)
			was := operationOf(w.def, before, c.Step, c.Phase).State
			replay, _ := ev.(saga.ReplayRequested)
			w.must(was == saga.OperationWaiting || was == saga.OperationDead && slot{replay.Step, replay.Phase} == op,
				"I-13: %s is sent again although it was %s", op, was)
		} else {
			w.checkOrder(c)
		}
		forward := c.Phase == saga.PhaseTry && c.Kind != saga.KindRetriable
		w.must(forward || c.Deadline.IsZero(), "S2.7: %s carries a deadline", op)
		w.must(!forward || c.Deadline.Equal(w.tx.Deadline), "%s carries another deadline than the transaction's", op)
		w.last[op] = c
	}
}

// checkOrder holds the first sending of an operation against the definition.
func (w *world) checkOrder(c saga.Command) {
	i := w.def.StepIndex(c.Step)
	for j, s := range w.def.Steps {
		other := w.tx.Steps[j]
		compensable := s.Kind == saga.KindSaga || s.Kind == saga.KindTCC
		switch {
		case c.Phase == saga.PhaseTry && c.Kind == saga.KindPivot:
			w.must(!compensable || other.Try.State == saga.OperationDone, "S2.3: the pivot starts before %s", s.Name)
		case c.Phase == saga.PhaseCancel && c.Kind == saga.KindPivot:
			w.must(w.tx.Status == saga.StatusRunning || w.tx.Status == saga.StatusConfirming, "S2.6: a fence while %s", w.tx.Status)
		case c.Phase == saga.PhaseCancel:
			w.must(w.toCancel[c.Step], "S2.4: %s is not in the cancel set", c.Step)
			w.must(!w.behind(j, i) || !w.toCancel[s.Name] || ended(other.Settle), "S2.4: %s is cancelled before %s", c.Step, s.Name)
		case c.Phase == saga.PhaseConfirm, c.Kind == saga.KindRetriable:
			w.must(!compensable || other.Try.State == saga.OperationDone, "I-4: %s before the try of %s", c.Step, s.Name)
			w.must(!w.behind(i, j) || s.Kind != saga.KindTCC || ended(other.Settle), "S2.3: %s goes before %s", c.Step, s.Name)
			w.must(!w.behind(i, j) || s.Kind != saga.KindRetriable || ended(other.Try), "S2.3: %s goes before %s", c.Step, s.Name)
		default:
			w.must(!w.behind(i, j) || other.Try.State == saga.OperationDone, "S2.2: %s starts before %s", c.Step, s.Name)
		}
	}
}

func ended(op saga.Operation) bool {
	return op.State == saga.OperationDone || op.State == saga.OperationGivenUp
}

// checkDeadLetters follows each dead letter through its states (D2) and holds them against the operations.
func (w *world) checkDeadLetters(e saga.Effects) {
	for _, d := range e.DeadLetters {
		op := slot{d.Step, d.Phase}
		was := w.letters[op]
		from := []saga.DeadLetterStatus{saga.DeadLetterOpen, saga.DeadLetterReplaying}
		switch d.To {
		case saga.DeadLetterOpen:
			from = []saga.DeadLetterStatus{"", saga.DeadLetterReplaying}
			w.must(d.Cause != "" && d.Command.Attempt == d.Attempt, "%s: a dead letter without its cause or command", op)
		case saga.DeadLetterReplaying, saga.DeadLetterDiscarded:
			from = []saga.DeadLetterStatus{saga.DeadLetterOpen}
		default:
		}
		w.must(slices.Contains(from, was), "D2: the dead letter of %s goes from %q to %s", op, was, d.To)
		w.letters[op] = d.To
	}
	for i, s := range w.tx.Steps {
		for _, op := range []saga.Operation{s.Try, s.Settle} {
			status := w.letters[slot{w.def.Steps[i].Name, op.Phase}]
			w.must((op.State == saga.OperationDead) == (status == saga.DeadLetterOpen), "%s is %s but its dead letter %q",
				w.def.Steps[i].Name, op.State, status)
			w.must(op.Replaying == (status == saga.DeadLetterReplaying), "%s: Replaying is %t but its dead letter %q",
				w.def.Steps[i].Name, op.Replaying, status)
			w.must(!w.tx.Status.Terminal() || op.State != saga.OperationDead && !op.Replaying, "I-15: %s with an open dead letter", w.tx.Status)
		}
	}
}

// checkWake: nothing that is due is ever missed (duty 6 of the caller).
func (w *world) checkWake() {
	if w.tx.Status.Terminal() {
		w.must(w.wake.IsZero(), "a wake after the end")
		return
	}
	w.must(!w.wake.IsZero() || len(w.deadLetters()) > 0, "I-11: %s, nothing is due and no operator is asked", w.tx.Status)
	fenced := false
	for i, s := range w.tx.Steps {
		fenced = fenced || w.def.Steps[i].Kind == saga.KindPivot && s.Settle.Begun()
		for _, op := range []saga.Operation{s.Try, s.Settle} {
			due := op.State == saga.OperationSent || op.State == saga.OperationWaiting
			w.must(!due || !w.wake.IsZero() && !w.wake.After(op.NextAt), "the wake misses %s/%s", w.def.Steps[i].Name, op.Phase)
		}
	}
	deadline := w.tx.Status == saga.StatusRunning && !fenced && !w.tx.Deadline.IsZero()
	w.must(!deadline || !w.wake.IsZero() && !w.wake.After(w.tx.Deadline), "the wake misses the deadline")
}
