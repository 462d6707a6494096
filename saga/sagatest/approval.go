package sagatest

import (
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Two people operate. What nobody knows the outcome of, and what one of them has edited, is sent again only with the consent
// of the other, who approves exactly that once (D4), or by breaking the glass (E3). An edit first asks the participant to
// reserve the next revision, and its replay sends it (S1.5).

var operators = []string{"ann", "ben"}

// consent is an approval as it is stored.
type consent struct {
	saga.Approval
	uses int // how often a replay was stored with it
}

// use is an approval that a replay uses up, in the write that carries it out.
type use struct {
	consent *consent // nil: nobody else was asked, the glass is broken
	actor   string
}

// wish is what an operator wants to do about a dead letter.
type wish struct {
	action     saga.LetterAction
	actor      string
	consent    *consent
	breakGlass bool
}

// drawOperators draws who acts, and who else is there.
func (w *world) drawOperators() (actor, other string) {
	n := w.rnd.IntN(len(operators))
	return operators[n], operators[1-n]
}

// replay sends a dead letter's operation again, with what that needs. While faults last it is now and then not what it needs:
// nobody's approval, one's own, or one that was revoked or is over by then.
func (w *world) replay(o open) {
	actor, other := w.drawOperators()
	wish := wish{action: saga.LetterReplay, actor: actor}
	switch {
	case !o.NeedsApproval(), w.chance(operatorUnapproved):
		w.act(o, wish)
		return
	case w.chance(operatorBrokeGlass):
		wish.breakGlass = true
		w.act(o, wish)
		return
	case w.chance(operatorOwnApproval):
		other = actor
	}
	w.approve(o, other, func(c *consent) {
		if w.chance(operatorRevoked) {
			w.revoke(c)
		}
		wish.consent = c
		again := w.chance(operatorClickedTwice)
		w.after(w.approvalUsedAfter(), func() {
			w.act(o, wish)
			if again {
				w.act(o, wish)
			}
		})
	})
}

// approvalUsedAfter returns how long operators take to use what they have asked for. Meanwhile others may edit the dead letter.
func (w *world) approvalUsedAfter() time.Duration {
	if w.faults.stopped {
		return 0
	}
	return w.tail(time.Millisecond, 2*time.Minute)
}

// approve asks a coordinator to store an approval of a dead letter, as it is if it is what the approver saw.
func (w *world) approve(o open, approver string, stored func(*consent)) {
	w.ask(func(c *coordinator, done func(outcome)) {
		d := w.database
		var given *consent
		commit := func() error {
			now, found := d.letter(o)
			if !found || saga.JudgeLetter(now.Letter, saga.LetterRequest{Action: saga.LetterApprove, Actor: approver, Seen: o.Version}, d.now()) != nil {
				return errNotCommitted
			}
			asked := time.Duration(0)
			if !w.faults.stopped {
				asked = max(w.tail(saga.ApprovalExpiryMin, saga.ApprovalExpiryDefault), saga.ApprovalExpiryMin)
			}
			expiry, err := saga.ApprovalExpiry(asked, 0)
			if err != nil {
				w.violated("D4", o.id, "an approval cannot be given: %v", err)
				return err
			}
			given = &consent{Approval: now.Binding()}
			given.Approver, given.ExpiresAt = approver, d.now().Add(expiry)
			w.note(o.id, approver, "approves a replay of %s/%s, revision %d", o.Step, o.Phase, given.Revision)
			return nil
		}
		d.commit(c.process, commit, func() {}, func(err error) {
			if err == nil {
				done(outcome{})
				stored(given)
			}
		})
	}, func(outcome) {})
}

// revoke takes an approval back, if it can be (D4).
func (w *world) revoke(c *consent) {
	w.after(w.tail(time.Millisecond, time.Second), func() {
		if saga.JudgeRevoke(c.Approval, w.database.now()) == nil {
			c.Revoked = true
		}
	})
}

// edit proposes another input for a dead letter's operation: the same amount, so that the books stay even (I-12).
func (w *world) edit(o open) {
	actor, _ := w.drawOperators()
	w.act(o, wish{action: saga.LetterEdit, actor: actor})
}

// event returns what the wish asks of the transaction. The letter is as it is now.
func (w *world) event(id saga.ID, l *letter, action saga.LetterAction) saga.Event {
	if action != saga.LetterEdit {
		return l.Event(action)
	}
	r := w.database.rows[id]
	w.edits++
	input := fmt.Appendf(nil, `{"amount":%d,"edit":%d}`, amountIn(r.tx.Inputs[r.def.StepIndex(l.Step)]), w.edits)
	return saga.EditRequested{Step: l.Step, Phase: l.Phase, Input: saga.Payload{Data: input}}
}

// refuses says whether an approval cannot be used up any more.
func (u *use) refuses(now time.Time) bool {
	return u.consent != nil && (u.consent.Used || u.consent.Revoked || !now.Before(u.consent.ExpiresAt))
}

func (u *use) store() {
	if u.consent != nil {
		u.consent.Used = true
		u.consent.uses++
	}
}

// propose notes in a dead letter what is proposed to be sent instead (S1.5). It is another version of itself then.
func propose(letters []letter, edits []saga.EditChange) {
	for i := range edits {
		e := &edits[i]
		for n := range letters {
			l := &letters[n]
			if l.Step != e.Step || l.Phase != e.Phase || l.Status != saga.DeadLetterOpen || e.Revision != l.Revision+1 {
				continue
			}
			l.Version++
			l.Proposal = &saga.Proposal{Revision: e.Revision, ContentSHA256: e.ContentSHA256, Reserved: e.Reserved}
			if e.Withdrawn {
				l.Proposal = nil
			}
		}
	}
}

// checkApproved: what nobody knows the outcome of, or what was edited, is sent again only as somebody else has approved it,
// once (D4).
func checkApproved(h *history, j *judged, ev saga.ReplayRequested, before, after *saga.Operation, must mustFunc) {
	name := ev.Step + "/" + string(ev.Phase)
	edited := after.Revision != before.Revision
	must(!edited || after.Revision == before.Revision+1, "S1.5", "%s goes from revision %d to %d", name, before.Revision, after.Revision)
	u := j.item.use
	if u != nil && u.consent == nil {
		return
	}
	must(u != nil || !edited && !h.doubts[slot{ev.Step, ev.Phase}], "D4", "%s is replayed with nobody's approval", name)
	if u == nil {
		return
	}
	c := u.consent
	must(c.uses == 1, "D4", "%s is replayed with an approval that was used %d times", name, c.uses)
	must(c.Approver != u.actor, "D4", "%s is replayed with its operator's own approval", name)
	must(c.Revision == after.Revision && c.ContentSHA256 == after.ContentSHA256, "D4", "%s is replayed with other content than was approved", name)
}
