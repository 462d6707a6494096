package saga_test

import (
	"flag"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
)

// checks runs a property on so many cases, unless the command line says how many (-rapid.checks), and returns
// the number.
func checks(t *testing.T, cases int, property func(*rapid.T)) int {
	t.Helper()
	count := flag.Lookup("rapid.checks")
	former := count.Value.String()
	if former == count.DefValue {
		if err := flag.Set(count.Name, strconv.Itoa(cases)); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flag.Set(count.Name, former) }()
	}
	n, err := strconv.Atoi(count.Value.String())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, property)
	return n
}

// TestInvariants drives random transactions through a network that loses, repeats and reorders, participants
// that fail in every way, impatient clients and operators. Then faults stop, and every transaction ends (I-11).
// Every event is checked (I-1, I-4, I-7, I-13, I-15, S1.1, S1.4, S2.3, S2.4, S2.6, S2.7, D2), every end too (I-2).
func TestInvariants(t *testing.T) {
	seen := map[string]int{}
	cases := checks(t, 10_000, func(t *rapid.T) {
		w := newWorld(t)
		w.seen = func(what string) { seen[what]++ }
		t.Repeat(map[string]func(*rapid.T){
			"deliver":           w.actDeliver,
			"deliver and reply": w.actDeliverAndReply,
			"reply":             w.actReply,
			"inquire":           w.actInquire,
			"wake when due":     func(*rapid.T) { w.actWakeWhenDue() },
			"wake":              w.actWake,
			"cancel":            w.actCancel,
			"operator":          w.actOperator,
		})
		w.drain()
		w.checkEnd()
		w.seen(string(w.tx.Status))
	})
	// A property that never meets the interesting cases proves nothing.
	for _, what := range []string{
		"committed", "cancelled", "resolved", "fence done", "fence contradicts",
		"not merged: late", "not merged: duplicate", "not merged: old_attempt", "not merged: not_open", "dead letter open",
		"dead letter replaying", "dead letter closed", "dead letter obsolete", "dead letter discarded", "parked",
	} {
		t.Logf("%-24s %7d", what, seen[what])
		if seen[what] < cases/5000 {
			t.Errorf("%s: %d times in %d cases", what, seen[what], cases)
		}
	}
}

// TestEndsByItself: nobody wakes a transaction but at Effects.Wake, the network loses some messages at first, and
// no person does anything. Within a bound it has ended, or only dead letters are left; replaying them ends it (I-11).
func TestEndsByItself(t *testing.T) {
	checks(t, 3_000, func(t *rapid.T) {
		w := newWorld(t)
		losses := rapid.IntRange(0, 10).Draw(t, "losses")
		rounds := 0
		for ; w.pending < len(w.commands) || !w.wake.IsZero(); rounds++ {
			w.must(rounds < 1000, "I-11: still %s after %d rounds", w.tx.Status, rounds)
			switch {
			case w.pending == len(w.commands):
				w.actWakeWhenDue()
				continue
			case losses > 0 && rapid.Bool().Draw(t, "lost"):
				losses--
			default:
				w.reply(w.deliver(w.commands[w.pending], w.moods.Draw(t, "mood")))
			}
			w.pending++
		}
		w.must(w.tx.Status.Terminal() || w.tx.Suspended(), "I-11: %s, and nothing is due", w.tx.Status)
		w.drain()
		w.checkEnd()
	})
}

func (w *world) anyCommand(t *rapid.T) (saga.Command, bool) {
	if len(w.commands) == 0 {
		return saga.Command{}, false
	}
	return w.commands[len(w.commands)-1-rapid.IntRange(0, len(w.commands)-1).Draw(t, "command from the end")], true
}

// actDeliver delivers any command that was ever sent; the reply stays in the network.
func (w *world) actDeliver(t *rapid.T) {
	if c, ok := w.anyCommand(t); ok {
		w.deliver(c, w.moods.Draw(t, "mood"))
	}
}

func (w *world) actDeliverAndReply(t *rapid.T) {
	if c, ok := w.anyCommand(t); ok {
		w.reply(w.deliver(c, w.moods.Draw(t, "mood")))
	}
}

// actReply brings any reply that was ever made.
func (w *world) actReply(t *rapid.T) {
	if len(w.replies) > 0 {
		w.reply(w.replies[rapid.IntRange(0, len(w.replies)-1).Draw(t, "reply")])
	}
}

