package api

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// renderer turns what the layers below know into forms. Users' JSON goes into the answer byte for byte (S1.6),
// which encoding/json would not do: it is a placeholder until all else is encoded.
type renderer struct {
	token string
	parts [][]byte
}

func newRenderer() *renderer {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return &renderer{token: `"` + hex.EncodeToString(random[:]) + ":"}
}

func (r *renderer) verbatim(data []byte) json.RawMessage {
	r.parts = append(r.parts, data)
	return json.RawMessage(r.token + strconv.Itoa(len(r.parts)-1) + `"`)
}

// encode returns the JSON of a form with the users' parts in their places.
func (r *renderer) encode(form any) ([]byte, error) {
	rest, err := json.Marshal(form)
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	if len(r.parts) == 0 {
		return rest, nil
	}
	var out bytes.Buffer
	for {
		before, after, found := bytes.Cut(rest, []byte(r.token))
		out.Write(before)
		if !found {
			return out.Bytes(), nil
		}
		number, tail, _ := bytes.Cut(after, []byte{'"'})
		i, err := strconv.Atoi(string(number))
		if err != nil || i >= len(r.parts) {
			return nil, fmt.Errorf("encoding an answer: no part %q", number)
		}
		out.Write(r.parts[i])
		rest = tail
	}
}

// send answers with a form.
func (c *call) send(status int, r *renderer, form any) error {
	body, err := r.encode(form)
	if err != nil {
		return err
	}
	c.write(status, body)
	return nil
}

func transactionPath(id string) string { return "/v1/transactions/" + id }

func (r *renderer) transaction(v coordinator.View) Transaction {
	id := v.ID.String()
	self := transactionPath(id)
	t := Transaction{
		ID: id, Version: v.Version, Status: string(v.Status), Result: string(v.Result), Suspended: v.Suspended,
		Tenant: v.Tenant, Client: v.Client, RequestID: v.RequestID,
		Definition: DefinitionRef{Name: v.DefinitionName, Version: v.DefinitionVersion},
		CreatedAt:  v.CreatedAt, StartAt: v.StartAt, Deadline: v.Deadline, DecidedAt: v.DecidedAt, FinishedAt: v.FinishedAt,
		Traceparent: v.Traceparent, Links: Links{"self": self, "attempts": self + "/attempts", "events": self + "/events"},
	}
	if !v.Status.Terminal() {
		t.WakeAt = v.WakeAt
		t.Links["cancel"] = self + "/cancel"
	}
	if v.Cause.Why != "" {
		t.Cause = &Cause{Why: string(v.Cause.Why), Step: v.Cause.Step, Code: v.Cause.Code, Reason: v.Cause.Reason}
	}
	for i := range v.Steps {
		t.Steps = append(t.Steps, r.step(&v.Steps[i]))
	}
	return t
}

func (r *renderer) step(v *coordinator.StepView) Step {
	s := Step{
		Name: v.Name, Kind: string(v.Kind), Participant: v.Participant, Action: v.Action,
		After: append([]string{}, v.After...), Operations: []Operation{},
	}
	for i := range v.Operations {
		op := &v.Operations[i]
		form := Operation{
			Phase: string(op.Phase), State: string(op.State), Wait: string(op.Wait), Replaying: op.Replaying,
			Attempt: op.Attempt, Counted: op.Counted, Revision: op.Revision,
			ContentSHA256: hex.EncodeToString(op.ContentSHA256[:]), SentAt: op.SentAt, NextAt: op.NextAt,
			Outcome: string(op.LastOutcome), Code: op.LastCode, Reason: op.LastReason,
		}
		if op.State != saga.OperationSent && op.State != saga.OperationWaiting {
			form.NextAt = time.Time{} // nothing is due
		}
		form.Result, form.ResultBase64 = r.payload(op.Result)
		s.Operations = append(s.Operations, form)
	}
	return s
}

// payload embeds JSON and wraps everything else.
func (r *renderer) payload(p saga.Payload) (json.RawMessage, *Bytes) {
	switch {
	case p.IsZero():
		return nil, nil
	case p.Type == "" && utf8.Valid(p.Data) && json.Valid(p.Data):
		return r.verbatim(p.Data), nil
	}
	return nil, &Bytes{Type: p.Type, Data: p.Data}
}

func attemptForms(list []saga.AttemptEnd) []Attempt {
	forms := make([]Attempt, 0, len(list))
	for _, a := range list {
		forms = append(forms, Attempt{
			Step: a.Step, Phase: string(a.Phase), Attempt: a.Attempt, SentAt: a.SentAt, EndedAt: a.EndedAt,
			Outcome: string(a.Outcome), Code: a.Code, Reason: a.Reason,
		})
	}
	return forms
}

func deadLetterPath(id string) string { return "/v1/dead-letters/" + id }

func deadLetterForm(d *dlq.DeadLetter) DeadLetter {
	id := d.ID.String()
	form := DeadLetter{
		ID: id, Kind: string(d.Kind), Status: string(d.Status), Version: d.Version, Cause: d.Cause, Outcome: string(d.Outcome),
		Reason: d.Reason, Fingerprint: d.Fingerprint, Tenant: d.Tenant, Step: d.Step, Phase: string(d.Phase),
		Participant: d.Participant, Action: d.Action, Attempt: d.Attempt, Revision: d.Revision,
		ContentSHA256: hex.EncodeToString(d.ContentSHA256), Traceparent: d.Traceparent, BuriedCount: d.BuriedCount,
		BuriedAt: d.BuriedAt, UpdatedAt: d.UpdatedAt, Links: Links{"self": deadLetterPath(id)},
	}
	if !d.TransactionID.IsZero() {
		form.TransactionID = d.TransactionID.String()
		form.Links["transaction"] = transactionPath(form.TransactionID)
	}
	if d.Status == saga.DeadLetterOpen {
		form.Links["discard"] = deadLetterPath(id) + "/discard"
		if d.Kind == dlq.KindOperation {
			form.Links["replay"] = deadLetterPath(id) + "/replay"
			form.Links["inquire"] = deadLetterPath(id) + "/inquire"
		}
	}
	return form
}

func (r *renderer) deadLetterDetail(d *coordinator.DeadLetterDetail) DeadLetterDetail {
	form := DeadLetterDetail{
		DeadLetter: deadLetterForm(&d.DeadLetter), Edit: r.edit(d.Edit), Attempts: attemptForms(d.Attempts),
		Message: Message{Subject: d.Message.Subject, Headers: map[string][]string{}, BodyBase64: append([]byte{}, d.Message.Data...)},
	}
	for name, values := range d.Message.Header {
		form.Message.Headers[name] = values
	}
	if utf8.Valid(d.Message.Data) {
		text := string(d.Message.Data)
		form.Message.BodyText = &text
	}
	if d.Transaction != nil {
		t := r.transaction(*d.Transaction)
		form.Transaction = &t
	}
	form.Audit = auditForms(d.Audit)
	form.Inquiry, form.Replay = inquiryForm(d.Inquiry, d.ContentSHA256), predictionForm(d.Replay)
	return form
}
