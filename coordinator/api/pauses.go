package api

import (
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// Pause is something of which nothing is sent.
type Pause struct {
	ID          string    `json:"id" format:"uuid"`
	Scope       string    `json:"scope" enum:"all,definition,participant,action"`
	Definition  string    `json:"definition,omitempty" doc:"with scope definition"`
	Participant string    `json:"participant,omitempty" doc:"with scope participant and action"`
	Action      string    `json:"action,omitempty" doc:"with scope action"`
	Reason      string    `json:"reason"`
	Actor       string    `json:"actor"`
	Automatic   bool      `json:"automatic" doc:"a coordinator paused it: too many dead letters of one cause"`
	CreatedAt   time.Time `json:"created_at"`
	Links       Links     `json:"links" doc:"resume: to be deleted"`
}

// Pauses lists what is paused, the oldest first, at most 200.
type Pauses struct {
	Pauses []Pause `json:"pauses" nullable:"false"`
}

// PauseForm is the body that pauses something.
type PauseForm struct {
	Scope       string `json:"scope" enum:"all,definition,participant,action"`
	Definition  string `json:"definition,omitempty" doc:"with scope definition, and only then"`
	Participant string `json:"participant,omitempty" doc:"with scope participant or action, and only then"`
	Action      string `json:"action,omitempty" doc:"with scope action, and only then"`
	Reason      string `json:"reason" maxLength:"1024" doc:"text for people"`
}

// Participant is how a participant does, as the coordinator that answers sees it.
type Participant struct {
	Name     string         `json:"name"`
	Breaker  string         `json:"breaker" enum:"closed,open,half_open" doc:"open: it is silent, and nothing is sent; half_open: a few attempts find out"`
	InFlight int            `json:"in_flight" doc:"attempts of all coordinators whose reply is awaited"`
	Draining bool           `json:"draining" doc:"what gathered while it was silent is sent at the ceiling"`
	Ceiling  int            `json:"ceiling" doc:"commands per second while it is draining; 0 if it was sent nothing yet"`
	Waiting  map[string]int `json:"waiting" nullable:"false" doc:"operations that are not sent, by what they wait for: backoff, lease, budget, breaker, limit, ceiling, pause"`
	Paused   []Pause        `json:"paused" nullable:"false" doc:"pauses of everything, of it and of its actions; not those of definitions"`
}

// Participants lists the participants that something was sent to, that something waits for, or that are paused, by name.
type Participants struct {
	Participants []Participant `json:"participants" nullable:"false"`
	Partial      bool          `json:"partial" doc:"true: waiting counts only the 10,000 transactions that are due first"`
}

func pauseRoutes() []route {
	pause := reflect.TypeFor[Pause]()
	return []route{
		{
			method: http.MethodPost, path: "/v1/pauses", access: accessOperator, handle: (*Handler).pause, name: "pause",
			summary: "Send nothing more of a scope; replies are merged and deadlines go on; repetitions change nothing",
			request: reflect.TypeFor[PauseForm](), required: true,
			answers: []answerDoc{{201, "it is paused", pause, nil}, {200, "it was paused before, for the reason that the answer has", pause, nil}},
			codes: []string{
				"invalid_json", "invalid_utf8", "duplicate_member", "invalid_name", "invalid_value", codeMissingReason, codeInvalidReason, codeIncomplete,
				codeSlow, saga.CodeTooLarge, codeMediaType, codeDuplicateHeader, coordinator.CodeTooManyPauses, codeOverloaded, codeOutcomeUnknown,
			},
		},
		{
			method: http.MethodGet, path: "/v1/pauses", access: accessViewer, handle: (*Handler).listPauses, name: "listPauses",
			summary: "List what is paused",
			answers: []answerDoc{{200, "the oldest first, at most 200", reflect.TypeFor[Pauses](), nil}},
		},
		{
			method: http.MethodDelete, path: "/v1/pauses/{id}", access: accessOperator, handle: (*Handler).resume, name: "resume",
			summary: "End a pause: what it held is sent within about five seconds, a large backlog at a bounded rate",
			request: reflect.TypeFor[ReasonForm](), required: true,
			answers: []answerDoc{{200, "the pause that has ended", pause, nil}},
			codes: []string{
				"invalid_id", "invalid_json", codeMissingReason, codeInvalidReason, codeIncomplete, codeSlow, saga.CodeTooLarge, codeMediaType,
				codeDuplicateHeader, codeNotFound, codeOverloaded, codeOutcomeUnknown,
			},
		},
		{
			method: http.MethodGet, path: "/v1/participants", access: accessViewer, handle: (*Handler).listParticipants, name: "listParticipants",
			summary: "Tell how the participants do, and what waits for them",
			answers: []answerDoc{{200, "by name", reflect.TypeFor[Participants](), nil}},
		},
	}
}

func pauseForm(p *coordinator.Paused) Pause {
	id := p.ID.String()
	return Pause{
		ID: id, Scope: string(p.Scope), Definition: p.Definition, Participant: p.Participant, Action: p.Action, Reason: p.Reason,
		Actor: p.Actor, Automatic: p.Automatic, CreatedAt: p.CreatedAt, Links: Links{"resume": "/v1/pauses/" + id},
	}
}

func pauseForms(list []coordinator.Paused) []Pause {
	forms := make([]Pause, 0, len(list))
	for i := range list {
		forms = append(forms, pauseForm(&list[i]))
	}
	return forms
}

// pause holds a scope back (E2).
func (h *Handler) pause(c *call) error {
	body, err := c.body(actionBytesMax)
	if err != nil {
		return err
	}
	var form PauseForm
	if err := saga.UnmarshalStrict(body, "pause", 1, &form); err != nil {
		return err
	}
	reason, err := requireReason(checkReason(form.Reason))
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	what := flow.Pause{Scope: flow.Scope(form.Scope), Definition: form.Definition, Participant: form.Participant, Action: form.Action}
	p, created, err := h.cfg.Admin.Pause(ctx, coordinator.PauseParams{Actor: c.id.Actor, What: what, Reason: reason})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.log.Warn("paused", "what", p.String(), "actor", p.Actor)
	}
	return c.send(status, newRenderer(), pauseForm(&p))
}

