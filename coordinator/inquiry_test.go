package coordinator_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// inquired asks about the one dead letter of a transaction and returns it once the participant has answered.
func (w *world) inquired(asked, shown *coordinator.Coordinator, letter uuid.UUID) coordinator.DeadLetterDetail {
	w.t.Helper()
	w.inquire(asked, letter)
	var d coordinator.DeadLetterDetail
	w.until("the inquiry is answered", func() bool {
		d = w.detail(shown, letter)
		return d.Inquiry.Answered()
	})
	return d
}

func (w *world) inquire(c *coordinator.Coordinator, letter uuid.UUID) {
	w.t.Helper()
	if err := c.Admin().Inquire(w.ctx(10*time.Second), coordinator.InquireParams{Actor: "ann", DeadLetter: letter}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) detail(c *coordinator.Coordinator, letter uuid.UUID) coordinator.DeadLetterDetail {
	w.t.Helper()
	d, err := c.Admin().DeadLetter(w.ctx(10*time.Second), letter)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// buriedBy makes a dead letter whose participant has not carried the operation out.
func (w *world) buriedBy(c *coordinator.Coordinator, participant string) (saga.ID, dlq.DeadLetter) {
	w.t.Helper()
	id := w.submit(c, saga.Define("order").Timeout(time.Hour).Saga("s1", participant, "reserve").MustBuild(), "")
	w.until("a dead letter", func() bool { return len(w.letters(c, filterOf(id))) == 1 })
	return id, w.letters(c, filterOf(id))[0]
}

func faulty(saga.Command) saga.Ran {
	return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: "cannot read order 17"}
}

// What the participant says reaches any coordinator and is shown by all. "Absent" changes nothing and can be asked again at
// once: the answer is another message, not a copy of the first (U3, S2.11).
func TestInquiryOfWhatNeverRan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c1, _ := w.coordinator()
	c2, _ := w.coordinator()
	p, _ := w.participant("stock", faulty)
	id, letter := w.buriedBy(c1, "stock")
	if d := w.detail(c2, letter.ID); d.Replay.Effect != saga.ReplayUnknown || d.Inquiry != nil {
		t.Errorf("before it was asked: %+v", d.Replay)
	}
	var last time.Time
	for range 3 {
		w.inquire(c1, letter.ID)
		var d coordinator.DeadLetterDetail
		w.until("another answer", func() bool {
			d = w.detail(c2, letter.ID)
			return d.Inquiry.Answered() && d.Inquiry.AskedAt.After(last)
		})
		last = d.Inquiry.AskedAt
		if d.Inquiry.State != saga.BarrierAbsent || !d.Inquiry.Authoritative() || d.Replay.Effect != saga.ReplayGoesForward ||
			d.Status != saga.DeadLetterOpen || d.Version != letter.Version {
			t.Errorf("%+v, %+v, version %d", d.Inquiry, d.Replay, d.Version)
		}
	}
	p.expectEffects(id, "s1", 0, 0, saga.PhaseCancel)
	pause := w.pause(c2, flow.Pause{Scope: flow.ScopeParticipant, Participant: "stock"})
	if d := w.detail(c2, letter.ID); d.Replay.Effect != saga.ReplayPaused {
		t.Errorf("while it is paused: %+v", d.Replay)
	}
	w.resume(c2, pause)
	group, err := c2.Admin().Group(w.ctx(10*time.Second), letter.Fingerprint, "")
	if err != nil || len(group.Sample) != 1 || group.Predicted[saga.ReplayGoesForward] != 1 || group.Counts[saga.DeadLetterOpen] != 1 {
		t.Errorf("the group is %+v, %v", group, err)
	}
	audit, err := c1.Admin().Audit(w.ctx(10*time.Second), dlq.AuditFilter{Action: "inquire", Objects: []string{letter.ID.String()}})
	if err != nil || len(audit) != 3 || audit[0].Actor != "ann" || audit[0].Tenant != caller.Tenant || !audit[0].Allowed {
		t.Errorf("the audit has %+v, %v", audit, err)
	}
}

// An operation that was carried out, and whose reply never came, is settled by the answer: nothing is replayed (U3).
func TestInquirySettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	p, _ := w.participant("stock", nil)
	p.drop = func(c saga.Command, _ saga.Reply) bool { return c.Verb == saga.VerbExecute }
	id := w.submit(c, define(saga.KindSaga, 1), "")
	w.until("the effect", func() bool { return p.ran(id, "s1", saga.PhaseTry) == 1 })
	if err := c.Deliver(w.ctx(10*time.Second), saga.Reply{
		Verb: saga.VerbExecute, Tenant: caller.Tenant, Transaction: id, Step: "s1", Phase: saga.PhaseTry, Participant: "stock", Attempt: 1, Revision: 1,
		Outcome: saga.OutcomeUnknown,
	}); err != nil {
		t.Fatal(err)
	}
	letter := w.letters(c, filterOf(id))[0]
	w.inquired(c, c, letter.ID)
	d := w.detail(c, letter.ID) // read as a whole after the answer
	if d.Inquiry.State != saga.BarrierTried || d.Status != saga.DeadLetterClosed || d.Replay.Effect != saga.ReplayNoOp {
		t.Errorf("%+v: %s, %+v", d.Inquiry, d.Status, d.Replay)
	}
	if same, known := d.Inquiry.SameContent([32]byte(d.ContentSHA256)); !same || !known {
		t.Errorf("the content is %x, recorded %x", d.ContentSHA256, d.Inquiry.ContentSHA256)
	}
	if v := w.wait(c, id); v.Status != saga.StatusCommitted {
		t.Errorf("the transaction is %s", v.Status)
	}
	p.expectEffects(id, "s1", 1, 0, saga.PhaseCancel)
	err := c.Admin().Inquire(w.ctx(10*time.Second), coordinator.InquireParams{Actor: "bob", DeadLetter: letter.ID})
	var state *saga.StateError
	if !errors.As(err, &state) || state.Code != saga.CodeNotDeadLetter {
		t.Errorf("asked about a closed one: %v", err)
	}
	refused := false
	audit, err := c.Admin().Audit(w.ctx(10*time.Second), dlq.AuditFilter{Action: "inquire", Actor: "bob", Allowed: &refused})
	if err != nil || len(audit) != 1 {
		t.Errorf("the refusal is recorded %d times, %v", len(audit), err)
	}
}

