package coordinator_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func allowEdit(c *coordinator.Config) { c.AllowEdit = true }

// editing is a transaction whose only try cannot be carried out with the input that was submitted.
type editing struct {
	*world
	id saga.ID
	p  *participant
}

const (
	wrongInput = `{"cents":100}` // as submitted
	rightInput = `{ "cents": 1.00, "to":"b\u00f6b" }`
)

func newEditing(t *testing.T, c func(w *world) *coordinator.Coordinator, kind saga.Kind) (*editing, *coordinator.Coordinator) {
	t.Helper()
	e := &editing{world: newWorld(t)}
	e.p, _ = e.participant("stock", func(c saga.Command) saga.Ran {
		if strings.Contains(string(c.Body), wrongInput) {
			return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: "nobody to give it to"}
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	})
	first := c(e.world)
	e.id = e.submit(first, define(kind, 1), "")
	e.letter(first, func(dlq.DeadLetter) bool { return true })
	return e, first
}

// letter waits for the dead letter to be open and as is wanted.
func (e *editing) letter(c *coordinator.Coordinator, want func(dlq.DeadLetter) bool) (l dlq.DeadLetter) {
	e.t.Helper()
	e.until("the dead letter is as it should be", func() bool {
		letters := e.letters(c, filterOf(e.id))
		if len(letters) != 1 || letters[0].Status != saga.DeadLetterOpen {
			return false
		}
		d, err := c.Admin().DeadLetter(e.ctx(10*time.Second), letters[0].ID)
		if err != nil {
			e.t.Fatal(err)
		}
		l = d.DeadLetter
		return want(l) && e.letters(c, filterOf(e.id))[0].Version == l.Version // its edit is read after it
	})
	return l
}

func reserved(l dlq.DeadLetter) bool { return l.Edit != nil && l.Edit.Reserved }

func (e *editing) edit(c *coordinator.Coordinator, l dlq.DeadLetter, input string) error {
	return c.Admin().Edit(e.ctx(10*time.Second), coordinator.EditParams{
		Actor: "ann", DeadLetter: l.ID, Version: l.Version, Reason: "it has no receiver", Input: []byte(input),
	})
}

func (e *editing) approve(c *coordinator.Coordinator, l dlq.DeadLetter) (dlq.Approval, error) {
	return c.Admin().Approve(e.ctx(10*time.Second), coordinator.ApproveParams{Actor: "bob", DeadLetter: l.ID, Version: l.Version, Reason: "bob it is"})
}

func (e *editing) replay(c *coordinator.Coordinator, l dlq.DeadLetter, approval uuid.UUID) error {
	return c.Admin().Replay(e.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: l.ID, Reason: "with a receiver", Approval: approval})
}

// A try that never ran is sent with another input: reserved, approved by somebody else, once, by a coordinator that has only
// read about it. No copy of what was submitted can run any more; what settles the step has the new input (S1.4, S1.5).
func TestEdit(t *testing.T) {
	t.Parallel()
	e, c := newEditing(t, func(w *world) *coordinator.Coordinator { c, _ := w.coordinator(allowEdit); return c }, saga.KindTCC)
	l := e.letter(c, func(dlq.DeadLetter) bool { return true })
	before, err := e.approve(c, l)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.edit(c, l, rightInput); err != nil {
		t.Fatal(err)
	}
	if err := e.edit(c, l, rightInput); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("an edit of what has changed: %v", err)
	}
	l = e.letter(c, reserved)
	body := saga.TryBody(saga.Payload{Data: []byte(rightInput)}, nil)
	if sha := saga.ContentSHA256("reserve", body); l.Edit.Revision != 2 || l.Edit.ContentSHA256 != sha || string(l.Edit.Input.Data) != rightInput {
		t.Errorf("proposed %+v", l.Edit)
	}
	group, err := c.Admin().Group(e.ctx(10*time.Second), l.Fingerprint, "")
	if err != nil || len(group.Sample) != 1 || group.Sample[0].Replay.Effect != saga.ReplayNeedsApproval {
		t.Errorf("its group says %+v, %v", group.Sample, err)
	}
	wantCode(t, "replay without an approval", e.replay(c, l, uuid.Nil), saga.CodeApprovalRequired)
	wantCode(t, "replay with an approval of what was submitted", e.replay(c, l, before.ID), saga.CodeApprovalMismatch)
	approval, err := e.approve(c, l)
	if err != nil || approval.Revision != 2 {
		t.Fatalf("%+v, %v", approval, err)
	}

	old, err := wire.DecodeCommand(l.Message) // a copy of it comes late
	if err != nil {
		t.Fatal(err)
	}
	if r := e.p.answer(old); r.Outcome != saga.OutcomeFault || r.Code != saga.FaultSuperseded {
		t.Errorf("a late copy of what was submitted is answered %s %s", r.Outcome, r.Code)
	}
	other, _ := e.coordinator(allowEdit)
	if err := e.replay(other, l, approval.ID); err != nil {
		t.Fatal(err)
	}
	if v := e.wait(other, e.id); v.Status != saga.StatusCommitted || v.Steps[0].Operations[0].Revision != 2 {
		t.Errorf("it is %s, %+v", v.Status, v.Steps[0].Operations)
	}
	e.p.expectEffects(e.id, "s1", 1, 1, saga.PhaseConfirm)
	for _, c := range e.p.commands(e.id) {
		want := string(body)
		if c.Phase == saga.PhaseConfirm {
			want = string(saga.SettleBody(saga.Payload{Data: []byte(rightInput)}, saga.Payload{}))
		}
		if c.Verb == saga.VerbExecute && (c.Revision == 2 || c.Phase == saga.PhaseConfirm) && !strings.HasPrefix(string(c.Body), want[:len(want)-1]) {
			t.Errorf("%s was sent %s, want %s", c.Phase, c.Body, want)
		}
	}
	if n := e.count(`SELECT count(*) FROM audit WHERE allowed AND action IN ('edit', 'approve', 'replay')`); n != 4 {
		t.Errorf("%d entries in the audit", n)
	}
}

