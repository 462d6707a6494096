package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func (w *world) deliver(c *coordinator.Coordinator, replies ...saga.Reply) {
	w.t.Helper()
	for _, r := range replies {
		if err := c.Deliver(w.ctx(10*time.Second), r); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) discard(c *coordinator.Coordinator, letter dlq.DeadLetter) (*coordinator.View, error) {
	return c.Admin().Discard(w.ctx(15*time.Second), coordinator.LetterParams{
		Actor: "ann", DeadLetter: letter.ID, Version: letter.Version, Reason: "cannot be repaired",
	})
}

func (w *world) resolve(c *coordinator.Coordinator, id saga.ID, version int64) (coordinator.View, error) {
	return c.Admin().Resolve(w.ctx(15*time.Second), coordinator.ResolveParams{
		Actor: "ann", Transaction: id, Version: version, Reason: "cannot be repaired",
	})
}

// stuck starts a transaction of independent steps that is being cancelled, and whose cancel of s1 is a dead letter.
func (w *world) stuck(c *coordinator.Coordinator, steps int) (saga.ID, dlq.DeadLetter) {
	w.t.Helper()
	id := w.submit(c, define(saga.KindSaga, steps, saga.Root()), "")
	if _, err := c.Cancel(w.ctx(10*time.Second), caller, id, ""); err != nil {
		w.t.Fatal(err)
	}
	w.deliver(c, fault(done(id, "s1", saga.PhaseCancel), saga.FaultHandler))
	return id, w.letters(c, filterOf(id))[0]
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var state *saga.StateError
	if !errors.As(err, &state) || state.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// A cancel that is given up is never done: the transaction ends as resolved, the audit names whose effect is not
// known, and a reply that comes later goes to the audit only (S2.13).
func TestDiscardOfACancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id, letter := w.stuck(c, 1)
	v, err := w.discard(c, letter)
	if err != nil || v == nil || v.Status != saga.StatusResolved || v.Result != saga.ResultUnknown || v.Suspended ||
		v.Steps[0].Operations[1].State != saga.OperationGivenUp {
		t.Fatalf("got %+v, %v", v, err)
	}
	if l := w.letters(c, filterOf(id))[0]; l.Status != saga.DeadLetterDiscarded || l.Version != letter.Version+1 {
		t.Errorf("the dead letter is %s at version %d", l.Status, l.Version)
	}
	if _, err := w.discard(c, letter); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("second click: %v", err)
	}
	letter.Version = 0
	_, err = w.discard(c, letter)
	wantCode(t, "second click without a version", err, saga.CodeObsolete)
	err = c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID})
	wantCode(t, "replay", err, saga.CodeObsolete)
	w.deliver(c, done(id, "s1", saga.PhaseCancel))
	if after := w.get(c, id); after.Version != v.Version || after.Status != saga.StatusResolved {
		t.Errorf("a late reply changed it: %+v", after)
	}
	d, err := c.Admin().DeadLetter(w.ctx(10*time.Second), letter.ID)
	if err != nil || len(d.Audit) != 5 {
		t.Fatalf("%d entries in the audit, %v", len(d.Audit), err)
	}
	if e := d.Audit[0]; e.Action != "late_reply" || !e.Allowed || e.Actor != "participant stock" || !strings.Contains(e.Detail, "s1/cancel was given up, and is done") {
		t.Errorf("of the late reply: %+v", e)
	}
	if e := d.Audit[4]; e.Action != "discard" || !e.Allowed || e.Reason != "cannot be repaired" || e.Detail != "effect not known: s1/cancel" {
		t.Errorf("of the discard: %+v", e)
	}
	if n := w.count(`SELECT count(*) FROM incidents`); n != 0 {
		t.Errorf("%d incidents", n)
	}
}

// What waited for a cancel that is given up goes on (S2.13).
func TestDiscardLetsOthersGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id := w.submit(c, define(saga.KindSaga, 2), "")
	w.deliver(c, done(id, "s1", saga.PhaseTry))
	if _, err := c.Cancel(w.ctx(10*time.Second), caller, id, ""); err != nil {
		t.Fatal(err)
	}
	w.deliver(c, fault(done(id, "s2", saga.PhaseCancel), saga.FaultConflict))
	v, err := w.discard(c, w.letters(c, filterOf(id))[0])
	if err != nil || v.Status != saga.StatusCancelling || v.Suspended || len(v.Steps[0].Operations) != 2 {
		t.Fatalf("got %+v, %v", v, err)
	}
	w.deliver(c, done(id, "s1", saga.PhaseCancel))
	if v := w.get(c, id); v.Status != saga.StatusResolved {
		t.Errorf("it is %s", v.Status)
	}
}

