package api

import (
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// Selection says which open dead letters a job replays.
type Selection struct {
	Fingerprint string `json:"fingerprint,omitempty"`
	Participant string `json:"participant,omitempty"`
	Action      string `json:"action,omitempty"`
	Cause       string `json:"cause,omitempty"`
	Transaction string `json:"transaction,omitempty"`
}

// JobForm is the body that makes a bulk replay.
type JobForm struct {
	Selection Selection `json:"selection" doc:"at least one member"`
	Canary    int       `json:"canary,omitempty" doc:"how many go first; absent: 0, none"`
	Rate      int       `json:"rate,omitempty" doc:"replays per second, 1 to 1000; absent: 50"`
	Reason    string    `json:"reason" maxLength:"1024" doc:"text for people"`
}

// StartForm is the body that starts a bulk replay.
type StartForm struct {
	Reason     string `json:"reason" maxLength:"1024" doc:"text for people"`
	PlanSHA256 string `json:"plan_sha256" doc:"of the job that was read"`
}

// Job is a bulk replay.
type Job struct {
	ID         string         `json:"id" format:"uuid"`
	Version    int64          `json:"version" doc:"of the state: the ETag"`
	State      string         `json:"state" enum:"planning,planned,running,paused,finished,aborted"`
	Why        string         `json:"why,omitempty" doc:"why it has paused itself"`
	Tenant     string         `json:"tenant,omitempty"`
	Actor      string         `json:"actor"`
	Reason     string         `json:"reason"`
	Selection  Selection      `json:"selection" doc:"for people: what it selected is frozen"`
	Canary     int            `json:"canary"`
	Rate       int            `json:"rate"`
	PlanSHA256 string         `json:"plan_sha256"`
	CreatedAt  time.Time      `json:"created_at"`
	UpdatedAt  time.Time      `json:"updated_at"`
	FinishedAt time.Time      `json:"finished_at,omitzero"`
	Items      map[string]int `json:"items,omitempty" doc:"by state; absent in lists"`
	CanaryNow  map[string]int `json:"canary_items,omitempty" doc:"those of the canary, by state"`
	Predicted  map[string]int `json:"predicted,omitempty" doc:"by what the dry run says that their replays would do"`
	Links      Links          `json:"links" doc:"self, items; start, pause, resume and abort as its state allows"`
}

// Jobs is a page of bulk replays, the newest first.
type Jobs struct {
	Jobs       []Job  `json:"jobs" nullable:"false"`
	NextCursor string `json:"next_cursor,omitempty" doc:"of the next page; absent on the last"`
}

// JobItem is one dead letter of a bulk replay.
type JobItem struct {
	Seq          int       `json:"seq"`
	DeadLetterID string    `json:"dead_letter_id" format:"uuid"`
	Version      int64     `json:"version" doc:"of the dead letter, as selected"`
	State        string    `json:"state" enum:"pending,dispatched,verified,failed_again,refused,skipped"`
	Code         string    `json:"code,omitempty" doc:"of a refused or skipped one"`
	Effect       string    `json:"effect,omitempty" doc:"as the dry run predicted it"`
	DispatchedAt time.Time `json:"dispatched_at,omitzero"`
	EndedAt      time.Time `json:"ended_at,omitzero"`
	Links        Links     `json:"links" doc:"dead_letter"`
}

// JobItems is a page of a bulk replay's dead letters, in the order in which they go.
type JobItems struct {
	Items      []JobItem `json:"items" nullable:"false"`
	NextCursor string    `json:"next_cursor,omitempty" doc:"of the next page; absent on the last"`
}

var (
	jobStates     = []string{"planning", "planned", "running", "paused", "finished", "aborted"}
	jobItemStates = []string{"pending", "dispatched", "verified", "failed_again", "refused", "skipped"}
)

func jobRoutes() []route {
	job, etag := reflect.TypeFor[Job](), []*huma.Param{etagHeader("job")}
	body := []string{"invalid_json", "invalid_utf8", "duplicate_member", codeMissingReason, codeInvalidReason, codeIncomplete, codeSlow, saga.CodeTooLarge, codeMediaType, codeDuplicateHeader, codeOverloaded, codeOutcomeUnknown, codeUnsupported}
	command := func(name saga.JobCommand, summary string, form reflect.Type, codes ...string) route {
		return route{
			method: http.MethodPost, path: "/v1/jobs/{id}/" + string(name), access: accessOperator, byTenant: true, name: string(name) + "Job", summary: summary,
			handle: func(h *Handler, c *call) error { return h.commandJob(c, name) },
			params: ifMatchParams("job"), request: form, required: true,
			answers: []answerDoc{{200, "the job as it is after that", job, etag}},
			codes:   append(append(actionCodes(), saga.CodeJobState, codeUnsupported), codes...),
		}
	}
	reason := reflect.TypeFor[ReasonForm]()
	return []route{
		{
			method: http.MethodPost, path: "/v1/jobs", access: accessOperator, byTenant: true, handle: (*Handler).createJob, name: "createJob",
			summary: "Make a bulk replay of the open dead letters that are selected, and begin its dry run: nothing is replayed before it is started",
			request: reflect.TypeFor[JobForm](), required: true,
			answers: []answerDoc{{201, "it is planned", job, append([]*huma.Param{param("header", "Location", "the job", stringSchema())}, etag...)}},
			codes:   append(body, "invalid_value", "invalid_name", "invalid_id", coordinator.CodeEmptySelection, codeNothingSelected, codeTooManySelected),
		},
		{
			method: http.MethodGet, path: "/v1/jobs", access: accessOperator, byTenant: true, handle: (*Handler).listJobs, name: "listJobs", summary: "List bulk replays, the newest first",
			params:  append([]*huma.Param{param("query", "state", "only those", stringSchema(jobStates...))}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[Jobs](), nil}}, codes: []string{codeInvalidQuery, codeInvalidCursor, codeUnsupported},
		},
		{
			method: http.MethodGet, path: "/v1/jobs/{id}", access: accessOperator, byTenant: true, handle: (*Handler).getJob, name: "getJob",
			summary: "Read a bulk replay with counts of its items", answers: []answerDoc{{200, "the job", job, etag}}, codes: []string{"invalid_id", codeNotFound, codeUnsupported},
		},
		{
			method: http.MethodGet, path: "/v1/jobs/{id}/items", access: accessOperator, byTenant: true, handle: (*Handler).listJobItems, name: "listJobItems",
			summary: "List the dead letters of a bulk replay, in the order in which they go",
			params:  append([]*huma.Param{param("query", "state", "only those", stringSchema(jobItemStates...))}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[JobItems](), nil}}, codes: []string{"invalid_id", codeNotFound, codeInvalidQuery, codeInvalidCursor, codeUnsupported},
		},
		command(saga.JobCommandStart, "Begin to replay, by the plan that was read", reflect.TypeFor[StartForm](), codePlanChanged),
		command(saga.JobCommandPause, "Replay nothing more until it is resumed", reason),
		command(saga.JobCommandResume, "Go on, also behind a canary that failed", reason),
		command(saga.JobCommandAbort, "End it: what was not replayed is skipped", reason),
	}
}

