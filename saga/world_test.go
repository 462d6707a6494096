package saga_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
)

// world is one transaction, its participants and a network that may lose, repeat and reorder everything: what
// was ever sent may be delivered at any time, any number of times.
type world struct {
	t        *rapid.T
	def      *saga.Definition
	tx       saga.Transaction
	wake     time.Time
	now      time.Time
	steps    uint64                         // events so far: the seed of the next one's randomness
	rows     map[string]*modelRow           // by step
	commands []saga.Command                 // all that were ever sent
	replies  []saga.Reply                   // all that were ever made
	pending  int                            // commands[pending:] were sent since the network became reliable
	last     map[slot]saga.Command          // the last command of each operation
	letters  map[slot]saga.DeadLetterStatus // dead letters
	toCancel map[string]bool                // the cancel set, once cancel is decided
	heard    map[string]saga.Heard          // last replies of each participant
	moods    *rapid.Generator[mood]
	seen     func(what string)   // counts what the test met
	behind   func(a, b int) bool // whether step a comes after step b, directly or not
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, def: drawDefinition(t), now: begin, rows: map[string]*modelRow{}, last: map[slot]saga.Command{},
		letters: map[slot]saga.DeadLetterStatus{}, heard: map[string]saga.Heard{}, seen: func(string) {},
	}
	for _, s := range w.def.Steps {
		w.rows[s.Name] = &modelRow{state: saga.BarrierAbsent}
	}
	w.behind, w.moods = transitive(w.def), drawMoods(t)
	w.tx = newTransaction(w.def)
	w.tx.Deadline = time.Time{}
	if seconds := rapid.IntRange(0, 60).Draw(t, "deadline"); seconds > 0 {
		w.tx.Deadline = begin.Add(time.Duration(seconds) * time.Second)
	}
	if rapid.IntRange(0, 9).Draw(t, "delayed start") == 0 {
		w.tx.StartAt = begin.Add(5 * time.Second)
	}
	w.step(saga.Submitted{})
	return w
}

// transitive returns the closure of after.
func transitive(def *saga.Definition) func(a, b int) bool {
	n := len(def.Steps)
	after := make([][]bool, n)
	for i := range n {
		after[i] = make([]bool, n)
		for _, j := range def.Predecessors(i) {
			after[i][j] = true
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				after[i][j] = after[i][j] || after[i][k] && after[k][j]
			}
		}
	}
	return func(a, b int) bool { return after[a][b] }
}

// step puts an event to the transition function and holds its answer against the rules.
func (w *world) step(ev saga.Event) {
	w.steps++
	random := func() saga.Rand { return rand.New(rand.NewPCG(w.steps, 7)) }
	before := copyTransaction(w.tx)
	next, effects, err := saga.Step(w.def, w.tx, ev, w.now, random())
	w.must(reflect.DeepEqual(w.tx, before), "Step changes its input by %T", ev)
	if w.steps%4 == 0 { // comparing takes longer than all the rest
		again, effectsAgain, errAgain := saga.Step(w.def, w.tx, ev, w.now, random())
		w.must(reflect.DeepEqual(next, again) && reflect.DeepEqual(effects, effectsAgain) && reflect.DeepEqual(err, errAgain),
			"Step is not deterministic for %T", ev)
	}
	if err != nil {
		w.refused(ev, next, err)
		return
	}
	next, effects = saga.Park(w.def, next, effects, w, w.now)
	w.checkWrite(before, next, effects)
	w.tx, w.wake = next, effects.Wake
	if effects.Changed {
		w.checkDecision(before)
		w.checkCommands(before, ev, effects)
		w.checkDeadLetters(effects)
	}
	w.checkWake()
	if w.steps%8 == 0 {
		checkExplanation(w.def, w.tx, w.now, w.must)
	}
	w.count(ev, effects)
	w.commands = append(w.commands, effects.Commands...)
}

// Ask is a gate that holds some attempts for a while, for no reason (R1 to R4).
func (w *world) Ask(saga.SendRequest, time.Time) (saga.Wait, time.Time) {
	if rand.New(rand.NewPCG(w.steps, 11)).IntN(4) > 0 {
		return saga.WaitNone, time.Time{}
	}
	w.seen("parked")
	return saga.WaitBreaker, w.now.Add(time.Duration(w.steps%5) * time.Second)
}

// count notes what happened, so that the test can tell that it met it.
func (w *world) count(ev saga.Event, e saga.Effects) {
	r, _ := ev.(saga.Replied)
	fence := r.Reply.Phase == saga.PhaseCancel && w.def.Steps[w.def.StepIndex(r.Reply.Step)].Kind == saga.KindPivot
	if fence && e.Changed && r.Reply.Outcome == saga.OutcomeDone {
		w.seen("fence done")
	}
	if fence && e.Changed && r.Reply.Code == saga.FaultContradicts {
		w.seen("fence contradicts")
	}
	w.must(len(e.Incidents) == 0, "S2.10: an incident, although all participants obey: %+v", e.Incidents)
	for _, d := range e.DeadLetters {
		w.seen("dead letter " + string(d.To))
	}
	w.seen("not merged: " + string(e.Unexpected))
}

// refused checks an error: typed, only for wishes of people, and nothing has changed.
func (w *world) refused(ev saga.Event, next saga.Transaction, err error) {
	var state *saga.StateError
	w.must(errors.As(err, &state), "%v is no StateError", err)
	switch ev.(type) {
	case saga.CancelRequested, saga.ReplayRequested, saga.DiscardRequested, saga.ResolveRequested:
	default:
		w.must(false, "%T is refused: %v", ev, err)
	}
	w.must(reflect.DeepEqual(next, w.tx), "a refused event changes the transaction")
}

// deliver hands a command to its participant and returns its reply.
func (w *world) deliver(c saga.Command, m mood) saga.Reply {
	r, broken := w.rows[c.Step].handle(c, m, w.now)
	w.must(broken == "", "%s (%s/%s, %s)", broken, c.Step, c.Phase, w.tx.Status)
	w.replies = append(w.replies, r)
	return r
}

// reply brings a reply to the coordinator.
func (w *world) reply(r saga.Reply) {
	w.step(saga.Replied{Reply: r})
	w.heard[r.Participant] = w.heard[r.Participant].After(r.Key(), w.now)
}

func (w *world) must(ok bool, format string, args ...any) {
	if !ok {
		w.t.Fatalf(format, args...)
	}
}

// deadLetters returns the operations that are open dead letters, in a fixed order.
func (w *world) deadLetters() []slot {
	var open []slot
	for i, s := range w.tx.Steps {
		for _, op := range []saga.Operation{s.Try, s.Settle} {
			if op.State == saga.OperationDead {
				open = append(open, slot{w.def.Steps[i].Name, op.Phase})
			}
		}
	}
	return open
}

func copyTransaction(tx saga.Transaction) saga.Transaction {
	tx.Inputs = slices.Clone(tx.Inputs)
	for i := range tx.Inputs {
		tx.Inputs[i].Data = slices.Clone(tx.Inputs[i].Data)
	}
	tx.Steps = slices.Clone(tx.Steps)
	for i := range tx.Steps {
		s := &tx.Steps[i]
		s.Try.Result.Data = slices.Clone(s.Try.Result.Data)
		s.Settle.Result.Data = slices.Clone(s.Settle.Result.Data)
	}
	return tx
}
