package coordinator_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// An operation has at most one dead letter, however often it fails: failing again opens the same one again, with
// what was sent last (D1).
func TestOneDeadLetterPerOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id := w.submit(c, define(saga.KindSaga, 1), "")
	const times = 5
	var first dlq.DeadLetter
	for n := 1; n <= times; n++ {
		r := fault(done(id, "s1", saga.PhaseTry), saga.FaultHandler)
		r.Attempt, r.Reason = n, fmt.Sprintf("order %d: card %d declined", n, 1000+n)
		for range 2 { // also when the reply comes twice
			if err := c.Deliver(w.ctx(10*time.Second), r); err != nil {
				t.Fatal(err)
			}
		}
		letters := w.letters(c, dlq.Filter{})
		if len(letters) != 1 {
			t.Fatalf("%d dead letters after failure %d", len(letters), n)
		}
		l := letters[0]
		if n == 1 {
			first = l
		}
		if l.ID != first.ID || l.Status != saga.DeadLetterOpen || l.BuriedCount != n || l.Attempt != n || l.Version != int64(2*n-1) ||
			!bytes.Equal(l.Message.Data, first.Message.Data) || l.Reason != r.Reason || l.Fingerprint != first.Fingerprint {
			t.Errorf("failure %d: %+v", n, l)
		}
		cmd, err := wire.DecodeCommand(l.Message)
		if err != nil || cmd.Attempt != n || cmd.Key().String() != fmt.Sprintf("%s/%s/s1/try", caller.Tenant, id) {
			t.Errorf("failure %d: the dead letter holds %+v, %v", n, cmd.Key(), err)
		}
		if n < times {
			if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: l.ID, Version: l.Version, Reason: "again"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	detail, err := c.Admin().DeadLetter(w.ctx(10*time.Second), first.ID)
	if err != nil || len(detail.Attempts) != times || len(detail.Audit) != times-1 || detail.Transaction == nil || !detail.Transaction.Suspended {
		t.Errorf("detail: %d attempts, %d audit entries, %v", len(detail.Attempts), len(detail.Audit), err)
	}
	stale := coordinator.LetterParams{Actor: "bob", DeadLetter: first.ID, Version: first.Version, Reason: "from an old page"}
	if err := c.Admin().Replay(w.ctx(10*time.Second), stale); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("replay of an outdated view: %v", err)
	}
}

// Many operators press replay at the same time, at two coordinators: one sending, one entry in the audit that
// says it was carried out, all others refused and recorded (D2, D6).
func TestConcurrentReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recordVersions()
	c1, _ := w.coordinator(noTimers)
	c2, _ := w.coordinator(noTimers)
	const rounds, operators = 10, 8
	for range rounds {
		id := w.submit(c1, define(saga.KindSaga, 1), "")
		if err := c2.Deliver(w.ctx(10*time.Second), fault(done(id, "s1", saga.PhaseTry), saga.FaultHandler)); err != nil {
			t.Fatal(err)
		}
		letter := w.letters(c1, filterOf(id))[0]
		var carriedOut atomic.Int64
		var all sync.WaitGroup
		for i := range operators {
			all.Go(func() {
				err := []*coordinator.Coordinator{c1, c2}[i%2].Admin().Replay(w.ctx(20*time.Second),
					coordinator.LetterParams{Actor: fmt.Sprint("op", i), DeadLetter: letter.ID, Reason: "fixed"})
				var state *saga.StateError
				switch {
				case err == nil:
					carriedOut.Add(1)
				case !errors.As(err, &state) || state.Code != saga.CodeNotDeadLetter:
					t.Errorf("replay: %v", err)
				}
			})
		}
		all.Wait()
		if n := carriedOut.Load(); n != 1 {
			t.Errorf("%d replays were carried out", n)
		}
		if v := w.get(c1, id); v.Steps[0].Operations[0].Attempt != 2 || v.Version != 3 || !v.Suspended {
			t.Errorf("attempt %d at version %d", v.Steps[0].Operations[0].Attempt, v.Version)
		}
		for allowed, want := range map[bool]int{true: 1, false: operators - 1} {
			if n := w.count(`SELECT count(*) FROM audit WHERE object = $1 AND allowed = $2`, letter.ID.String(), allowed); n != want {
				t.Errorf("%d audit entries with allowed %v, want %d", n, allowed, want)
			}
		}
	}
}

// A replay whose transaction cannot be written leaves no trace in the audit: both are one database transaction.
func TestAuditIsAtomic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id := w.submit(c, define(saga.KindSaga, 1), "")
	if err := c.Deliver(w.ctx(10*time.Second), fault(done(id, "s1", saga.PhaseTry), saga.FaultHandler)); err != nil {
		t.Fatal(err)
	}
	_, err := w.pool.Exec(w.ctx(10*time.Second), `
		CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''broken'' USING ERRCODE = ''P0001''; END';
		CREATE TRIGGER broken BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION broken()`)
	if err != nil {
		t.Fatal(err)
	}
	letter := w.letters(c, filterOf(id))[0]
	if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, Reason: "fixed"}); err == nil {
		t.Error("the replay succeeded")
	}
	if n := w.count(`SELECT count(*) FROM audit WHERE allowed`); n != 0 {
		t.Errorf("%d entries say that it was carried out", n)
	}
	if l := w.letters(c, filterOf(id))[0]; l.Status != saga.DeadLetterOpen || l.Version != letter.Version {
		t.Errorf("the dead letter is %s at version %d", l.Status, l.Version)
	}
}