// A try that is given up cancels its transaction: no effect remains unknown (S2.13).
func TestDiscardOfATry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id := w.submit(c, define(saga.KindTCC, 1), "")
	w.deliver(c, fault(done(id, "s1", saga.PhaseTry), saga.FaultConflict))
	letter := w.letters(c, filterOf(id))[0]
	v, err := w.discard(c, letter)
	if err != nil || v.Status != saga.StatusCancelling || v.Cause.Why != saga.WhyExhausted || v.Cause.Code != "discarded" {
		t.Fatalf("got %+v, %v", v, err)
	}
	letter.Version = 0
	_, err = w.discard(c, letter)
	wantCode(t, "second click", err, saga.CodeObsolete)
	w.deliver(c, done(id, "s1", saga.PhaseCancel))
	if v := w.get(c, id); v.Status != saga.StatusCancelled || v.Result != saga.ResultFailed {
		t.Errorf("it is %s", v.Status)
	}
	if n := w.count(`SELECT count(*) FROM audit WHERE allowed AND detail <> ''`); n != 0 {
		t.Error("the audit says that an effect is not known")
	}
	if l := w.letters(c, filterOf(id))[0]; l.Status != saga.DeadLetterDiscarded {
		t.Errorf("the dead letter is %s", l.Status)
	}
}

// A pivot's try that is given up is fenced, and the fence cannot be given up (S2.6, S2.13).
func TestDiscardOfAFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id := w.submit(c, saga.Define("order").Pivot("s1", "stock", "sell").MustBuild(), "")
	w.deliver(c, fault(done(id, "s1", saga.PhaseTry), saga.FaultHandler))
	v, err := w.discard(c, w.letters(c, filterOf(id))[0])
	if err != nil || v.Status != saga.StatusRunning || len(v.Steps[0].Operations) != 2 {
		t.Fatalf("got %+v, %v", v, err)
	}
	w.deliver(c, fault(done(id, "s1", saga.PhaseCancel), saga.FaultHandler))
	fence := w.letters(c, dlq.Filter{TransactionID: id, Status: saga.DeadLetterOpen})[0]
	_, err = w.discard(c, fence)
	wantCode(t, "discard of the fence", err, saga.CodeFence)
	_, err = w.resolve(c, id, 0)
	wantCode(t, "resolve of one that is undecided", err, saga.CodeOutstanding)
	if n := w.count(`SELECT count(*) FROM audit WHERE NOT allowed`); n != 2 {
		t.Errorf("%d refusals in the audit", n)
	}
	if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: fence.ID, Version: fence.Version}); err != nil {
		t.Fatal(err)
	}
	answer := done(id, "s1", saga.PhaseCancel)
	answer.Attempt = 2
	w.deliver(c, answer)
	if v := w.get(c, id); v.Status != saga.StatusCancelled {
		t.Errorf("it is %s", v.Status)
	}
}

// Resolve waits for everything that has no dead letter, names the version that was seen, and gives up all in one
// write (S2.13).
func TestResolve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id, _ := w.stuck(c, 3)
	_, err := w.resolve(c, id, 0)
	wantCode(t, "resolve while cancels are under way", err, saga.CodeOutstanding)
	w.deliver(c, fault(done(id, "s2", saga.PhaseCancel), saga.FaultHandler))
	seen := w.get(c, id)
	w.deliver(c, done(id, "s3", saga.PhaseCancel))
	if _, err := w.resolve(c, id, seen.Version); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("resolve of an outdated view: %v", err)
	}
	letters := w.letters(c, filterOf(id))
	if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letters[0].ID}); err != nil {
		t.Fatal(err)
	}
	_, err = w.resolve(c, id, 0)
	wantCode(t, "resolve while a replay is in flight", err, saga.CodeOutstanding)
	again := fault(done(id, letters[0].Step, saga.PhaseCancel), saga.FaultHandler)
	again.Attempt = 2
	w.deliver(c, again)
	v, err := w.resolve(c, id, w.get(c, id).Version)
	if err != nil || v.Status != saga.StatusResolved || v.Steps[2].Operations[1].State != saga.OperationDone {
		t.Fatalf("got %+v, %v", v, err)
	}
	if n := w.count(`SELECT count(*) FROM dead_letters WHERE status = 'discarded'`); n != 2 {
		t.Errorf("%d dead letters are given up", n)
	}
	if n := w.count(`SELECT count(*) FROM audit WHERE allowed AND action = 'resolve' AND object = $1 AND detail = 'effect not known: s1/cancel, s2/cancel'`, id.String()); n != 1 {
		t.Errorf("%d entries of the resolve", n)
	}
	d, err := c.Admin().DeadLetter(w.ctx(10*time.Second), letters[0].ID)
	if err != nil || len(d.Audit) == 0 || d.Audit[0].Action != "resolve" {
		t.Errorf("the dead letter does not show what gave it up: %+v, %v", d.Audit, err)
	}
	_, err = w.resolve(c, id, v.Version)
	wantCode(t, "second click", err, saga.CodeObsolete)
	if _, err := w.resolve(c, saga.ID(uuid.Must(uuid.NewV7())), 0); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("resolve of nothing: %v", err)
	}
}

