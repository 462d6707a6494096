package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// resumeWithin is how long what was paused may wait after a resume, with room for a slow machine.
const resumeWithin = 30 * time.Second

func (w *world) pause(c *coordinator.Coordinator, what flow.Pause) coordinator.Paused {
	w.t.Helper()
	p, created, err := c.Admin().Pause(w.ctx(10*time.Second), coordinator.PauseParams{Actor: "ann", What: what, Reason: "maintenance"})
	if err != nil || !created || p.Pause != what || p.Actor != "ann" || p.Reason != "maintenance" || p.Automatic {
		w.t.Fatalf("%+v, created %v, %v", p, created, err)
	}
	return p
}

func (w *world) resume(c *coordinator.Coordinator, p coordinator.Paused) {
	w.t.Helper()
	got, err := c.Admin().Resume(w.ctx(10*time.Second), coordinator.ResumeParams{Actor: "bob", ID: p.ID, Reason: "it is over"})
	if err != nil || got.ID != p.ID {
		w.t.Fatalf("%+v, %v", got, err)
	}
}

// operation returns the first step's try, or nil.
func (w *world) operation(c *coordinator.Coordinator, id saga.ID) *saga.Operation {
	w.t.Helper()
	v := w.get(c, id)
	if len(v.Steps) == 0 || len(v.Steps[0].Operations) == 0 {
		return nil
	}
	return &v.Steps[0].Operations[0]
}

func (w *world) expectPaused(c *coordinator.Coordinator, id saga.ID) {
	w.t.Helper()
	if op := w.operation(c, id); op == nil || op.State != saga.OperationWaiting || op.Wait != saga.WaitPause || op.Attempt != 0 {
		w.t.Errorf("transaction %s is not paused: %+v", id, op)
	}
}

// one is a definition of one step.
func one(name, participant, action string) *saga.Definition {
	return saga.Define(name).Saga("s1", participant, action).MustBuild()
}

// What is in the scope of a pause gets nothing, all else goes on, and a resume lets it go within seconds (E2).
func TestPauseHoldsItsScope(t *testing.T) {
	t.Parallel()
	for scope, c := range map[flow.Scope]struct {
		what flow.Pause
		held []string // of the four below
	}{
		flow.ScopeAll:         {flow.Pause{Scope: flow.ScopeAll}, []string{"a", "b", "c", "d"}},
		flow.ScopeDefinition:  {flow.Pause{Scope: flow.ScopeDefinition, Definition: "d"}, []string{"d"}},
		flow.ScopeParticipant: {flow.Pause{Scope: flow.ScopeParticipant, Participant: "stock"}, []string{"a", "b", "d"}},
		flow.ScopeAction:      {flow.Pause{Scope: flow.ScopeAction, Participant: "stock", Action: "ship"}, []string{"b"}},
	} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			engine, _ := w.coordinator()
			w.participant("stock", nil)
			w.participant("cash", nil)
			pause := w.pause(engine, c.what)
			ids := map[string]saga.ID{}
			for name, def := range map[string]*saga.Definition{
				"a": one("a", "stock", "reserve"), "b": one("b", "stock", "ship"), "c": one("c", "cash", "ship"), "d": one("d", "stock", "reserve"),
			} {
				ids[name] = w.submit(engine, def, "")
			}
			for name, id := range ids {
				if slices.Contains(c.held, name) {
					w.expectPaused(engine, id)
				} else if v := w.wait(engine, id); v.Status != saga.StatusCommitted {
					t.Errorf("%s is %s", name, v.Status)
				}
			}
			w.expectPaused(engine, ids[c.held[0]]) // still
			w.resume(engine, pause)
			began := time.Now()
			for _, name := range c.held {
				if v := w.wait(engine, ids[name]); v.Status != saga.StatusCommitted {
					t.Errorf("%s is %s", name, v.Status)
				}
			}
			if took := time.Since(began); took > resumeWithin {
				t.Errorf("what was paused took %s after the resume", took)
			}
		})
	}
}

// A pause is seen by another coordinator within seconds, and by one that starts with its first command; a resume at one
// lets the transactions of all go.
func TestPauseIsOfAllCoordinators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, stop := w.coordinator()
	second, _ := w.coordinator()
	w.participant("stock", nil)
	pause := w.pause(first, flow.Pause{Scope: flow.ScopeParticipant, Participant: "stock"})
	began := time.Now()
	var held saga.ID
	w.until("the second coordinator pauses too", func() bool {
		held = w.submit(second, one("order", "stock", "reserve"), "")
		op := w.operation(second, held)
		return op != nil && op.Wait == saga.WaitPause
	})
	if took := time.Since(began); took > resumeWithin {
		t.Errorf("the second coordinator saw the pause after %s", took)
	}
	stop()
	meet := w.hold(`LOCK TABLE coordinators IN ACCESS EXCLUSIVE MODE`) // what it reads every second does not help it
	third, _ := w.coordinator(noTimers)
	w.until("the third coordinator runs", func() bool { return len(w.list(third)) > 0 })
	fresh := w.submit(third, one("order", "stock", "reserve"), "")
	w.expectPaused(third, fresh)
	w.expectPaused(second, held)
	meet()
	w.resume(third, pause)
	for _, id := range []saga.ID{held, fresh} {
		if v := w.wait(second, id); v.Status != saga.StatusCommitted {
			t.Errorf("it is %s", v.Status)
		}
	}
}

