package api

import (
	"net/http"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

// Inquiry is what a participant was asked about an operation, and what it said.
type Inquiry struct {
	AskedAt       time.Time `json:"asked_at"`
	AnsweredAt    time.Time `json:"answered_at,omitzero" doc:"absent: no answer, which proves nothing"`
	Outcome       string    `json:"outcome,omitempty" doc:"state, or what else it answered"`
	State         string    `json:"state,omitempty" doc:"of the barrier row: absent, trying, tried, refused, confirmed, cancelled, past_retention"`
	Code          string    `json:"code,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	Revision      int       `json:"revision,omitempty"`
	SameContent   *bool     `json:"same_content,omitempty" doc:"whether it has recorded what the dead letter holds; absent if it has recorded nothing of the phase"`
	Authoritative bool      `json:"authoritative" doc:"it is the state of the barrier row, true at that moment"`
}

// Prediction is what a replay would do, as the coordinator that answers sees it.
type Prediction struct {
	Effect string `json:"effect" enum:"goes_forward,no_op,conflict,obsolete,not_open,needs_approval,paused,breaker_open,unknown"`
	Reason string `json:"reason" doc:"text for people"`
}

// Inquired is the answer to an inquiry: it was sent, and what comes back is shown with the object.
type Inquired struct {
	Links Links `json:"links" doc:"self: to be read again"`
}

func inquiryForm(i *saga.Inquiry, content []byte) *Inquiry {
	if i == nil {
		return nil
	}
	form := &Inquiry{
		AskedAt: i.AskedAt, AnsweredAt: i.AnsweredAt, Outcome: string(i.Outcome), State: string(i.State), Code: i.Code, Reason: i.Reason,
		Revision: i.Revision, Authoritative: i.Authoritative(),
	}
	var sum [32]byte
	copy(sum[:], content)
	if same, known := i.SameContent(sum); known {
		form.SameContent = &same
	}
	return form
}

func predictionForm(p saga.Prediction) Prediction {
	return Prediction{Effect: string(p.Effect), Reason: p.Reason}
}

// desk returns what needs the coordinator's database.
func (h *Handler) desk() (Desk, error) {
	if h.cfg.Desk == nil {
		return nil, problemOf(codeUnsupported)
	}
	return h.cfg.Desk, nil
}

// inquireDeadLetter asks the participant what it has recorded (U3).
func (h *Handler) inquireDeadLetter(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	id, err := c.pathUUID("a dead letter")
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	if err := desk.Inquire(ctx, coordinator.InquireParams{Actor: c.id.Actor, Tenant: c.id.scope(), DeadLetter: id}); err != nil {
		return err
	}
	return c.send(http.StatusAccepted, newRenderer(), Inquired{Links: Links{"self": deadLetterPath(id.String())}})
}
