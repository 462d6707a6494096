package sagatest

import (
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// forgeFor answers done to an operation: as another participant, for another tenant, about another revision or other
// content.
func (w *world) forgeFor(r *record) {
	for i, s := range r.tx.Steps {
		op := s.Try
		if s.Settle.Sent() {
			op = s.Settle
		}
		if !op.State.Open() || !op.Sent() {
			continue
		}
		reply := saga.Reply{
			Verb: saga.VerbExecute, Tenant: r.tx.Tenant, Transaction: r.tx.ID, Step: r.def.Steps[i].Name, Phase: op.Phase,
			Participant: r.def.Steps[i].Participant, Attempt: op.Attempt, Revision: op.Revision,
			ContentSHA256: op.ContentSHA256, Outcome: saga.OutcomeDone, Result: saga.Payload{Data: []byte(forgedResult)},
		}
		w.falsify(&reply)
		m, err := wire.EncodeReply(reply, wire.ReplySubject(prefix, reply.Participant, 0))
		if err != nil {
			w.violated("S3", r.tx.ID, "a reply cannot be encoded: %v", err)
			return
		}
		w.note(r.tx.ID, "forger", "replies %s as %s for %s", replyText{reply}, reply.Participant, reply.Tenant)
		w.bag.store(m, r.tx.ID)
		return
	}
}

const forgedResult = `"forged"`

// falsify makes a reply one that must not be merged: of somebody else, or about something else than was sent.
func (w *world) falsify(r *saga.Reply) {
	own, tenant := r.Participant, r.Tenant
	switch n := w.rnd.IntN(5); {
	case n < 2 && len(w.participants) > 1:
		r.Participant = w.participants[0].name
		if r.Participant == own {
			r.Participant = w.participants[1].name
		}
	case n == 2:
		r.Revision += 1000 // no edit gets there
	case n == 3:
		r.ContentSHA256[0]++
		w.forged[r.Transaction] = true
	default:
		r.Tenant = tenants[0]
		if r.Tenant == tenant {
			r.Tenant = tenants[1]
		}
	}
}

// sendOther sends the command of an operation that its participant has carried out again, with another body: a conflict,
// which changes nothing (B1).
func (w *world) sendOther(r *record) {
	h := w.history(r.tx.ID)
	for _, s := range r.def.Steps {
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
			cmd, sent := h.last[slot{s.Name, phase}]
			row := w.participant(s.Participant).db.row(rowKey{r.tx.ID, s.Name})
			if !sent || row.Recorded(phase).ContentSHA256 == [32]byte{} || row.State == saga.BarrierTrying || w.rnd.IntN(2) == 0 {
				continue
			}
			w.sendForged(cmd, append([]byte(" "), cmd.Body...))
			return
		}
	}
}

// sendConfirm sends a confirm of a step whose try was refused: it is answered that nothing was tried, and runs nothing
// (I-4). Nothing else can become of such a row, so it does no harm whenever it comes.
func (w *world) sendConfirm(r *record) {
	for _, s := range r.def.Steps {
		cmd, sent := w.history(r.tx.ID).last[slot{s.Name, saga.PhaseTry}]
		row := w.participant(s.Participant).db.row(rowKey{r.tx.ID, s.Name})
		if sent && s.Kind == saga.KindTCC && row.State == saga.BarrierRefused {
			cmd.Phase, cmd.Deadline = saga.PhaseConfirm, time.Time{}
			w.sendForged(cmd, saga.SettleBody(saga.Payload{Data: []byte(`{"amount":1}`)}, saga.Payload{}))
			return
		}
	}
}

// sendForged sends a command that no coordinator has sent: what is answered to it is an incident.
func (w *world) sendForged(cmd saga.Command, body []byte) {
	cmd.Body, cmd.ContentSHA256 = body, saga.ContentSHA256(cmd.Action, body)
	cmd.ReplyTo = wire.ReplySubject(prefix, cmd.Participant, 0)
	m, err := wire.EncodeCommand(prefix, cmd)
	if err != nil {
		w.violated("S1.4", cmd.Transaction, "a command cannot be encoded: %v", err)
		return
	}
	delete(m.Header, wire.HeaderMsgID) // or it would be dropped as a copy
	w.note(cmd.Transaction, "forger", "sends %s with another body", commandText{cmd})
	w.forged[cmd.Transaction] = true
	w.bag.store(m, cmd.Transaction)
}