// actInquire brings the answer to an inquiry: the row's present state (S2.11).
func (w *world) actInquire(t *rapid.T) {
	c, ok := w.anyCommand(t)
	if !ok {
		return
	}
	row := w.rows[c.Step]
	w.reply(saga.Reply{
		Verb: saga.VerbInquire, Step: c.Step, Phase: c.Phase, Participant: c.Participant,
		Attempt: c.Attempt, Revision: c.Revision, Outcome: saga.OutcomeState, State: row.state, Code: row.code, Result: row.result,
	})
}

func (w *world) actWakeWhenDue() {
	if !w.wake.IsZero() {
		w.now = later(w.now, w.wake)
	}
	w.step(saga.Woken{Heard: w.heard})
}

func (w *world) actWake(t *rapid.T) {
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 10_000).Draw(t, "ms")) * time.Millisecond)
	w.step(saga.Woken{Heard: w.heard})
}

// actCancel is rare, or hardly any transaction would commit.
func (w *world) actCancel(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
		w.step(saga.CancelRequested{})
	}
}

func (w *world) actOperator(t *rapid.T) {
	open := w.deadLetters()
	if len(open) == 0 {
		w.step(saga.ReplayRequested{Step: w.def.Steps[0].Name, Phase: saga.PhaseTry})
		w.step(saga.DiscardRequested{Step: w.def.Steps[0].Name, Phase: saga.PhaseCancel})
		w.step(saga.ResolveRequested{})
		return
	}
	op := rapid.SampledFrom(open).Draw(t, "dead letter")
	switch rapid.SampledFrom([]string{"replay", "replay", "replay", "discard", "resolve"}).Draw(t, "wish") {
	case "replay":
		w.step(saga.ReplayRequested{Step: op.step, Phase: op.phase})
	case "discard":
		w.step(saga.DiscardRequested{Step: op.step, Phase: op.phase})
	case "resolve":
		w.step(saga.ResolveRequested{})
	}
}

// drain lets faults stop: what is sent arrives and is executed, time moves only to the next wake, operators
// replay when nothing else is due. Every transaction must end (I-11).
func (w *world) drain() {
	w.pending = len(w.commands)
	for range 500 {
		if w.tx.Status.Terminal() {
			return
		}
		switch open := w.deadLetters(); {
		case w.pending < len(w.commands):
			w.pending++
			w.reply(w.deliver(w.commands[w.pending-1], moodDone))
		case !w.wake.IsZero() && len(open) == 0:
			w.actWakeWhenDue()
		default:
			w.step(saga.ReplayRequested{Step: open[0].step, Phase: open[0].phase})
		}
	}
	w.must(false, "I-11: still %s, %d dead letters, after faults stopped", w.tx.Status, len(w.deadLetters()))
}

// checkEnd delivers once more everything that was ever sent, then looks at the participants (I-1, I-2, I-3).
func (w *world) checkEnd() {
	for _, c := range w.commands {
		w.deliver(c, moodDone)
	}
	confirmed, cancelled := false, false
	for i, s := range w.def.Steps {
		row := w.rows[s.Name]
		none := row.state == saga.BarrierAbsent || row.state == saga.BarrierRefused || row.state == saga.BarrierNullCancelled
		settle := w.tx.Steps[i].Settle
		switch w.tx.Status {
		case saga.StatusCommitted:
			want := saga.BarrierTried
			if s.Kind == saga.KindTCC {
				want = saga.BarrierConfirmed
			}
			w.must(row.state == want, "I-2: committed, but %s is %s", s.Name, row.state)
		case saga.StatusCancelled:
			w.must(none || row.state == saga.BarrierCancelled, "I-2: cancelled, but %s is %s", s.Name, row.state)
			w.must(s.Kind != saga.KindPivot || row.executed == 0, "I-2: cancelled, but the pivot executed")
			w.must(s.Kind == saga.KindPivot || w.toCancel[s.Name] == (settle.State == saga.OperationDone),
				"S2.4: %s is in the cancel set: %t, its cancel %q", s.Name, w.toCancel[s.Name], settle.State)
		default:
		}
		w.must(row.executed <= 1, "I-3: %s executed %d times", s.Name, row.executed)
		confirmed = confirmed || row.state == saga.BarrierConfirmed
		cancelled = cancelled || row.state == saga.BarrierCancelled || row.state == saga.BarrierNullCancelled
	}
	w.must(!confirmed || !cancelled, "I-1: one step is confirmed and another cancelled")
}
