package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

const jobJSON = `{"id":"` + id + `","version":4,"state":"planned","actor":"ann","reason":"fixed","selection":{"fingerprint":"0123456789abcdef"},"canary":5,"rate":50,
	"plan_sha256":"ab","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","items":{"pending":3},"predicted":{"goes_forward":2,"no_op":1},"links":{}}`

// A job is made and commanded with what was read of it, and each of that is sent once: what became of it is unknown if no
// answer comes, and the job tells.
func TestJobs(t *testing.T) {
	made, read := answer(201, jobJSON), answer(200, jobJSON)
	s := serve(t, slices.Concat([]http.HandlerFunc{made}, slices.Repeat([]http.HandlerFunc{read}, 2), []http.HandlerFunc{problem(412, "stale")},
		slices.Repeat([]http.HandlerFunc{cut}, 2), []http.HandlerFunc{read})...)
	c := s.client(t, client.Options{})
	job, err := c.CreateJob(t.Context(), client.JobForm{Selection: client.Selection{Fingerprint: "0123456789abcdef"}, Canary: 5, Reason: "fixed"})
	if err != nil || job.ID.String() != id || job.State != saga.JobPlanned || job.Items[saga.JobItemPending] != 3 || job.Predicted[saga.ReplayNoOp] != 1 ||
		job.Selection.Fingerprint != "0123456789abcdef" || job.CreatedAt.Year() != 2026 {
		t.Fatalf("made: %+v, %v", job, err)
	}
	if _, err := c.StartJob(t.Context(), job, "go"); err != nil {
		t.Error(err)
	}
	if _, err := c.CommandJob(t.Context(), job.ID, job.Version, saga.JobCommandPause, "look"); err != nil {
		t.Error(err)
	}
	var problem *client.Problem
	if _, err := c.CommandJob(t.Context(), job.ID, 3, saga.JobCommandAbort, "no"); !errors.As(err, &problem) || problem.Status != 412 {
		t.Errorf("a command to a job that has changed: %v", err)
	}
	var unknown *client.UnknownError
	if _, err := c.CreateJob(t.Context(), client.JobForm{Reason: "x"}); !errors.As(err, &unknown) {
		t.Errorf("made without an answer: %v", err)
	}
	if _, err := c.CommandJob(t.Context(), job.ID, 4, saga.JobCommandResume, "on"); !errors.As(err, &unknown) {
		t.Errorf("commanded without an answer: %v", err)
	}
	if got, err := c.Job(t.Context(), job.ID); err != nil || !reflect.DeepEqual(got, job) {
		t.Errorf("read: %+v, %v", got, err)
	}
	want := []string{
		`POST /v1/jobs  {"selection":{"fingerprint":"0123456789abcdef"},"canary":5,"reason":"fixed"}`,
		`POST /v1/jobs/` + id + `/start "4" {"plan_sha256":"ab","reason":"go"}`,
		`POST /v1/jobs/` + id + `/pause "4" {"reason":"look"}`,
		`POST /v1/jobs/` + id + `/abort "3" {"reason":"no"}`,
		`POST /v1/jobs  {"selection":{},"reason":"x"}`,
		`POST /v1/jobs/` + id + `/resume "4" {"reason":"on"}`,
		`GET /v1/jobs/` + id + `  `,
	}
	if sent := s.lines(); !reflect.DeepEqual(sent, want) {
		t.Errorf("sent\n%q, want\n%q", sent, want)
	}
}

// lines are what came, each with its If-Match.
func (s *script) lines() (list []string) {
	for _, r := range s.requests() {
		list = append(list, fmt.Sprintf("%s %s %s %s", r.method, r.url, r.header.Get("If-Match"), r.body))
	}
	return list
}

