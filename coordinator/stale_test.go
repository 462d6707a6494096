package coordinator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Two coordinators, no participants, no timers: the test says who judges what. One of them always has an
// outdated transaction in memory (S2.10, C9).
type stale struct {
	*world
	ahead, behind *coordinator.Coordinator
}

func newStale(t *testing.T) *stale {
	t.Helper()
	w := newWorld(t)
	w.recordVersions()
	s := &stale{world: w}
	s.ahead, _ = w.coordinator(noTimers)
	s.behind, _ = w.coordinator(noTimers)
	return s
}

// begin starts a transaction that the coordinator behind has in memory at version 1.
func (s *stale) begin(def *saga.Definition) saga.ID {
	s.t.Helper()
	id := s.submit(s.behind, def, "")
	if v := s.behind.Cached(id); v != 1 {
		s.t.Fatalf("version %d in memory, want 1", v)
	}
	return id
}

func (s *stale) deliver(c *coordinator.Coordinator, replies ...saga.Reply) {
	s.t.Helper()
	for _, r := range replies {
		if err := c.Deliver(s.ctx(10*time.Second), r); err != nil {
			s.t.Fatalf("%s of %s/%s: %v", r.Outcome, r.Step, r.Phase, err)
		}
	}
}

func (s *stale) expect(id saga.ID, status saga.Status, version int64) {
	s.t.Helper()
	if v := s.get(s.ahead, id); v.Status != status || v.Version != version {
		s.t.Errorf("got %s at version %d, want %s at %d", v.Status, v.Version, status, version)
	}
	if n := s.count(`SELECT count(*) FROM incidents`); n != 0 {
		s.t.Errorf("%d incidents", n)
	}
	if n := s.count(`SELECT count(*) FROM versions WHERE id = $1`, id.String()); int64(n) != version {
		s.t.Errorf("%d writes for version %d (I-7)", n, version)
	}
}

// A reply about a step that the outdated row says was never sent is no incident.
func TestStaleReply(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(define(saga.KindSaga, 2))
	s.deliver(s.ahead, done(id, "s1", saga.PhaseTry))
	s.deliver(s.behind, done(id, "s2", saga.PhaseTry))
	s.expect(id, saga.StatusCommitted, 3)
}

// A reply that the outdated row still waits for was merged by the other: it is not merged twice.
func TestStaleDuplicateReply(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(define(saga.KindSaga, 2))
	s.deliver(s.ahead, done(id, "s1", saga.PhaseTry))
	s.deliver(s.behind, done(id, "s1", saga.PhaseTry))
	s.expect(id, saga.StatusRunning, 2)
	if n := s.count(`SELECT count(*) FROM operations WHERE step = 's2' AND attempt = 1`); n != 1 {
		t.Errorf("%d operations of s2 at attempt 1", n)
	}
}

// A reply judged while another coordinator has decided to cancel changes nothing that is decided.
func TestStaleReplyAfterDecision(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(define(saga.KindSaga, 2))
	if _, err := s.ahead.Cancel(s.ctx(10*time.Second), caller, id, ""); err != nil {
		t.Fatal(err)
	}
	s.deliver(s.behind, done(id, "s1", saga.PhaseTry))
	s.expect(id, saga.StatusCancelling, 2)
}

// A contradiction is filed only when the reloaded row says so too, and then once.
func TestStaleContradiction(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(define(saga.KindSaga, 2))
	s.deliver(s.ahead, done(id, "s1", saga.PhaseTry))
	other := done(id, "s1", saga.PhaseTry)
	other.Result = saga.Payload{Data: []byte(`{"other":1}`)}
	s.deliver(s.behind, other)
	if n := s.count(`SELECT count(*) FROM incidents WHERE transaction_id = $1 AND step = 's1'`, id.String()); n != 1 {
		t.Errorf("%d incidents, want 1", n)
	}
	if v := s.get(s.ahead, id); v.Version != 2 || v.Status != saga.StatusRunning {
		t.Errorf("got %s at version %d", v.Status, v.Version)
	}
}