func jobPath(id string) string { return "/v1/jobs/" + id }

func jobForm(j *dlq.Job) Job {
	self := jobPath(j.ID.String())
	form := Job{
		ID: j.ID.String(), Version: j.Version, State: string(j.State), Why: j.Why, Tenant: j.Tenant, Actor: j.Actor, Reason: j.Reason,
		Selection: Selection(j.Selection), Canary: j.Canary, Rate: j.Rate, PlanSHA256: hex.EncodeToString(j.PlanSHA256), CreatedAt: j.CreatedAt,
		UpdatedAt: j.UpdatedAt, FinishedAt: j.FinishedAt, Links: Links{"self": self, "items": self + "/items"},
	}
	for _, command := range []saga.JobCommand{saga.JobCommandStart, saga.JobCommandPause, saga.JobCommandResume, saga.JobCommandAbort} {
		if _, err := saga.JudgeJob(j.State, j.Version, command, j.Version, true); err == nil {
			form.Links[string(command)] = self + "/" + string(command)
		}
	}
	return form
}

func jobDetailForm(d *coordinator.JobDetail) Job {
	form := jobForm(&d.Job)
	form.Items, form.CanaryNow, form.Predicted = map[string]int{}, map[string]int{}, map[string]int{}
	for state, n := range d.Items {
		form.Items[string(state)] = n
	}
	for state, n := range d.CanaryNow {
		form.CanaryNow[string(state)] = n
	}
	for effect, n := range d.Predicted {
		if effect != "" {
			form.Predicted[string(effect)] = n
		}
	}
	return form
}

func (c *call) sendJob(status int, d *coordinator.JobDetail) error {
	c.w.Header().Set("ETag", etagOf(d.Version))
	return c.send(status, newRenderer(), jobDetailForm(d))
}

// createJob makes a bulk replay (D5).
func (h *Handler) createJob(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	body, err := c.body(actionBytesMax)
	if err != nil {
		return err
	}
	form := JobForm{Rate: saga.JobRateDefault}
	if err := saga.UnmarshalStrict(body, "job", 2, &form); err != nil {
		return err
	}
	p := dlq.JobParams{Actor: c.id.Actor, Tenant: c.id.scope(), Selection: dlq.Selection(form.Selection), Canary: form.Canary, Rate: form.Rate}
	if p.Reason, err = requireReason(checkReason(form.Reason)); err != nil {
		return err
	}
	if err := checkSelection(&form.Selection); err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	d, err := desk.CreateJob(ctx, p)
	if err != nil {
		return err
	}
	c.log.Warn("a bulk replay is made", "job", d.ID.String(), "actor", p.Actor)
	c.w.Header().Set("Location", jobPath(d.ID.String()))
	return c.sendJob(http.StatusCreated, &d)
}