// The decision makes open dead letters obsolete, in the same write; a replay that comes later is refused (D3,
// I-15).
func TestReplayAfterDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	id := w.submit(c, define(saga.KindSaga, 2, saga.Root()), "")
	if err := c.Deliver(w.ctx(10*time.Second), fault(done(id, "s1", saga.PhaseTry), saga.FaultConflict)); err != nil {
		t.Fatal(err)
	}
	letter := w.letters(c, filterOf(id))[0]
	if _, err := c.Cancel(w.ctx(10*time.Second), caller, id, ""); err != nil {
		t.Fatal(err)
	}
	if l := w.letters(c, filterOf(id))[0]; l.Status != saga.DeadLetterObsolete {
		t.Errorf("after the decision the dead letter is %s", l.Status)
	}
	var state *saga.StateError
	err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, Reason: "too late"})
	if !errors.As(err, &state) || state.Code != saga.CodeObsolete {
		t.Errorf("replay: %v", err)
	}
	if n := w.count(`SELECT count(*) FROM audit WHERE NOT allowed AND actor = 'ann'`); n != 1 {
		t.Errorf("%d refusals recorded", n)
	}
	for _, step := range []string{"s1", "s2"} {
		if err := c.Deliver(w.ctx(10*time.Second), done(id, step, saga.PhaseCancel)); err != nil {
			t.Fatal(err)
		}
	}
	if v := w.get(c, id); v.Status != saga.StatusCancelled || v.Suspended {
		t.Errorf("got %s, suspended %v", v.Status, v.Suspended)
	}
	if n := w.count(`SELECT count(*) FROM dead_letters WHERE status IN ('open', 'replaying')`); n != 0 {
		t.Errorf("%d dead letters are open (I-15)", n)
	}
	if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: uuid.New()}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("replay of nothing: %v", err)
	}
}

// A message that nobody understands is kept byte for byte, subject and headers too, and cannot be replayed.
func TestMessageDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	w.publish(wire.Message{Subject: w.prefix + ".reply.stock.1", Data: all, Header: wire.Header{"Saga-Step": {"s1", "s2"}, "X-Odd": {"\xff\x01"}}})
	w.publish(wire.Message{Subject: w.prefix + ".reply.stock.2"})
	w.until("both are set aside", func() bool { return len(w.letters(c, dlq.Filter{})) == 2 })
	for _, l := range w.letters(c, dlq.Filter{}) {
		want := map[string][]byte{w.prefix + ".reply.stock.1": all, w.prefix + ".reply.stock.2": {}}[l.Message.Subject]
		if l.Kind != dlq.KindMessage || !bytes.Equal(l.Message.Data, want) || l.Participant != "stock" || l.Cause != saga.FaultUndecodable {
			t.Errorf("set aside %+v", l)
		}
		if len(want) > 0 && !slices.Equal(l.Message.Header["Saga-Step"], []string{"s1", "s2"}) {
			t.Errorf("headers %v", l.Message.Header)
		}
		var state *saga.StateError
		if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: l.ID}); !errors.As(err, &state) {
			t.Errorf("replay: %v", err)
		}
		if d, err := c.Admin().DeadLetter(w.ctx(10*time.Second), l.ID); err != nil || d.Transaction != nil || len(d.Audit) != 1 {
			t.Errorf("detail: %+v, %v", d, err)
		}
	}
}

// Equal causes have one fingerprint whatever numbers, ids and quoted values they name; different ones do not.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	groups := [][]string{
		{`order 17 of customer 8f14e45f: card "4111" declined`, `order 99812 of customer c9f0f895: card "5500 0000" declined`},
		{`order 17 of customer 8f14e45f: card "4111" expired`},
		{"connection refused", "connection  refused "},
		{""},
	}
	prints := map[string]int{}
	for i, reasons := range groups {
		for _, reason := range reasons {
			id := w.submit(c, define(saga.KindSaga, 1), "")
			r := fault(done(id, "s1", saga.PhaseTry), saga.FaultHandler)
			r.Reason = reason
			if err := c.Deliver(w.ctx(10*time.Second), r); err != nil {
				t.Fatal(err)
			}
			fingerprint := w.letters(c, filterOf(id))[0].Fingerprint
			if group, known := prints[fingerprint]; known && group != i {
				t.Errorf("%q is grouped with %q", reason, groups[group])
			}
			prints[fingerprint] = i
		}
	}
	if len(prints) != len(groups) {
		t.Errorf("%d fingerprints of %d causes", len(prints), len(groups))
	}
	sizes := []int{}
	for fingerprint := range maps.Keys(prints) {
		sizes = append(sizes, len(w.letters(c, dlq.Filter{Fingerprint: fingerprint})))
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 1, 2, 2}) {
		t.Errorf("groups of %v", sizes)
	}
}
