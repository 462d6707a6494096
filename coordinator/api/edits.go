package api

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Edit is what a replay of a dead letter would send instead of what was sent.
type Edit struct {
	Revision      int             `json:"revision" doc:"of the operation's body, that the replay would send"`
	ContentSHA256 string          `json:"content_sha256" doc:"what an approval is bound to"`
	Reserved      bool            `json:"reserved" doc:"the participant lets nothing before it run any more: it can be approved and replayed"`
	Input         json.RawMessage `json:"input,omitempty" doc:"byte for byte"`
}

// EditForm is the body of an edit.
type EditForm struct {
	Reason string `json:"reason" maxLength:"1024" doc:"text for people"`
	Input  any    `json:"input" doc:"any JSON of at most 128 KiB, sent byte for byte instead of the input that was submitted"`
}

func editRoutes() []route {
	return []route{{
		method: http.MethodPost, path: "/v1/dead-letters/{id}/edit", access: accessOperator, byTenant: true, handle: (*Handler).editDeadLetter, name: "editDeadLetter",
		summary: "Propose another input for what has never run, and reserve it at the participant; replay sends it then, with an approval",
		params:  ifMatchParams("dead letter"),
		request: reflect.TypeFor[EditForm](), required: true,
		answers: []answerDoc{{202, "the participant is asked to reserve it", reflect.TypeFor[Replaying](), nil}},
		codes: append(actionCodes(), "invalid_utf8", "duplicate_member", codeIncomplete, codeSlow, saga.CodeObsolete, saga.CodeNotDeadLetter,
			saga.CodeEditDisabled, saga.CodeIllegal),
	}}
}

// edit renders a proposal.
func (r *renderer) edit(e *dlq.Edit) *Edit {
	if e == nil {
		return nil
	}
	form := &Edit{Revision: e.Revision, ContentSHA256: hex.EncodeToString(e.ContentSHA256[:]), Reserved: e.Reserved}
	form.Input, _ = r.payload(e.Input)
	return form
}

// editDeadLetter proposes another input (S1.5).
func (h *Handler) editDeadLetter(c *call) error {
	p := coordinator.EditParams{Actor: c.id.Actor, Tenant: c.id.scope()}
	var err error
	if p.DeadLetter, err = c.pathUUID("a dead letter"); err != nil {
		return err
	}
	if p.Version, err = c.ifMatch(); err != nil {
		return err
	}
	body, err := c.body(saga.InputBytesMax + actionBytesMax)
	if err != nil {
		return err
	}
	var form struct {
		Reason string          `json:"reason"`
		Input  json.RawMessage `json:"input"`
	}
	if len(body) > 0 {
		if err := saga.UnmarshalStrict(body, "edit", 1, &form); err != nil {
			return err
		}
	}
	if p.Reason, err = requireReason(checkReason(form.Reason)); err != nil {
		return err
	}
	if p.Input = form.Input; p.Input == nil {
		return problemIn("invalid_json", "input", "give the input that is to be sent")
	}
	ctx, cancel := c.bounded()
	defer cancel()
	if err := h.cfg.Admin.Edit(ctx, p); err != nil {
		return err
	}
	id := p.DeadLetter.String()
	c.log.Warn("a dead letter is edited", "dead_letter", id, "actor", p.Actor)
	return c.send(http.StatusAccepted, newRenderer(), Replaying{ID: id, Links: Links{"self": deadLetterPath(id)}})
}