// Jobs, their dead letters and groups are read page by page.
func TestPagesOfOperators(t *testing.T) {
	item := `{"seq":%d,"dead_letter_id":"` + id + `","version":1,"state":"refused","code":"obsolete","effect":"goes_forward","ended_at":"2026-01-02T03:04:05Z","links":{}}`
	group := `{"fingerprint":"%016x","kind":"operation","cause":"panic","counts":{"open":2},"note_count":1,"links":{}}`
	s := serve(t,
		answer(200, `{"jobs":[`+jobJSON+`],"next_cursor":"j"}`), answer(200, `{"jobs":[`+jobJSON+`]}`),
		answer(200, `{"items":[`+fmt.Sprintf(item, 1)+`],"next_cursor":"i"}`), answer(200, `{"items":[`+fmt.Sprintf(item, 2)+`]}`),
		answer(200, `{"groups":[`+fmt.Sprintf(group, 1)+`],"next_cursor":"g"}`), answer(200, `{"groups":[`+fmt.Sprintf(group, 2)+`]}`),
		answer(404, `{"status":404,"code":"not_found","title":"t","detail":"d"}`))
	c := s.client(t, client.Options{})
	n := 0
	for job, err := range c.AllJobs(t.Context(), saga.JobPlanned, 1) {
		if n++; err != nil || job.Reason != "fixed" {
			t.Errorf("%+v, %v", job, err)
		}
	}
	for i, err := range c.AllJobItems(t.Context(), uuid.MustParse(id), saga.JobItemRefused, 1) {
		if n++; err != nil || i.Seq != n-2 || i.Code != "obsolete" || i.Effect != saga.ReplayGoesForward || i.DeadLetterID.String() != id || i.EndedAt.IsZero() {
			t.Errorf("%+v, %v", i, err)
		}
	}
	for g, err := range c.AllGroups(t.Context(), client.GroupFilter{Status: saga.DeadLetterOpen, Participant: "bank-a", Limit: 1}) {
		if n++; err != nil || g.Fingerprint != fmt.Sprintf("%016x", n-4) || g.Counts[saga.DeadLetterOpen] != 2 || g.NoteCount != 1 {
			t.Errorf("%+v, %v", g, err)
		}
	}
	for _, err := range c.AllJobs(t.Context(), "", 0) {
		var problem *client.Problem
		if n++; !errors.As(err, &problem) || problem.Code != client.CodeNotFound {
			t.Errorf("listed: %v", err)
		}
	}
	if n != 7 {
		t.Errorf("%d entries", n)
	}
	want := []string{
		"GET /v1/jobs?limit=1&state=planned  ", "GET /v1/jobs?cursor=j&limit=1&state=planned  ",
		"GET /v1/jobs/" + id + "/items?limit=1&state=refused  ", "GET /v1/jobs/" + id + "/items?cursor=i&limit=1&state=refused  ",
		"GET /v1/dead-letter-groups?limit=1&participant=bank-a&status=open  ", "GET /v1/dead-letter-groups?cursor=g&limit=1&participant=bank-a&status=open  ",
		"GET /v1/jobs  ",
	}
	if sent := s.lines(); !reflect.DeepEqual(sent, want) {
		t.Errorf("sent\n%q, want\n%q", sent, want)
	}
}

// A group is read with its notes and predictions. A note is written once; an inquiry may be repeated.
func TestGroup(t *testing.T) {
	const note = `{"id":"` + id + `","at":"2026-01-02T03:04:05Z","actor":"ann","note":"on Mondays"}`
	answers := []http.HandlerFunc{answer(200, `{"fingerprint":"0123456789abcdef","kind":"operation","cause":"panic","counts":{"open":1},"note_count":1,"links":{},"notes":[`+note+`],
		"sample":[{"id":"`+id+`","status":"open","inquiry":{"outcome":"state","state":"tried","same_content":true,"authoritative":true},"replay":{"effect":"no_op","reason":"it has it"}}],
		"predicted":{"no_op":1}}`), answer(201, note)}
	answers = append(append(answers, slices.Repeat([]http.HandlerFunc{cut}, 2)...), answer(202, `{"links":{}}`))
	s := serve(t, answers...)
	c := s.client(t, client.Options{})
	g, err := c.Group(t.Context(), "0123456789abcdef")
	if err != nil || len(g.Notes) != 1 || g.Notes[0].Note != "on Mondays" || g.Predicted[saga.ReplayNoOp] != 1 || len(g.Sample) != 1 ||
		g.Sample[0].Replay.Effect != saga.ReplayNoOp || g.Sample[0].Inquiry.State != saga.BarrierTried || !*g.Sample[0].Inquiry.SameContent || g.Sample[0].ID.String() != id {
		t.Errorf("read: %+v, %v", g, err)
	}
	if n, err := c.NoteGroup(t.Context(), "0123456789abcdef", "on Mondays"); err != nil || n.Actor != "ann" || n.At.Year() != 2026 {
		t.Errorf("noted: %+v, %v", n, err)
	}
	var unknown *client.UnknownError
	if _, err := c.NoteGroup(t.Context(), "0123456789abcdef", "twice?"); !errors.As(err, &unknown) {
		t.Errorf("noted without an answer: %v", err)
	}
	if err := c.InquireGroup(t.Context(), "0123456789abcdef"); err != nil {
		t.Error(err)
	}
	want := []string{
		"GET /v1/dead-letter-groups/0123456789abcdef  ",
		`POST /v1/dead-letter-groups/0123456789abcdef/notes  {"note":"on Mondays"}`, `POST /v1/dead-letter-groups/0123456789abcdef/notes  {"note":"twice?"}`,
		"POST /v1/dead-letter-groups/0123456789abcdef/inquire  ", "POST /v1/dead-letter-groups/0123456789abcdef/inquire  ",
	}
	if sent := s.lines(); !reflect.DeepEqual(sent, want) {
		t.Errorf("sent\n%q, want\n%q", sent, want)
	}
}
