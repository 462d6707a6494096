package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
)

// ReplayOption says how a replay is approved.
type ReplayOption func(form map[string]any)

// WithApproval uses up an approval that somebody else has given.
func WithApproval(id uuid.UUID) ReplayOption {
	return func(form map[string]any) { form["approval"] = id.String() }
}

// WithBreakGlass replays without anybody else's approval, because nobody else is there. The reason has at least 30 bytes;
// the audit and the log say loudly who did it.
func WithBreakGlass() ReplayOption {
	return func(form map[string]any) { form["break_glass"] = true }
}

// Approval is a second person's consent to one replay of a dead letter, as it was then.
type Approval struct {
	ID            uuid.UUID         `json:"id"`
	DeadLetter    uuid.UUID         `json:"dead_letter"`
	Version       int64             `json:"version"` // of the dead letter that was approved
	Revision      int               `json:"revision"`
	ContentSHA256 string            `json:"content_sha256"`
	Status        string            `json:"status"` // open, used, revoked, expired
	Approver      string            `json:"approver"`
	Reason        string            `json:"reason"`
	BreakGlass    bool              `json:"break_glass,omitzero"` // whoever replayed it approved it, alone
	CreatedAt     time.Time         `json:"created_at"`
	ExpiresAt     time.Time         `json:"expires_at"`
	UsedAt        time.Time         `json:"used_at,omitzero"`
	UsedBy        string            `json:"used_by,omitzero"`
	RevokedAt     time.Time         `json:"revoked_at,omitzero"`
	RevokedBy     string            `json:"revoked_by,omitzero"`
	Links         map[string]string `json:"links"`
}

// Approve allows somebody else one replay of a dead letter, at the version that was read. It lasts for a while: zero for
// as long as the coordinator is configured, at most 24h. Errors: *Problem; *UnknownError if no answer came.
func (c *Client) Approve(ctx context.Context, deadLetter uuid.UUID, version int64, reason string, expiresIn time.Duration) (Approval, error) {
	form := map[string]any{"reason": reason}
	if expiresIn != 0 {
		form["expires_in"] = expiresIn.String()
	}
	var approval Approval
	a, err := c.act(ctx, deadLetterPath(deadLetter)+"/approvals", version, form)
	if err == nil {
		err = decode(a, &approval)
	}
	return approval, err
}

// RevokeApproval ends an approval that was not used, for the reason given. A *Problem with the code approval_revoked may
// mean that an answer was lost and this was its repetition.
func (c *Client) RevokeApproval(ctx context.Context, id uuid.UUID, reason string) (Approval, error) {
	body, err := reasonBody(reason)
	if err != nil {
		return Approval{}, err
	}
	var a Approval
	err = c.read(ctx, request{method: http.MethodPost, path: "/v1/approvals/" + id.String() + "/revoke", body: body}, &a)
	return a, err
}

// ApprovalFilter selects approvals; zero fields select all.
type ApprovalFilter struct {
	Status     string // open, used, revoked, expired
	DeadLetter uuid.UUID
	Approver   string
	Limit      int    // of a page; zero: 50, at most 500
	Cursor     string // Next of the page before
}

// ApprovalPage is a part of a list, the newest first. Next is "" on the last.
type ApprovalPage struct {
	Approvals []Approval `json:"approvals"`
	Next      string     `json:"next_cursor"`
}

// Approvals reads one page of approvals.
func (c *Client) Approvals(ctx context.Context, f ApprovalFilter) (ApprovalPage, error) {
	q := url.Values{}
	set(q, "status", f.Status)
	set(q, "approver", f.Approver)
	if f.DeadLetter != uuid.Nil {
		q.Set("dead_letter", f.DeadLetter.String())
	}
	setPage(q, f.Limit, f.Cursor)
	var page ApprovalPage
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/approvals", query: q}, &page)
	return page, err
}

// AllApprovals goes through all approvals that the filter selects. It ends after an error.
func (c *Client) AllApprovals(ctx context.Context, f ApprovalFilter) iter.Seq2[Approval, error] {
	return all(func(cursor string) ([]Approval, string, error) {
		if cursor != "" {
			f.Cursor = cursor
		}
		page, err := c.Approvals(ctx, f)
		return page.Approvals, page.Next, err
	})
}

// Edit is what a replay of a dead letter would send instead of what was sent.
type Edit struct {
	Revision      int             `json:"revision"`
	ContentSHA256 string          `json:"content_sha256"`
	Reserved      bool            `json:"reserved"` // it can be approved and replayed
	Input         json.RawMessage `json:"input,omitzero"`
}

// Edit proposes another input, any JSON, for a dead letter's operation, and asks its participant to reserve it. Read the
// dead letter until it is Reserved; then Approve and Replay it. Errors: as of Replay.
func (c *Client) Edit(ctx context.Context, deadLetter uuid.UUID, version int64, reason string, input json.RawMessage) error {
	_, err := c.actBytes(ctx, deadLetterPath(deadLetter)+"/edit", version, func() ([]byte, error) {
		text, err := json.Marshal(reason)
		return slices.Concat([]byte(`{"reason":`), text, []byte(`,"input":`), input, []byte(`}`)), err // the bytes as they are
	})
	return err
}
