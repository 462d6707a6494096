package client_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/client"
)

const pauseJSON = `{"id":"` + id + `","scope":"action","participant":"bank-a","action":"debit","reason":"why","actor":"ann","automatic":true,"created_at":"2026-01-02T03:04:05Z"}`

// A pause and a resume may be repeated: a second one changes nothing.
func TestPauseAndResume(t *testing.T) {
	s := serve(t, cut, answer(201, pauseJSON), problem(503, "outcome_unknown"), answer(200, pauseJSON), problem(404, "not_found"))
	c := s.client(t, client.Options{})
	scope := client.Scope{Scope: client.ScopeAction, Participant: "bank-a", Action: "debit"}
	p, err := c.Pause(t.Context(), scope, "why")
	if err != nil || p.Scope != scope || p.ID.String() != id || p.Reason != "why" || p.Actor != "ann" || !p.Automatic || p.CreatedAt.Year() != 2026 {
		t.Errorf("paused: %+v, %v", p, err)
	}
	if ended, err := c.Resume(t.Context(), p.ID, "done"); err != nil || ended.ID != p.ID {
		t.Errorf("resumed: %+v, %v", ended, err)
	}
	var problem *client.Problem
	if _, err := c.Resume(t.Context(), uuid.UUID{1}, "done"); !errors.As(err, &problem) || problem.Code != client.CodeNotFound {
		t.Errorf("resumed again: %v", err)
	}
	var sent []string
	for _, r := range s.requests() {
		sent = append(sent, r.method+" "+r.url+" "+r.body)
	}
	pause := `POST /v1/pauses {"scope":"action","participant":"bank-a","action":"debit","reason":"why"}`
	resume := `DELETE /v1/pauses/` + id + ` {"reason":"done"}`
	if want := []string{pause, pause, resume, resume, `DELETE /v1/pauses/01000000-0000-0000-0000-000000000000 {"reason":"done"}`}; !reflect.DeepEqual(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

func TestPausesAndParticipants(t *testing.T) {
	s := serve(t, answer(200, `{"pauses":[`+pauseJSON+`]}`), answer(200, `{"participants":[{"name":"bank-a","breaker":"open","in_flight":2,
		"draining":true,"ceiling":500,"waiting":{"breaker":7},"paused":[`+pauseJSON+`]}],"partial":true}`))
	c := s.client(t, client.Options{})
	list, err := c.Pauses(t.Context())
	if err != nil || len(list) != 1 || list[0].Action != "debit" {
		t.Errorf("pauses: %+v, %v", list, err)
	}
	got, err := c.Participants(t.Context())
	want := client.Participants{Partial: true, Participants: []client.Participant{{
		Name: "bank-a", Breaker: "open", InFlight: 2, Draining: true, Ceiling: 500, Waiting: map[string]int{"breaker": 7}, Paused: list,
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("participants: %+v, %v", got, err)
	}
}