// Other content than was sent is a conflict, and stays one; the dead letter stays open.
func TestInquiryFindsOtherContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	p, stop := w.participant("stock", faulty)
	id, letter := w.buriedBy(c, "stock")
	stop()
	p.rows[id.String()+"/s1"] = saga.BarrierRow{
		State: saga.BarrierTried, Kind: saga.KindSaga,
		Try: saga.Recorded{ContentSHA256: [32]byte{7}, Revision: 1, Reply: saga.StoredReply{Outcome: saga.OutcomeDone}},
	}
	p.start()
	d := w.inquired(c, c, letter.ID)
	if d.Status != saga.DeadLetterOpen || d.Replay.Effect != saga.ReplayConflict || d.Inquiry.State != saga.BarrierTried {
		t.Errorf("%+v: %s, %+v", d.Inquiry, d.Status, d.Replay)
	}
}

// A participant that does not answer leaves the outcome unknown; the next question is another one, and what it says counts.
func TestInquiryWithoutAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	p, stop := w.participant("stock", faulty)
	_, letter := w.buriedBy(c, "stock")
	stop()
	w.inquire(c, letter.ID)
	var question string
	if err := w.pool.QueryRow(w.ctx(10*time.Second), `SELECT question FROM inquiries`).Scan(&question); err != nil {
		t.Fatal(err)
	}
	for range 3 { // clicks that come too soon send nothing, and are in the audit (D6)
		w.inquire(c, letter.ID)
	}
	if d := w.detail(c, letter.ID); d.Inquiry == nil || d.Inquiry.Answered() || d.Replay.Effect != saga.ReplayUnknown {
		t.Errorf("%+v, %+v", d.Inquiry, d.Replay)
	}
	if n := w.count(`SELECT count(*) FROM audit WHERE action = 'inquire'`); n != 4 {
		t.Errorf("%d inquiries are in the audit", n)
	}
	if n := w.count(`SELECT count(*) FROM inquiries WHERE question = $1`, question); n != 1 {
		t.Error("a second question was sent")
	}
	if _, err := w.pool.Exec(w.ctx(10*time.Second), `UPDATE inquiries SET question = 'another'`); err != nil {
		t.Fatal(err)
	}
	p.start()
	w.until("the late answer has come", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.ContainsFunc(p.seen, func(c saga.Command) bool { return c.Verb == saga.VerbInquire })
	})
	if d := w.detail(c, letter.ID); d.Inquiry.Answered() {
		t.Errorf("the answer to an older question was taken: %+v", d.Inquiry)
	}
	if _, err := w.pool.Exec(w.ctx(10*time.Second), `UPDATE inquiries SET asked_at = asked_at - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	if d := w.inquired(c, c, letter.ID); d.Replay.Effect != saga.ReplayGoesForward {
		t.Errorf("asked again: %+v", d.Replay)
	}
}

// Notes are kept with their group and in the audit; what is not there is refused, which is recorded too (D6).
func TestGroupNotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	w.participant("stock", faulty)
	_, letter := w.buriedBy(c, "stock")
	params := coordinator.GroupParams{Actor: "ann", Fingerprint: letter.Fingerprint, Text: "the release of Tuesday"}
	if _, err := c.Admin().NoteGroup(w.ctx(10*time.Second), params); err != nil {
		t.Fatal(err)
	}
	d, err := c.Admin().Group(w.ctx(10*time.Second), letter.Fingerprint, "")
	if err != nil || len(d.Notes) != 1 || d.Notes[0].Text != params.Text || d.Notes[0].Actor != "ann" {
		t.Errorf("%+v, %v", d.Notes, err)
	}
	params.Fingerprint = "0123456789abcdef"
	if _, err := c.Admin().NoteGroup(w.ctx(10*time.Second), params); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("a note on nothing: %v", err)
	}
	if err := c.Admin().InquireGroup(w.ctx(10*time.Second), params); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an inquiry about nothing: %v", err)
	}
	for allowed, want := range map[bool]int{true: 1, false: 2} {
		if n := w.count(`SELECT count(*) FROM audit WHERE allowed = $1`, allowed); n != want {
			t.Errorf("%d entries with allowed %v, want %d", n, allowed, want)
		}
	}
}
