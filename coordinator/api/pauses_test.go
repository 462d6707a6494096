package api_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/saga"
)

const somePause = "/v1/pauses/0198c7a3-0000-7000-8000-000000000001"

// What is paused is shown, waits and is shown to wait; after the resume it goes (E2).
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("nobody", func(saga.Command) saga.Reply { return saga.Reply{Outcome: saga.OutcomeDone} })
	body := `{"scope":"participant","participant":"nobody","reason":" to repair it "}`
	p := decode[api.Pause](w.call("POST", "/v1/pauses", body).expect(201))
	if p.Scope != "participant" || p.Participant != "nobody" || p.Reason != "to repair it" || p.Actor == "" || p.Automatic || p.Links["resume"] != "/v1/pauses/"+p.ID {
		t.Errorf("paused: %+v", p)
	}
	again := decode[api.Pause](w.call("POST", "/v1/pauses", strings.Replace(body, "repair", "see", 1)).expect(200))
	if again.ID != p.ID || again.Reason != p.Reason {
		t.Errorf("again: %+v", again)
	}
	if list := decode[api.Pauses](w.get("/v1/pauses").expect(200)); len(list.Pauses) != 1 || list.Pauses[0].ID != p.ID {
		t.Errorf("the list is %+v", list)
	}
	tx := w.submit(submission("order"))
	if explained := string(w.get(tx + "/explain").expect(200).body); !strings.Contains(explained, `"for":"pause"`) {
		t.Errorf("it is explained as %s", explained)
	}
	list := decode[api.Participants](w.get("/v1/participants").expect(200))
	if len(list.Participants) != 1 || list.Partial {
		t.Fatalf("participants: %+v", list)
	}
	if n := list.Participants[0]; n.Name != "nobody" || n.Breaker != "closed" || n.Waiting["pause"] != 1 || len(n.Paused) != 1 || n.Paused[0].ID != p.ID {
		t.Errorf("participant: %+v", n)
	}
	ended := decode[api.Pause](w.call("DELETE", p.Links["resume"], `{"reason":"repaired"}`).expect(200))
	if ended.ID != p.ID {
		t.Errorf("resumed: %+v", ended)
	}
	w.call("DELETE", p.Links["resume"], `{"reason":"repaired"}`).problem(404, "not_found")
	if got := w.get(tx + "?wait=30s").transaction(); got.Status != "committed" {
		t.Errorf("after the resume it is %s", got.Status)
	}
	if list := w.get("/v1/pauses"); string(list.body) != `{"pauses":[]}` {
		t.Errorf("the list of none is %s", list.body)
	}
}

func TestPauseProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		body, code, field string
		status            int
	}{
		{``, "invalid_json", "pause", 400},
		{`{"reason":"x"}`, "invalid_value", "scope", 400},
		{`{"scope":"everything","reason":"x"}`, "invalid_value", "scope", 400},
		{`{"scope":"all"}`, "missing_reason", "", 400},
		{`{"scope":"all","reason":"  "}`, "missing_reason", "", 400},
		{`{"scope":"all","participant":"bank-a","reason":"x"}`, "invalid_value", "participant", 400},
		{`{"scope":"definition","reason":"x"}`, "invalid_name", "definition", 400},
		{`{"scope":"participant","participant":"a.b","reason":"x"}`, "invalid_name", "participant", 400},
		{`{"scope":"action","participant":"bank-a","reason":"x"}`, "invalid_name", "action", 400},
		{`{"scope":"all","reason":"x","until":"later"}`, "invalid_json", "pause", 400},
		{`{"scope":"all","reason":"` + strings.Repeat("x", 1025) + `"}`, "invalid_reason", "", 400},
	} {
		r := w.call("POST", "/v1/pauses", c.body).problem(c.status, c.code)
		if p := decode[api.Problem](r); p.Field != c.field {
			t.Errorf("%s: field %q, want %q", c.body, p.Field, c.field)
		}
	}
	w.call("DELETE", "/v1/pauses/1", `{"reason":"x"}`).problem(400, "invalid_id")
	w.call("DELETE", somePause, "").problem(400, "missing_reason")
	w.call("DELETE", somePause, `{"reason":"x"}`).problem(404, "not_found")
	if r := w.call("PUT", somePause, ""); r.status != 405 || r.header.Get("Allow") != "DELETE" {
		t.Errorf("PUT: HTTP %d, Allow %q", r.status, r.header.Get("Allow"))
	}
	if n := w.count(`SELECT count(*) FROM pauses`); n != 0 {
		t.Errorf("%d pauses were made", n)
	}
}

// Only operators pause, resume and see what is paused.
func TestPausesAreForOperators(t *testing.T) {
	t.Parallel()
	client := func(c *api.Config) { c.Authenticate, c.Admin = api.Loopback(), nil }
	s := serveFake(t, &fake{}, client)
	for _, route := range [][2]string{{"POST", "/v1/pauses"}, {"GET", "/v1/pauses"}, {"DELETE", somePause}, {"GET", "/v1/participants"}} {
		call(t, s, route[0], route[1], `{"scope":"all","reason":"x"}`).problem(403, "forbidden")
	}
}

func TestPauseErrors(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		err    error
		status int
	}{
		"too_many_pauses": {&saga.InvalidError{Code: coordinator.CodeTooManyPauses, Field: "scope"}, 409},
		"outcome_unknown": {coordinator.ErrOutcomeUnknown, 503},
		"internal":        {errors.New("boom"), 500},
	} {
		s := serveFake(t, &fake{err: c.err})
		call(t, s, "POST", "/v1/pauses", `{"scope":"all","reason":"x"}`).problem(c.status, code)
	}
}