func checkSelection(s *Selection) error {
	if s.Fingerprint != "" && !checkFingerprint(s.Fingerprint) {
		return problemIn("invalid_value", "selection.fingerprint", "use the fingerprint of a group: 16 hexadecimal digits")
	}
	for field, name := range map[string]string{"participant": s.Participant, "action": s.Action, "cause": s.Cause} {
		if name != "" && saga.CheckName(field, name) != nil {
			return problemIn("invalid_name", "selection."+field, "use 1 to 64 letters, digits, '-' or '_', beginning with a letter or digit")
		}
	}
	if s.Transaction != "" {
		if _, err := saga.ParseID(s.Transaction); err != nil {
			return problemIn("invalid_id", "selection.transaction", "use the id of a transaction")
		}
	}
	return nil
}

// commandJob starts, pauses, resumes or aborts a bulk replay.
func (h *Handler) commandJob(c *call, command saga.JobCommand) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	p := coordinator.JobParams{Actor: c.id.Actor, Tenant: c.id.scope(), Command: command}
	if p.ID, err = c.pathUUID("a job"); err != nil {
		return err
	}
	if p.Version, err = c.ifMatch(); err != nil {
		return err
	}
	if command == saga.JobCommandStart {
		p.Reason, p.PlanSHA256, err = c.startForm()
	} else {
		p.Reason, err = requireReason(c.reason(string(command)))
	}
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	d, err := desk.CommandJob(ctx, p)
	if err != nil {
		return err
	}
	c.log.Warn("a bulk replay is told to "+string(command), "job", p.ID.String(), "actor", p.Actor)
	return c.sendJob(http.StatusOK, &d)
}

// startForm reads the reason and the plan of a start. What is no hash is another plan than the job's.
func (c *call) startForm() (reason string, plan []byte, err error) {
	body, err := c.body(actionBytesMax)
	if err != nil {
		return "", nil, err
	}
	var form StartForm
	if err := saga.UnmarshalStrict(body, "job", 1, &form); err != nil {
		return "", nil, err
	}
	if plan, err = hex.DecodeString(form.PlanSHA256); err != nil {
		plan = nil
	}
	reason, err = requireReason(checkReason(form.Reason))
	return reason, plan, err
}

// getJob answers with a bulk replay.
func (h *Handler) getJob(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	id, err := c.pathUUID("a job")
	if err != nil {
		return err
	}
	d, err := desk.Job(c.r.Context(), id, c.id.scope())
	if err != nil {
		return err
	}
	return c.sendJob(http.StatusOK, &d)
}

// listJobs answers with a page of bulk replays.
func (h *Handler) listJobs(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	f := dlq.JobFilter{Tenant: c.id.scope()}
	state, err := c.queryOneOf("state", jobStates)
	if err != nil {
		return err
	}
	limit, err := c.queryLimit()
	if err != nil {
		return err
	}
	before, err := c.queryCursor(cursorJobs)
	if err != nil {
		return err
	}
	f.State, f.Before, f.Limit = saga.JobState(state), uuid.UUID(before), limit+1
	jobs, err := desk.Jobs(c.r.Context(), f)
	if err != nil {
		return err
	}
	page := Jobs{Jobs: []Job{}}
	if len(jobs) > limit {
		jobs = jobs[:limit]
		page.NextCursor = cursorOf(cursorJobs, jobs[limit-1].ID)
	}
	for i := range jobs {
		page.Jobs = append(page.Jobs, jobForm(&jobs[i]))
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

// listJobItems answers with a page of a bulk replay's dead letters.
func (h *Handler) listJobItems(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	id, err := c.pathUUID("a job")
	if err != nil {
		return err
	}
	state, err := c.queryOneOf("state", jobItemStates)
	if err != nil {
		return err
	}
	limit, err := c.queryLimit()
	if err != nil {
		return err
	}
	place, err := c.queryCursor(cursorJobItems)
	if err != nil {
		return err
	}
	after := binary.BigEndian.Uint64(place[:8])
	if after > saga.JobItemsMax {
		return problemOf(codeInvalidCursor)
	}
	items, err := desk.JobItems(c.r.Context(), id, c.id.scope(), dlq.JobItemFilter{After: int(after), State: saga.JobItemState(state), Limit: limit + 1})
	if err != nil {
		return err
	}
	page := JobItems{Items: []JobItem{}}
	if len(items) > limit {
		items = items[:limit]
		binary.BigEndian.PutUint64(place[:8], uint64(items[limit-1].Seq))
		page.NextCursor = cursorOf(cursorJobItems, place)
	}
	for i := range items {
		page.Items = append(page.Items, jobItemForm(&items[i]))
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

func jobItemForm(i *dlq.JobItem) JobItem {
	return JobItem{
		Seq: i.Seq, DeadLetterID: i.DeadLetter.String(), Version: i.Version, State: string(i.State), Code: i.Code, Effect: string(i.Effect),
		DispatchedAt: i.DispatchedAt, EndedAt: i.EndedAt, Links: Links{"dead_letter": deadLetterPath(i.DeadLetter.String())},
	}
}
