package sagatest

import (
	"bytes"
	"slices"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// What holds of every write of a transaction, judged by what was written before: the decisions themselves, whoever makes
// them.

// slot is an operation of a transaction.
type slot struct {
	step  string
	phase saga.Phase
}

// history is what the model remembers of a transaction, apart from the coordinators' database.
type history struct {
	last     map[slot]saga.Command          // the last command of each operation
	letters  map[slot]saga.DeadLetterStatus // where each dead letter stood last
	toCancel map[string]bool                // the cancel set, once cancel is decided
	settled  map[rowKey]saga.BarrierState   // rows that are recorded as refused or cancelled, which no try may follow (I-6)
	replies  map[slot]saga.Reply            // the first definitive reply that was given (I-5)
	floors   map[slot]int                   // the attempt that an operator has sent last
	doubts   map[slot]bool                  // dead letters of what nobody knows the outcome of, or whose participant has other content (D4)
}

func newHistory() *history {
	return &history{
		last: map[slot]saga.Command{}, letters: map[slot]saga.DeadLetterStatus{}, settled: map[rowKey]saga.BarrierState{},
		replies: map[slot]saga.Reply{}, floors: map[slot]int{}, doubts: map[slot]bool{},
	}
}

// transition holds one judged event of a write against the rules.
func (w *world) transition(h *history, def *saga.Definition, j *judged) {
	if w.stopped() {
		return
	}
	id := j.after.ID
	must := func(ok bool, rule, format string, args ...any) {
		if !ok {
			w.violated(rule, id, format, args...)
		}
	}
	checkDecision(h, def, j, must)
	must(j.item.version == 0 || j.item.version == j.before.Version, "D2", "it was looked at in version %d, and is changed in %d",
		j.item.version, j.before.Version)
	checkForeign(def, j, must)
	checkReplyMerged(h, def, j, must)
	checkAsked(h, def, j, must)
	checkCounted(h, def, j, must)
	w.checkExhausted(def, j, must)
	if j.effects.Changed {
		w.checkCommands(h, def, j, must)
		checkLetters(h, def, j, must)
	}
}

type mustFunc func(ok bool, rule, format string, args ...any)

// following lists where each status may lead in one write (S2.1: decision and completion may come in one).
var following = map[saga.Status][]saga.Status{
	"": {
		saga.StatusAccepted, saga.StatusRunning, saga.StatusConfirming, saga.StatusCommitted, saga.StatusCancelling,
		saga.StatusCancelled,
	},
	saga.StatusAccepted: {
		saga.StatusRunning, saga.StatusConfirming, saga.StatusCommitted, saga.StatusCancelling, saga.StatusCancelled,
	},
	saga.StatusRunning:    {saga.StatusConfirming, saga.StatusCommitted, saga.StatusCancelling, saga.StatusCancelled},
	saga.StatusConfirming: {saga.StatusCommitted, saga.StatusResolved},
	saga.StatusCancelling: {saga.StatusCancelled, saga.StatusResolved},
}

// checkDecision holds the one decision (I-7) and notes the cancel set (S2.4).
func checkDecision(h *history, def *saga.Definition, j *judged, must mustFunc) {
	before, after := &j.before, &j.after
	must(!before.Status.Terminal() || !j.effects.Changed, "I-7", "%s changes", before.Status)
	must(after.Status == before.Status || slices.Contains(following[before.Status], after.Status), "I-7",
		"%s follows %s", after.Status, before.Status)
	must(after.Status.Terminal() != after.FinishedAt.IsZero(), "I-7", "it is %s, finished at %s", after.Status, after.FinishedAt)
	decided := after.Status != saga.StatusAccepted && after.Status != saga.StatusRunning
	must(decided != after.DecidedAt.IsZero(), "I-7", "it is %s, decided at %s", after.Status, after.DecidedAt)
	must(before.DecidedAt.IsZero() || before.DecidedAt.Equal(after.DecidedAt), "I-7", "it is decided twice")
	cancels := after.Status == saga.StatusCancelling || after.Status == saga.StatusCancelled
	if !before.DecidedAt.IsZero() || !cancels {
		return
	}
	h.toCancel = map[string]bool{}
	for i, s := range def.Steps {
		_, sent := h.last[slot{s.Name, saga.PhaseTry}]
		for _, c := range j.effects.Commands { // or sent by the event that decides
			sent = sent || c.Step == s.Name && c.Phase == saga.PhaseTry
		}
		h.toCancel[s.Name] = cancellable(s.Kind) && sent && after.Steps[i].Try.State != saga.OperationRefused
	}
}

func cancellable(k saga.Kind) bool { return k == saga.KindSaga || k == saga.KindTCC }

// codeTimeout is what Step calls an attempt without a reply.
const codeTimeout = "timeout"

// heardKey names an operation of a participant.
type heardKey struct {
	participant string
	operation   saga.OperationKey
}

// hear notes when a reply came.
func (w *world) hear(r *saga.Reply, at time.Time) {
	key := heardKey{r.Participant, r.Key()}
	if at.After(w.heard[key]) {
		w.heard[key] = at
	}
}

// answersOthers reports whether a participant has answered another operation since an instant.
func (w *world) answersOthers(participant string, than saga.OperationKey, since time.Time) bool {
	for key, at := range w.heard {
		if key.participant == participant && key.operation != than && at.After(since) {
			return true
		}
	}
	return false
}

// checkExhausted: an attempt without a reply counts only if its participant answered others since it was sent, or its step
// asks for a person at once (S2.8).
func (w *world) checkExhausted(def *saga.Definition, j *judged, must mustFunc) {
	if _, woken := j.event.(saga.Woken); !woken {
		return
	}
	for i := range def.Steps {
		was, is := &j.before.Steps, &j.after.Steps
		if len(*was) == 0 {
			return
		}
		before, after := &(*was)[i].Try, &(*is)[i].Try
		exhausted := j.after.Cause.Why == saga.WhyExhausted && j.after.Cause.Code == codeTimeout && j.after.Cause.Step == def.Steps[i].Name &&
			j.before.Cause != j.after.Cause
		died := before.State != saga.OperationDead && after.State == saga.OperationDead && after.LastCode == codeTimeout
		asked := def.Steps[i].Retry.Strategy == saga.StrategyDeadLetter && cancellable(def.Steps[i].Kind)
		if (exhausted || died) && !asked {
			own := saga.OperationKey{Tenant: j.after.Tenant, Transaction: j.after.ID, Step: def.Steps[i].Name, Phase: saga.PhaseTry}
			must(w.answersOthers(def.Steps[i].Participant, own, before.SentAt), "S2.8",
				"%s is exhausted by silence: no other operation of %s was answered since %s", def.Steps[i].Name, def.Steps[i].Participant, before.SentAt)
		}
		settle := (*was)[i].Settle.State != saga.OperationDead && (*is)[i].Settle.State == saga.OperationDead
		must(!settle && (!died || cancellable(def.Steps[i].Kind)), "S2.8", "%s must go on, and is exhausted by silence", def.Steps[i].Name)
	}
}

// checkForeign: nobody may answer for another participant or tenant (I-14).
func checkForeign(def *saga.Definition, j *judged, must mustFunc) {
	ev, ok := j.event.(saga.Replied)
	if !ok || !j.effects.Changed {
		return
	}
	i := def.StepIndex(ev.Reply.Step)
	own := i >= 0 && def.Steps[i].Participant == ev.Reply.Participant && ev.Reply.Tenant == j.after.Tenant
	must(own, "I-14", "a reply of %s for tenant %s to %s is merged", ev.Reply.Participant, ev.Reply.Tenant, ev.Reply.Step)
}

// checkCommands holds what is sent against the former attempts (S1.1, S1.4), the order (S2.3, S2.4) and the dead
// letters (I-13).
func (w *world) checkCommands(h *history, def *saga.Definition, j *judged, must mustFunc) {
	for _, c := range j.effects.Commands {
		op := slot{c.Step, c.Phase}
		last := h.last[op]
		is := operation(def, &j.after, c.Step, c.Phase)
		must(c.Attempt == last.Attempt+1, "S1.1", "%s/%s attempt %d follows %d", c.Step, c.Phase, c.Attempt, last.Attempt)
		if c.Verb == saga.VerbReserve {
			edit, _ := j.event.(saga.EditRequested)
			must((slot{edit.Step, edit.Phase}) == op && is.State == saga.OperationDead, "S1.5", "%s/%s is reserved, and is %s", c.Step, c.Phase, is.State)
			must(c.Revision == last.Revision && c.ContentSHA256 == last.ContentSHA256, "S1.5", "%s/%s is reserved in another revision than the last", c.Step, c.Phase)
			last.Attempt = c.Attempt
			h.last[op] = last
			continue
		}
		must(is.State == saga.OperationSent, "S2.12", "%s/%s is sent, and is %s by the same event", c.Step, c.Phase, is.State)
		if c.Kind == saga.KindPivot && c.Phase == saga.PhaseTry && !is.Replaying {
			fence := operation(def, &j.before, c.Step, saga.PhaseCancel)
			must(!fence.Begun(), "S2.6", "%s is sent again beside its fence", c.Step)
		}
		must(c.ContentSHA256 == saga.ContentSHA256(c.Action, c.Body), "S1.4", "%s/%s has another body's hash", c.Step, c.Phase)
		if last.Attempt > 0 {
			reserved := w.participant(c.Participant).db.row(rowKey{c.Transaction, c.Step}).Recorded(c.Phase).MinRevision
			must(bytes.Equal(c.Body, last.Body) && c.Revision == last.Revision || c.Revision == last.Revision+1 && c.Revision <= reserved, "S1.4",
				"%s/%s changes between attempts, from revision %d to %d, of which %d is reserved", c.Step, c.Phase, last.Revision, c.Revision, reserved)
			was := operation(def, &j.before, c.Step, c.Phase).State
			replay, _ := j.event.(saga.ReplayRequested)
			must(was == saga.OperationWaiting || was == saga.OperationDead && (slot{replay.Step, replay.Phase}) == op, "I-13",
				"%s/%s is sent again although it was %s", c.Step, c.Phase, was)
		} else {
			checkOrder(h, def, &j.after, c, must)
		}
		forward := c.Phase == saga.PhaseTry && c.Kind != saga.KindRetriable
		must(forward || c.Deadline.IsZero(), "S2.7", "%s/%s carries a deadline", c.Step, c.Phase)
		h.last[op] = c
	}
}

// checkOrder holds the first sending of an operation against the definition.
func checkOrder(h *history, def *saga.Definition, tx *saga.Transaction, c saga.Command, must mustFunc) {
	i := def.StepIndex(c.Step)
	for k, s := range def.Steps {
		other := &tx.Steps[k]
		done := other.Try.State == saga.OperationDone
		switch {
		case c.Phase == saga.PhaseTry && c.Kind == saga.KindPivot:
			must(!cancellable(s.Kind) || done, "S2.3", "the pivot starts before %s", s.Name)
		case c.Phase == saga.PhaseCancel && c.Kind == saga.KindPivot:
			must(tx.Status == saga.StatusRunning, "S2.6", "a fence is sent while %s", tx.Status)
		case c.Phase == saga.PhaseCancel:
			must(h.toCancel[c.Step], "S2.4", "%s is cancelled, and not in the cancel set", c.Step)
			must(!slices.Contains(def.Predecessors(k), i) || !h.toCancel[s.Name] || ended(&other.Settle), "S2.4",
				"%s is cancelled before %s", c.Step, s.Name)
		case c.Phase == saga.PhaseConfirm, c.Kind == saga.KindRetriable:
			must(!cancellable(s.Kind) && s.Kind != saga.KindPivot || done, "I-4", "%s goes on before the try of %s", c.Step, s.Name)
			if slices.Contains(def.Predecessors(i), k) {
				must(s.Kind != saga.KindTCC || ended(&other.Settle), "S2.3", "%s goes before %s", c.Step, s.Name)
				must(s.Kind != saga.KindRetriable || ended(&other.Try), "S2.3", "%s goes before %s", c.Step, s.Name)
			}
		default:
			must(!slices.Contains(def.Predecessors(i), k) || done, "S2.2", "%s starts before %s", c.Step, s.Name)
		}
	}
}

func ended(op *saga.Operation) bool {
	return op.State == saga.OperationDone || op.State == saga.OperationGivenUp
}

// operation returns the step's operation in the phase; the zero Operation if it was never sent.
func operation(def *saga.Definition, tx *saga.Transaction, step string, phase saga.Phase) saga.Operation {
	i := def.StepIndex(step)
	if i < 0 || i >= len(tx.Steps) {
		return saga.Operation{}
	}
	s := &tx.Steps[i]
	switch {
	case phase == saga.PhaseTry:
		return s.Try
	case s.Settle.Phase == phase:
		return s.Settle
	}
	return saga.Operation{}
}

// lettersFrom lists from where a dead letter may come to each state (D2).
var lettersFrom = map[saga.DeadLetterStatus][]saga.DeadLetterStatus{
	saga.DeadLetterOpen:      {"", saga.DeadLetterReplaying},
	saga.DeadLetterReplaying: {saga.DeadLetterOpen},
	saga.DeadLetterDiscarded: {saga.DeadLetterOpen},
	saga.DeadLetterClosed:    {saga.DeadLetterOpen, saga.DeadLetterReplaying},
	saga.DeadLetterObsolete:  {saga.DeadLetterOpen, saga.DeadLetterReplaying},
}

// checkLetters follows each dead letter through its states (D2) and holds them against the operations (I-15).
func checkLetters(h *history, def *saga.Definition, j *judged, must mustFunc) {
	for _, d := range j.effects.DeadLetters {
		op := slot{d.Step, d.Phase}
		was := h.letters[op]
		must(slices.Contains(lettersFrom[d.To], was), "D2", "the dead letter of %s/%s goes from %q to %s", d.Step, d.Phase, was, d.To)
		h.letters[op] = d.To
		if d.To == saga.DeadLetterOpen {
			h.doubts[op] = d.Outcome == saga.OutcomeUnknown || d.Cause == saga.FaultConflict
		}
	}
	for i := range j.after.Steps {
		for _, op := range []*saga.Operation{&j.after.Steps[i].Try, &j.after.Steps[i].Settle} {
			name := def.Steps[i].Name
			status := h.letters[slot{name, op.Phase}]
			must((op.State == saga.OperationDead) == (status == saga.DeadLetterOpen), "D1",
				"%s/%s is %s, its dead letter %q", name, op.Phase, op.State, status)
			must(op.Replaying == (status == saga.DeadLetterReplaying), "D2",
				"%s/%s: replaying is %t, its dead letter %q", name, op.Phase, op.Replaying, status)
		}
	}
}
