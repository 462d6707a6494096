package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga"
)

// Selection says which open dead letters a job replays. At least one field is needed.
type Selection struct {
	Fingerprint string `json:"fingerprint,omitzero"`
	Participant string `json:"participant,omitzero"`
	Action      string `json:"action,omitzero"`
	Cause       string `json:"cause,omitzero"`
	Transaction string `json:"transaction,omitzero"`
}

// JobForm is a bulk replay to be made.
type JobForm struct {
	Selection Selection `json:"selection"`
	Canary    int       `json:"canary,omitzero"` // how many go first
	Rate      int       `json:"rate,omitzero"`   // replays per second; zero: 50
	Reason    string    `json:"reason"`
}

// Job is a bulk replay.
type Job struct {
	ID          uuid.UUID                 `json:"id"`
	Version     int64                     `json:"version"` // what the commands want
	State       saga.JobState             `json:"state"`
	Why         string                    `json:"why,omitzero"` // it has paused itself
	Tenant      string                    `json:"tenant,omitzero"`
	Actor       string                    `json:"actor"`
	Reason      string                    `json:"reason"`
	Selection   Selection                 `json:"selection"`
	Canary      int                       `json:"canary"`
	Rate        int                       `json:"rate"`
	PlanSHA256  string                    `json:"plan_sha256"` // what Start wants
	CreatedAt   time.Time                 `json:"created_at"`
	UpdatedAt   time.Time                 `json:"updated_at"`
	FinishedAt  time.Time                 `json:"finished_at,omitzero"`
	Items       map[saga.JobItemState]int `json:"items,omitempty"` // absent in lists
	CanaryItems map[saga.JobItemState]int `json:"canary_items,omitempty"`
	Predicted   map[saga.ReplayEffect]int `json:"predicted,omitempty"` // by the dry run
	Links       map[string]string         `json:"links"`
}

// JobItem is one dead letter of a bulk replay.
type JobItem struct {
	Seq          int               `json:"seq"`
	DeadLetterID uuid.UUID         `json:"dead_letter_id"`
	Version      int64             `json:"version"` // of the dead letter, as selected
	State        saga.JobItemState `json:"state"`
	Code         string            `json:"code,omitzero"` // of a refused or skipped one
	Effect       saga.ReplayEffect `json:"effect,omitzero"`
	DispatchedAt time.Time         `json:"dispatched_at,omitzero"`
	EndedAt      time.Time         `json:"ended_at,omitzero"`
}

func jobPath(id uuid.UUID) string { return "/v1/jobs/" + id.String() }

// CreateJob freezes what is selected and begins the dry run; nothing is replayed before StartJob. Errors: *Problem;
// *UnknownError if no answer came: list the jobs.
func (c *Client) CreateJob(ctx context.Context, form JobForm) (Job, error) {
	body, err := json.Marshal(form)
	if err != nil {
		return Job{}, fmt.Errorf("client: %w", err)
	}
	return c.job(ctx, request{method: http.MethodPost, path: "/v1/jobs", body: body, once: true})
}

func (c *Client) job(ctx context.Context, r request) (Job, error) {
	a, err := c.do(ctx, r)
	if err != nil {
		return Job{}, unknown("", err)
	}
	var j Job
	err = decode(a, &j)
	return j, err
}

// StartJob begins to replay, by the plan of the job that was read. Errors: *Problem; *UnknownError if no answer came: read
// the job.
func (c *Client) StartJob(ctx context.Context, j Job, reason string) (Job, error) {
	return c.commandJob(ctx, j.ID, j.Version, saga.JobCommandStart, map[string]string{"reason": reason, "plan_sha256": j.PlanSHA256})
}

// CommandJob pauses, resumes or aborts a job at the version that was read. Errors: as of StartJob.
func (c *Client) CommandJob(ctx context.Context, id uuid.UUID, version int64, command saga.JobCommand, reason string) (Job, error) {
	return c.commandJob(ctx, id, version, command, map[string]string{"reason": reason})
}

func (c *Client) commandJob(ctx context.Context, id uuid.UUID, version int64, command saga.JobCommand, members map[string]string) (Job, error) {
	body, err := json.Marshal(members)
	if err != nil {
		return Job{}, fmt.Errorf("client: %w", err)
	}
	r := request{method: http.MethodPost, path: jobPath(id) + "/" + string(command), body: body, once: true, header: http.Header{}}
	r.header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
	return c.job(ctx, r)
}

// Job reads a bulk replay with counts of its items.
func (c *Client) Job(ctx context.Context, id uuid.UUID) (Job, error) {
	var j Job
	err := c.read(ctx, request{method: http.MethodGet, path: jobPath(id)}, &j)
	return j, err
}

// AllJobs goes through all bulk replays in a state ("": in any), the newest first. It ends after an error.
func (c *Client) AllJobs(ctx context.Context, state saga.JobState, page int) iter.Seq2[Job, error] {
	return all(func(cursor string) ([]Job, string, error) {
		q := url.Values{}
		set(q, "state", string(state))
		setPage(q, page, cursor)
		var form struct {
			Jobs []Job  `json:"jobs"`
			Next string `json:"next_cursor"`
		}
		err := c.read(ctx, request{method: http.MethodGet, path: "/v1/jobs", query: q}, &form)
		return form.Jobs, form.Next, err
	})
}

// AllJobItems goes through the dead letters of a bulk replay in a state ("": in any), in the order in which they go. It
// ends after an error.
func (c *Client) AllJobItems(ctx context.Context, id uuid.UUID, state saga.JobItemState, page int) iter.Seq2[JobItem, error] {
	return all(func(cursor string) ([]JobItem, string, error) {
		q := url.Values{}
		set(q, "state", string(state))
		setPage(q, page, cursor)
		var form struct {
			Items []JobItem `json:"items"`
			Next  string    `json:"next_cursor"`
		}
		err := c.read(ctx, request{method: http.MethodGet, path: jobPath(id) + "/items", query: q}, &form)
		return form.Items, form.Next, err
	})
}
