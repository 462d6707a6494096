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

// Inquiry is what a participant was asked about an operation, and what it said.
type Inquiry struct {
	AskedAt       time.Time         `json:"asked_at"`
	AnsweredAt    time.Time         `json:"answered_at,omitzero"` // zero: no answer, which proves nothing
	Outcome       saga.Outcome      `json:"outcome,omitzero"`
	State         saga.BarrierState `json:"state,omitzero"`
	Code          string            `json:"code,omitzero"`
	Reason        string            `json:"reason,omitzero"`
	Revision      int               `json:"revision,omitzero"`
	SameContent   *bool             `json:"same_content,omitzero"` // nil: nothing is recorded of the phase
	Authoritative bool              `json:"authoritative"`
}

// Prediction is what a replay would do, as the coordinator that answered sees it.
type Prediction struct {
	Effect saga.ReplayEffect `json:"effect"`
	Reason string            `json:"reason"`
}

// Group is the dead letters of one fingerprint: one cause.
type Group struct {
	Fingerprint string                        `json:"fingerprint"`
	Kind        string                        `json:"kind"`
	Participant string                        `json:"participant,omitzero"`
	Action      string                        `json:"action,omitzero"`
	Phase       saga.Phase                    `json:"phase,omitzero"`
	Cause       string                        `json:"cause"`
	Reason      string                        `json:"reason,omitzero"` // of one of them
	FirstSeen   time.Time                     `json:"first_seen"`
	LastSeen    time.Time                     `json:"last_seen"`
	Counts      map[saga.DeadLetterStatus]int `json:"counts"`
	NoteCount   int                           `json:"note_count"`
	Links       map[string]string             `json:"links"`
}

// GroupDetail is a group with its notes, and what replays of some of its dead letters would do.
type GroupDetail struct {
	Group
	Notes     []Note                    `json:"notes"`
	Sample    []PredictedLetter         `json:"sample"` // open ones, the newest first, at most 20
	Predicted map[saga.ReplayEffect]int `json:"predicted"`
}

// PredictedLetter is a dead letter with what its replay would do.
type PredictedLetter struct {
	DeadLetter
	Inquiry *Inquiry   `json:"inquiry,omitzero"`
	Replay  Prediction `json:"replay"`
}

// Note is what an operator wrote about a group.
type Note struct {
	ID    uuid.UUID `json:"id"`
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	Note  string    `json:"note"`
}

// GroupFilter selects groups; zero fields select all.
type GroupFilter struct {
	Status      saga.DeadLetterStatus // only groups that have dead letters of this status
	Participant string
	Limit       int    // of a page; zero: 50, at most 500
	Cursor      string // Next of the page before
}

// GroupPage is a part of a list, the group that was seen first last. Next is "" on the last.
type GroupPage struct {
	Groups []Group `json:"groups"`
	Next   string  `json:"next_cursor"`
}

// Groups reads one page of groups.
func (c *Client) Groups(ctx context.Context, f GroupFilter) (GroupPage, error) {
	q := url.Values{}
	set(q, "status", string(f.Status))
	set(q, "participant", f.Participant)
	setPage(q, f.Limit, f.Cursor)
	var page GroupPage
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/dead-letter-groups", query: q}, &page)
	return page, err
}

// AllGroups goes through all groups that the filter selects. It ends after an error.
func (c *Client) AllGroups(ctx context.Context, f GroupFilter) iter.Seq2[Group, error] {
	return all(func(cursor string) ([]Group, string, error) {
		if cursor != "" {
			f.Cursor = cursor
		}
		page, err := c.Groups(ctx, f)
		return page.Groups, page.Next, err
	})
}

func groupPath(fingerprint string) string {
	return "/v1/dead-letter-groups/" + url.PathEscape(fingerprint)
}

// Group reads a group with all that is known about it.
func (c *Client) Group(ctx context.Context, fingerprint string) (GroupDetail, error) {
	var d GroupDetail
	err := c.read(ctx, request{method: http.MethodGet, path: groupPath(fingerprint)}, &d)
	return d, err
}

// NoteGroup writes down what is known about a cause. Errors: *Problem; *UnknownError if no answer came: read the group to
// see whether it was written.
func (c *Client) NoteGroup(ctx context.Context, fingerprint, note string) (Note, error) {
	body, err := json.Marshal(map[string]string{"note": note})
	if err != nil {
		return Note{}, fmt.Errorf("client: %w", err)
	}
	a, err := c.do(ctx, request{method: http.MethodPost, path: groupPath(fingerprint) + "/notes", body: body, once: true})
	if err != nil {
		return Note{}, unknown("", err)
	}
	var n Note
	err = decode(a, &n)
	return n, err
}

// Inquire asks the participant of an open dead letter what it has recorded. It waits for no answer: read the dead letter
// again.
func (c *Client) Inquire(ctx context.Context, id uuid.UUID) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: deadLetterPath(id) + "/inquire"})
	return err
}

// InquireGroup asks about the dead letters that Group shows: read the group again.
func (c *Client) InquireGroup(ctx context.Context, fingerprint string) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: groupPath(fingerprint) + "/inquire"})
	return err
}

// AuditFilter selects entries of the audit; zero fields select all.
type AuditFilter struct {
	Actor   string
	Action  string
	Object  string
	Allowed *bool
	Since   time.Time
	Limit   int    // of a page; zero: 50, at most 500
	Cursor  string // Next of the page before
}

// AuditPage is a part of the audit, the newest first. Next is "" on the last.
type AuditPage struct {
	Audit []AuditEntry `json:"audit"`
	Next  string       `json:"next_cursor"`
}

// Audit reads one page of what operators did and were not allowed to do.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (AuditPage, error) {
	q := url.Values{}
	set(q, "actor", f.Actor)
	set(q, "action", f.Action)
	set(q, "object", f.Object)
	if f.Allowed != nil {
		q.Set("allowed", strconv.FormatBool(*f.Allowed))
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	setPage(q, f.Limit, f.Cursor)
	var page AuditPage
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/audit", query: q}, &page)
	return page, err
}

// AllAudit goes through all entries that the filter selects. It ends after an error.
func (c *Client) AllAudit(ctx context.Context, f AuditFilter) iter.Seq2[AuditEntry, error] {
	return all(func(cursor string) ([]AuditEntry, string, error) {
		if cursor != "" {
			f.Cursor = cursor
		}
		page, err := c.Audit(ctx, f)
		return page.Audit, page.Next, err
	})
}