// A cancel judged on an outdated row meets the decision of the real one (S2.9).
func TestStaleCancel(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(define(saga.KindSaga, 1))
	s.deliver(s.ahead, done(id, "s1", saga.PhaseTry))
	_, err := s.behind.Cancel(s.ctx(10*time.Second), caller, id, "")
	var state *saga.StateError
	if !errors.As(err, &state) || state.Code != saga.CodeNotCancellable || state.Status != saga.StatusCommitted {
		t.Errorf("cancel: %v", err)
	}
	s.expect(id, saga.StatusCommitted, 2)
}

// A repeated cancel finds the fence; when the fence has failed elsewhere it must say that it is too late (S2.9).
func TestStaleCancelOfFencedPivot(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(saga.Define("order").Pivot("s1", "stock", "charge").MustBuild())
	if v, err := s.behind.Cancel(s.ctx(10*time.Second), caller, id, ""); err != nil || v.Status != saga.StatusRunning {
		t.Fatalf("got %s, %v", v.Status, err)
	}
	executed := fault(done(id, "s1", saga.PhaseCancel), saga.FaultContradicts)
	executed.Result = saga.Payload{Data: []byte(`{}`)}
	s.deliver(s.ahead, executed)
	s.expect(id, saga.StatusCommitted, 3)
	v, err := s.behind.Cancel(s.ctx(10*time.Second), caller, id, "")
	var state *saga.StateError
	if !errors.As(err, &state) || state.Code != saga.CodeNotCancellable {
		t.Errorf("cancel of a committed transaction: %s, %v", v.Status, err)
	}
}

// A wake judged on an outdated row must not hide what is due by the real one: moving the timer names the
// version too.
func TestStaleWake(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(saga.Define("order").Saga("s1", "stock", "reserve", saga.AttemptTimeout(time.Hour)).
		Saga("s2", "stock", "reserve", saga.AttemptTimeout(10*time.Millisecond)).MustBuild())
	s.deliver(s.ahead, done(id, "s1", saga.PhaseTry))
	s.until("the attempt of s2 is over", func() bool {
		return s.count(`SELECT count(*) FROM transactions WHERE id = $1 AND wake_at < clock_timestamp()`, id.String()) == 1
	})
	if err := s.behind.Wake(s.ctx(10*time.Second), id); err != nil {
		t.Fatal(err)
	}
	if n := s.count(`SELECT count(*) FROM attempts WHERE step = 's2' AND outcome = 'unknown'`); n != 1 {
		t.Errorf("%d attempts of s2 timed out, want 1", n)
	}
	if n := s.count(`SELECT count(*) FROM transactions WHERE id = $1 AND wake_at < clock_timestamp() + interval '1 minute'`, id.String()); n != 1 {
		t.Error("the wake of s2 is lost")
	}
	s.expect(id, saga.StatusRunning, 3)
}

// A dead letter that the outdated row does not know can be replayed; one that it still believes in cannot be
// replayed twice (D2).
func TestStaleReplay(t *testing.T) {
	t.Parallel()
	s := newStale(t)
	id := s.begin(define(saga.KindSaga, 1))
	s.deliver(s.ahead, fault(done(id, "s1", saga.PhaseTry), saga.FaultHandler))
	letters, err := s.ahead.Admin().DeadLetters(s.ctx(10*time.Second), dlq.Filter{})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	p := coordinator.LetterParams{Actor: "ann", DeadLetter: letters[0].ID, Reason: "fixed"}
	if err := s.behind.Admin().Replay(s.ctx(10*time.Second), p); err != nil {
		t.Fatal(err)
	}
	if v := s.ahead.Cached(id); v != 2 {
		t.Fatalf("version %d in memory, want the outdated 2", v)
	}
	var state *saga.StateError
	if err := s.ahead.Admin().Replay(s.ctx(10*time.Second), p); !errors.As(err, &state) || state.Code != saga.CodeNotDeadLetter {
		t.Errorf("a second replay: %v", err)
	}
	s.expect(id, saga.StatusRunning, 3)
	if v := s.get(s.ahead, id); v.Steps[0].Operations[0].Attempt != 2 {
		t.Errorf("attempt %d, want 2: one replay is one sending", v.Steps[0].Operations[0].Attempt)
	}
	if n := s.count(`SELECT count(*) FROM audit WHERE allowed`); n != 1 {
		t.Errorf("%d replays recorded as carried out", n)
	}
}