// listPauses answers with what is paused.
func (h *Handler) listPauses(c *call) error {
	list, err := h.cfg.Admin.Pauses(c.r.Context())
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, newRenderer(), Pauses{Pauses: pauseForms(list)})
}

// resume ends a pause (E2).
func (h *Handler) resume(c *call) error {
	id, err := c.pathUUID("a pause")
	if err != nil {
		return err
	}
	reason, err := requireReason(c.reason("resume"))
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	p, err := h.cfg.Admin.Resume(ctx, coordinator.ResumeParams{Actor: c.id.Actor, ID: id, Reason: reason})
	if err != nil {
		return err
	}
	c.log.Warn("resumed", "what", p.String(), "actor", c.id.Actor)
	return c.send(http.StatusOK, newRenderer(), pauseForm(&p))
}

// listParticipants answers with how the participants do.
func (h *Handler) listParticipants(c *call) error {
	states, err := h.cfg.Admin.Participants(c.r.Context())
	if err != nil {
		return err
	}
	form := Participants{Participants: []Participant{}, Partial: states.Partial}
	for i := range states.Participants {
		s := &states.Participants[i]
		p := Participant{
			Name: s.Participant, Breaker: string(s.Breaker), InFlight: s.InFlight, Draining: s.Draining, Ceiling: s.Ceiling,
			Waiting: map[string]int{}, Paused: pauseForms(s.Paused),
		}
		for wait, n := range s.Waiting {
			p.Waiting[string(wait)] = n
		}
		form.Participants = append(form.Participants, p)
	}
	return c.send(http.StatusOK, newRenderer(), form)
}

// checkReason returns the reason without white space around it.
func checkReason(reason string) (string, error) {
	if len(reason) > saga.ReasonBytesMax || strings.ContainsRune(reason, 0) {
		return "", problemOf(codeInvalidReason)
	}
	return strings.TrimSpace(reason), nil
}