// The answer to a reservation is lost, and then the coordinators, one after the other: nothing can be approved or replayed
// until another one has asked again for what was proposed, and a third goes on from there (S1.5).
func TestEditWhoseReservationIsLost(t *testing.T) {
	t.Parallel()
	var stop func()
	e, c := newEditing(t, func(w *world) (c *coordinator.Coordinator) { c, stop = w.coordinator(allowEdit); return c }, saga.KindSaga)
	var lost atomic.Int64
	e.p.mu.Lock()
	e.p.drop = func(c saga.Command, _ saga.Reply) bool { return c.Verb == saga.VerbReserve && lost.Add(1) == 1 }
	e.p.mu.Unlock()
	first := e.letter(c, func(dlq.DeadLetter) bool { return true })
	if err := e.edit(c, first, rightInput); err != nil {
		t.Fatal(err)
	}
	e.until("the answer is lost", func() bool { return lost.Load() == 1 })
	stop()
	c, stop = e.coordinator(allowEdit)
	l := e.letter(c, func(l dlq.DeadLetter) bool { return l.Edit != nil })
	_, err := e.approve(c, l)
	wantCode(t, "approval of what is not reserved", err, saga.CodeNotReserved)
	wantCode(t, "replay of what is not reserved", e.replay(c, l, uuid.Nil), saga.CodeNotReserved)
	if err := e.edit(c, l, string(l.Edit.Input.Data)); err != nil {
		t.Fatal(err)
	}
	e.letter(c, reserved)
	stop()
	c, _ = e.coordinator(allowEdit)
	l = e.letter(c, reserved)
	approval, err := e.approve(c, l)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.replay(c, l, approval.ID); err != nil {
		t.Fatal(err)
	}
	if v := e.wait(c, e.id); v.Status != saga.StatusCommitted {
		t.Errorf("it is %s", v.Status)
	}
	e.p.expectEffects(e.id, "s1", 1, 0, saga.PhaseCancel)
}

// Edits are off unless they are allowed, and what is no input is refused.
func TestEditRefused(t *testing.T) {
	t.Parallel()
	e, c := newEditing(t, func(w *world) *coordinator.Coordinator { c, _ := w.coordinator(); return c }, saga.KindSaga)
	l := e.letter(c, func(dlq.DeadLetter) bool { return true })
	wantCode(t, "edit", e.edit(c, l, rightInput), saga.CodeEditDisabled)
	if n := e.count(`SELECT count(*) FROM audit WHERE NOT allowed AND action = 'edit'`); n != 1 {
		t.Errorf("%d refusals in the audit", n)
	}
	for input, code := range map[string]string{
		"": "invalid_json", "{": "invalid_json", "1 2": "invalid_json", "\"\xff\"": "invalid_utf8",
		`"` + strings.Repeat("x", saga.InputBytesMax) + `"`: saga.CodeTooLarge,
	} {
		var invalid *saga.InvalidError
		if err := e.edit(c, l, input); !errors.As(err, &invalid) || invalid.Code != code {
			t.Errorf("input %.20q: %v, want %s", input, err, code)
		}
	}
	if n := e.count(`SELECT count(*) FROM edits`); n != 0 {
		t.Errorf("%d edits are stored", n)
	}
}

// commands returns what the participant was sent of a transaction.
func (p *participant) commands(id saga.ID) (list []saga.Command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.seen {
		if p.seen[i].Transaction == id {
			list = append(list, p.seen[i])
		}
	}
	return list
}