// Nothing is to be resolved where nothing is a dead letter; operators may look at an outdated copy.
func TestResolveWithoutDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c1, _ := w.coordinator(noTimers)
	c2, _ := w.coordinator(noTimers)
	id, letter := w.stuck(c1, 1)
	seen := w.get(c2, id)
	if err := c2.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "bob", DeadLetter: letter.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.resolve(c1, id, seen.Version); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("c1 has an outdated copy at the version that was seen: %v", err)
	}
	if _, err := w.discard(c1, letter); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("discard of an outdated view: %v", err)
	}
	letter.Version = 0
	_, err := w.discard(c1, letter)
	wantCode(t, "discard of a replay in flight", err, saga.CodeNotDeadLetter)
}

// Many operators give up the same at the same time, at two coordinators: one does, all others are refused and
// recorded (D6).
func TestConcurrentGivingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recordVersions()
	c1, _ := w.coordinator(noTimers)
	c2, _ := w.coordinator(noTimers)
	const rounds, operators = 5, 8
	for range rounds {
		id, letter := w.stuck(c1, 1)
		version := w.get(c1, id).Version
		var carriedOut atomic.Int64
		var all sync.WaitGroup
		for i := range operators {
			all.Go(func() {
				admin := []*coordinator.Coordinator{c1, c2}[i/2%2].Admin()
				var err error
				if i%2 == 0 {
					_, err = admin.Discard(w.ctx(20*time.Second), coordinator.LetterParams{Actor: fmt.Sprint("op", i), DeadLetter: letter.ID, Version: letter.Version})
				} else {
					_, err = admin.Resolve(w.ctx(20*time.Second), coordinator.ResolveParams{Actor: fmt.Sprint("op", i), Transaction: id, Version: version})
				}
				var state *saga.StateError
				switch {
				case err == nil:
					carriedOut.Add(1)
				case !errors.Is(err, coordinator.ErrStale) && !errors.As(err, &state):
					t.Errorf("operator %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if n := carriedOut.Load(); n != 1 {
			t.Errorf("%d were carried out", n)
		}
		if v := w.get(c1, id); v.Status != saga.StatusResolved || v.Version != version+1 {
			t.Errorf("it is %s at version %d", v.Status, v.Version)
		}
		for allowed, want := range map[bool]int{true: 1, false: operators - 1} {
			n := w.count(`SELECT count(*) FROM audit WHERE object IN ($1, $2) AND allowed = $3`, id.String(), letter.ID.String(), allowed)
			if n != want {
				t.Errorf("%d audit entries with allowed %v, want %d", n, allowed, want)
			}
		}
	}
}

// What cannot be audited is not carried out.
func TestGivingUpIsAtomic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id, letter := w.stuck(c, 1)
	_, err := w.pool.Exec(w.ctx(10*time.Second), `
		CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''broken'' USING ERRCODE = ''P0001''; END';
		CREATE TRIGGER broken BEFORE INSERT ON audit FOR EACH ROW WHEN (NEW.allowed) EXECUTE FUNCTION broken()`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.resolve(c, id, 0); err == nil {
		t.Error("the resolve succeeded")
	}
	if _, err := w.discard(c, letter); err == nil {
		t.Error("the discard succeeded")
	}
	if l := w.letters(c, filterOf(id))[0]; l.Status != saga.DeadLetterOpen || l.Version != letter.Version {
		t.Errorf("the dead letter is %s at version %d", l.Status, l.Version)
	}
	if v := w.get(c, id); v.Status != saga.StatusCancelling || !v.Suspended {
		t.Errorf("it is %s", v.Status)
	}
	if n := w.count(`SELECT count(*) FROM audit WHERE allowed`); n != 0 {
		t.Errorf("%d entries say that it was carried out", n)
	}
}

// A message that nobody understood can be discarded, once.
func TestDiscardOfAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	m := wire.Message{Subject: "odd", Data: []byte{0xff}}
	if err := dlq.BuryMessage(w.ctx(10*time.Second), w.pool, m, "", saga.FaultUndecodable, ""); err != nil {
		t.Fatal(err)
	}
	letter := w.letters(c, dlq.Filter{})[0]
	stale := letter
	stale.Version++
	if _, err := w.discard(c, stale); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("discard of another version: %v", err)
	}
	if v, err := w.discard(c, letter); err != nil || v != nil {
		t.Errorf("discard: %+v, %v", v, err)
	}
	if l := w.letters(c, dlq.Filter{})[0]; l.Status != saga.DeadLetterDiscarded || l.Version != letter.Version+1 || len(l.Message.Data) != 1 {
		t.Errorf("it is %s at version %d", l.Status, l.Version)
	}
	if _, err := w.discard(c, letter); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("second click: %v", err)
	}
	letter.Version = 0
	_, err := w.discard(c, letter)
	wantCode(t, "second click without a version", err, saga.CodeNotDeadLetter)
	for allowed, want := range map[bool]int{true: 1, false: 3} {
		if n := w.count(`SELECT count(*) FROM audit WHERE action = 'discard' AND object = $1 AND allowed = $2`, letter.ID.String(), allowed); n != want {
			t.Errorf("%d audit entries with allowed %v, want %d", n, allowed, want)
		}
	}
}