func (w *world) list(c *coordinator.Coordinator) []coordinator.View {
	w.t.Helper()
	list, err := c.List(w.ctx(10*time.Second), caller, coordinator.Filter{Limit: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// While something is paused replies are merged and deadlines go on: what was never sent is cancelled without sending
// anything, what was sent gets its cancel after the resume.
func TestPauseStopsNoDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	waits := make(chan struct{})
	p, _ := w.participant("stock", func(cmd saga.Command) saga.Ran {
		if cmd.Action == "slow" && cmd.Phase == saga.PhaseTry {
			<-waits
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	})
	release := sync.OnceFunc(func() { close(waits) })
	t.Cleanup(release)
	short := func(action string) *saga.Definition {
		return saga.Define("order").Timeout(8*time.Second).Saga("s1", "stock", action).Saga("s2", "stock", action).MustBuild()
	}
	sent := w.submit(c, short("slow"), "")
	w.until("the try of s1 is sent", func() bool { return w.operation(c, sent).Attempt == 1 })
	pause := w.pause(c, flow.Pause{Scope: flow.ScopeParticipant, Participant: "stock"})
	never := w.submit(c, short("reserve"), "")
	w.expectPaused(c, never)
	release()
	w.until("the reply is merged", func() bool { return w.operation(c, sent).State == saga.OperationDone })
	if v := w.wait(c, never); v.Status != saga.StatusCancelled || v.Cause.Why != saga.WhyDeadline {
		t.Errorf("what was never sent is %s (%s)", v.Status, v.Cause.Why)
	}
	p.expectEffects(never, "s1", 0, 0, saga.PhaseCancel)
	w.until("the deadline decides", func() bool { return w.get(c, sent).Status == saga.StatusCancelling })
	if got := p.ran(sent, "s1", saga.PhaseCancel); got != 0 {
		t.Errorf("a cancel was sent to what is paused")
	}
	w.resume(c, pause)
	if v := w.wait(c, sent); v.Status != saga.StatusCancelled {
		t.Errorf("what was sent is %s", v.Status)
	}
	p.expectEffects(sent, "s1", 1, 1, saga.PhaseCancel)
}

// Pausing twice changes nothing, resuming twice is not found, and what was done is in the audit with its reason.
func TestPauseIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	what := flow.Pause{Scope: flow.ScopeAction, Participant: "stock", Action: "reserve"}
	first := w.pause(c, what)
	again, created, err := c.Admin().Pause(w.ctx(10*time.Second), coordinator.PauseParams{Actor: "eve", What: what, Reason: "another"})
	if err != nil || created || again != first {
		t.Errorf("again: %+v, created %v, %v", again, created, err)
	}
	if list, err := c.Admin().Pauses(w.ctx(10 * time.Second)); err != nil || len(list) != 1 || list[0] != first {
		t.Errorf("list: %+v, %v", list, err)
	}
	w.resume(c, first)
	for range 2 {
		_, err := c.Admin().Resume(w.ctx(10*time.Second), coordinator.ResumeParams{Actor: "eve", ID: first.ID, Reason: "late"})
		if !errors.Is(err, coordinator.ErrNotFound) {
			t.Errorf("resumed twice: %v", err)
		}
	}
	audit, err := dlq.ListAudit(w.ctx(10*time.Second), w.pool, dlq.AuditFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range audit {
		got = append(got, fmt.Sprintf("%s %s %s: %s, %v", e.Actor, e.Action, strings.Replace(e.Object, first.ID.String(), "ID", 1), e.Reason, e.Allowed))
	}
	want := []string{
		"eve resume ID: late, false", "eve resume ID: late, false",
		"bob resume action reserve of participant stock: it is over, true",
		"ann pause action reserve of participant stock: maintenance, true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has\n%q, want\n%q", got, want)
	}
}

func TestPauseRefusesNonsense(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	for field, what := range map[string]flow.Pause{
		"scope":       {},
		"definition":  {Scope: flow.ScopeDefinition},
		"participant": {Scope: flow.ScopeAction, Action: "reserve"},
		"action":      {Scope: flow.ScopeParticipant, Participant: "stock", Action: "reserve"},
	} {
		_, _, err := c.Admin().Pause(w.ctx(10*time.Second), coordinator.PauseParams{Actor: "ann", What: what, Reason: "x"})
		var invalid *saga.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", what, err)
		}
	}
	for n := range coordinator.PausesMax {
		w.pause(c, flow.Pause{Scope: flow.ScopeParticipant, Participant: fmt.Sprintf("p-%d", n)})
	}
	_, _, err := c.Admin().Pause(w.ctx(10*time.Second), coordinator.PauseParams{Actor: "ann", What: flow.Pause{Scope: flow.ScopeAll}, Reason: "x"})
	var invalid *saga.InvalidError
	if !errors.As(err, &invalid) || invalid.Code != coordinator.CodeTooManyPauses {
		t.Errorf("one too many: %v", err)
	}
	if _, created, err := c.Admin().Pause(w.ctx(10*time.Second), coordinator.PauseParams{Actor: "ann", What: flow.Pause{Scope: flow.ScopeParticipant, Participant: "p-1"}, Reason: "x"}); err != nil || created {
		t.Errorf("one that is there: created %v, %v", created, err)
	}
	if _, err := c.Admin().Resume(w.ctx(10*time.Second), coordinator.ResumeParams{Actor: "ann", ID: uuid.New(), Reason: "x"}); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
}

// An action that fails again and again for one cause is paused by the coordinator, and only it (E2).
func TestAutomaticPause(t *testing.T) {
	t.Parallel()
	const most = 5
	w := newWorld(t)
	c, _ := w.coordinator(func(cfg *coordinator.Config) { cfg.AutoPause = most })
	p, _ := w.participant("stock", func(cmd saga.Command) saga.Ran {
		if cmd.Action == "broken" {
			return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: "no column 4711"}
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	})
	pauses := func() []coordinator.Paused {
		list, err := c.Admin().Pauses(w.ctx(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	broken := func() saga.ID { return w.submit(c, one("order", "stock", "broken"), "") }
	for range most {
		broken()
	}
	w.until("all are dead letters", func() bool { return len(w.letters(c, dlq.Filter{})) == most })
	// Whatever goes on: it is not paused by as many as may be. Two looks of the coordinator are between.
	w.until("the coordinator has looked", w.looks(2))
	if list := pauses(); len(list) != 0 {
		t.Fatalf("%d dead letters: %+v", most, list)
	}
	broken()
	w.until("it is paused", func() bool { return len(pauses()) == 1 })
	pause := pauses()[0]
	letters := w.letters(c, dlq.Filter{})
	wanted := fmt.Sprintf("%d dead letters within a minute with fingerprint %s (try, handler_fault: no column 4711)", most+1, letters[0].Fingerprint)
	if pause.Pause != (flow.Pause{Scope: flow.ScopeAction, Participant: "stock", Action: "broken"}) || !pause.Automatic ||
		pause.Actor != "coordinator" || pause.Reason != wanted {
		t.Errorf("got %+v, want reason %s", pause, wanted)
	}
	held := broken()
	w.expectPaused(c, held)
	if v := w.wait(c, w.submit(c, one("order", "stock", "works"), "")); v.Status != saga.StatusCommitted {
		t.Errorf("another action is %s", v.Status)
	}
	p.mu.Lock()
	p.handle = nil // repaired
	p.mu.Unlock()
	w.resume(c, pause)
	if v := w.wait(c, held); v.Status != saga.StatusCommitted {
		t.Errorf("after the resume it is %s", v.Status)
	}
}

// looks returns a condition that holds once a coordinator has told so many times more that it runs.
func (w *world) looks(times int) func() bool {
	seen := map[time.Time]bool{}
	return func() bool {
		var at time.Time
		if err := w.pool.QueryRow(w.ctx(10*time.Second), `SELECT max(seen_at) FROM coordinators`).Scan(&at); err != nil {
			w.t.Fatal(err)
		}
		seen[at] = true
		return len(seen) > times+1
	}
}

// What is known of participants: what waits, for what, and what is paused.
func TestParticipants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	if v := w.wait(c, w.submit(c, one("order", "stock", "reserve"), "")); v.Status != saga.StatusCommitted {
		t.Fatalf("it is %s", v.Status)
	}
	w.pause(c, flow.Pause{Scope: flow.ScopeAction, Participant: "cash", Action: "pay"})
	const held = 3
	for range held {
		w.submit(c, one("order", "cash", "pay"), "")
	}
	w.submit(c, one("order", "silent", "work"), "")
	states, err := c.Admin().Participants(w.ctx(10 * time.Second))
	if err != nil || states.Partial || len(states.Participants) != 3 {
		t.Fatalf("%+v, %v", states, err)
	}
	cash, silent, stock := states.Participants[0], states.Participants[1], states.Participants[2]
	if cash.Participant != "cash" || len(cash.Waiting) != 1 || cash.Waiting[saga.WaitPause] != held || len(cash.Paused) != 1 || cash.InFlight != 0 {
		t.Errorf("cash: %+v", cash)
	}
	if silent.Participant != "silent" || silent.InFlight != 1 || len(silent.Waiting) != 0 || silent.Breaker != flow.BreakerClosed || len(silent.Paused) != 0 {
		t.Errorf("silent: %+v", silent)
	}
	if stock.Participant != "stock" || stock.InFlight != 0 || stock.Ceiling != flow.DefaultCeilingMin || stock.Draining {
		t.Errorf("stock: %+v", stock)
	}
}
