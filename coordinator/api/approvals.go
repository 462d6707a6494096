package api

import (
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

// Approval is a second person's consent to one replay of a dead letter, as it was then.
type Approval struct {
	ID            string    `json:"id" format:"uuid"`
	DeadLetter    string    `json:"dead_letter" format:"uuid"`
	Version       int64     `json:"version" doc:"of the dead letter that was approved; any change of it needs a new approval"`
	Revision      int       `json:"revision"`
	ContentSHA256 string    `json:"content_sha256"`
	Status        string    `json:"status" enum:"open,used,revoked,expired"`
	Approver      string    `json:"approver"`
	Reason        string    `json:"reason"`
	BreakGlass    bool      `json:"break_glass,omitempty" doc:"whoever replayed it approved it, alone"`
	CreatedAt     time.Time `json:"created_at"`
	ExpiresAt     time.Time `json:"expires_at"`
	UsedAt        time.Time `json:"used_at,omitzero"`
	UsedBy        string    `json:"used_by,omitempty"`
	RevokedAt     time.Time `json:"revoked_at,omitzero"`
	RevokedBy     string    `json:"revoked_by,omitempty"`
	Links         Links     `json:"links" doc:"dead_letter; revoke while it is open"`
}

// Approvals is a page of approvals, the newest first.
type Approvals struct {
	Approvals  []Approval `json:"approvals" nullable:"false"`
	NextCursor string     `json:"next_cursor,omitempty" doc:"of the next page; absent on the last"`
}

// ApproveForm is the body that approves a replay.
type ApproveForm struct {
	Reason    string `json:"reason" maxLength:"1024" doc:"text for people"`
	ExpiresIn string `json:"expires_in,omitempty" doc:"how long it lasts, such as 15m; 1s to 24h; absent: as the coordinator is configured"`
}

// ReplayForm is the body of a replay.
type ReplayForm struct {
	Reason     string `json:"reason" maxLength:"1024" doc:"text for people"`
	Approval   string `json:"approval,omitempty" format:"uuid" doc:"the approval that it uses: needed for what is unknown or in conflict"`
	BreakGlass bool   `json:"break_glass,omitempty" doc:"instead of an approval, if no second person is there: the reason has at least 30 bytes, and everybody is told"`
}

var approvalStatuses = []string{
	string(dlq.ApprovalOpen), string(dlq.ApprovalUsed), string(dlq.ApprovalRevoked), string(dlq.ApprovalExpired),
}

// replayApprovalCodes are those that the approval of a replay may have.
func replayApprovalCodes() []string {
	return []string{
		saga.CodeApprovalRequired, saga.CodeApprovalExpired, saga.CodeApprovalUsed, saga.CodeApprovalRevoked, saga.CodeApprovalMismatch,
		saga.CodeApprovalOwn, saga.CodeNotReserved, saga.CodeBreakGlassReason, "invalid_value", "invalid_utf8", "duplicate_member",
	}
}

func approvalRoutes() []route {
	approval := reflect.TypeFor[Approval]()
	return []route{
		{
			method: http.MethodPost, path: "/v1/dead-letters/{id}/approvals", access: accessApprover, byTenant: true, handle: (*Handler).approveDeadLetter, name: "approveDeadLetter",
			summary: "Allow somebody else one replay of a dead letter as it is now",
			params:  ifMatchParams("dead letter"),
			request: reflect.TypeFor[ApproveForm](), required: true,
			answers: []answerDoc{{201, "it is approved", approval, nil}},
			codes:   append(actionCodes(), "invalid_duration", "invalid_utf8", "duplicate_member", saga.CodeObsolete, saga.CodeNotDeadLetter, saga.CodeNotReserved),
		},
		{
			method: http.MethodGet, path: "/v1/approvals", access: accessViewer, byTenant: true, handle: (*Handler).listApprovals, name: "listApprovals",
			summary: "List approvals, the newest first",
			params: append([]*huma.Param{
				param("query", "status", "only those", stringSchema(approvalStatuses...)),
				param("query", "dead_letter", "only those of the dead letter", stringSchema()),
				param("query", "approver", "only those of the approver", stringSchema()),
			}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[Approvals](), nil}}, codes: []string{codeInvalidQuery, codeInvalidCursor},
		},
		{
			method: http.MethodPost, path: "/v1/approvals/{id}/revoke", access: accessApprover, byTenant: true, handle: (*Handler).revokeApproval, name: "revokeApproval",
			summary: "End an approval that was not used",
			request: reflect.TypeFor[ReasonForm](), required: true,
			answers: []answerDoc{{200, "it is revoked", approval, nil}},
			codes: []string{
				"invalid_id", "invalid_json", codeMissingReason, codeInvalidReason, codeIncomplete, codeSlow, codeDuplicateHeader, saga.CodeTooLarge,
				codeMediaType, codeNotFound, codeOverloaded, codeOutcomeUnknown, saga.CodeApprovalUsed, saga.CodeApprovalRevoked, saga.CodeApprovalExpired,
			},
		},
	}
}

func approvalForm(a *dlq.Approval, now time.Time) Approval {
	id, status := a.ID.String(), a.Status(now)
	form := Approval{
		ID: id, DeadLetter: a.DeadLetter.String(), Version: a.LetterVersion, Revision: a.Revision,
		ContentSHA256: hex.EncodeToString(a.ContentSHA256), Status: string(status), Approver: a.Approver, Reason: a.Reason,
		BreakGlass: a.BreakGlass, CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt, UsedAt: a.UsedAt, UsedBy: a.UsedBy,
		RevokedAt: a.RevokedAt, RevokedBy: a.RevokedBy, Links: Links{"dead_letter": deadLetterPath(a.DeadLetter.String())},
	}
	if status == dlq.ApprovalOpen {
		form.Links["revoke"] = "/v1/approvals/" + id + "/revoke"
	}
	return form
}

// form reads the body of an action, and gives back the reason in it.
func (c *call) form(what string, form any, reason *string) (err error) {
	body, err := c.body(actionBytesMax)
	if err != nil {
		return err
	}
	if len(body) > 0 {
		if err := saga.UnmarshalStrict(body, what, 1, form); err != nil {
			return err
		}
	}
	*reason, err = requireReason(checkReason(*reason))
	return err
}

// approveDeadLetter allows somebody else one replay (D4).
func (h *Handler) approveDeadLetter(c *call) error {
	p := coordinator.ApproveParams{Actor: c.id.Actor, Tenant: c.id.scope()}
	var form ApproveForm
	var err error
	if p.DeadLetter, err = c.pathUUID("a dead letter"); err != nil {
		return err
	}
	if p.Version, err = c.ifMatch(); err != nil {
		return err
	}
	if err := c.form("approve", &form, &form.Reason); err != nil {
		return err
	}
	p.Reason = form.Reason
	if form.ExpiresIn != "" {
		if p.ExpiresIn, err = time.ParseDuration(form.ExpiresIn); err != nil || p.ExpiresIn == 0 {
			return problemIn("invalid_duration", "expires_in", "use a duration such as 15m, 1s to 24h")
		}
	}
	ctx, cancel := c.bounded()
	defer cancel()
	a, err := h.cfg.Admin.Approve(ctx, p)
	if err != nil {
		return err
	}
	c.log.Info("a replay is approved", "dead_letter", p.DeadLetter.String(), "approval", a.ID.String(), "actor", p.Actor)
	return c.send(http.StatusCreated, newRenderer(), approvalForm(&a, a.CreatedAt))
}

// listApprovals answers with a page of approvals.
func (h *Handler) listApprovals(c *call) error {
	f, err := c.approvalFilter()
	if err != nil {
		return err
	}
	limit := f.Limit
	f.Limit++ // to see whether there is a next page
	list, err := h.cfg.Admin.Approvals(c.r.Context(), f)
	if err != nil {
		return err
	}
	page := Approvals{Approvals: []Approval{}}
	if len(list) > limit {
		list = list[:limit]
		page.NextCursor = cursorOf(cursorApprovals, list[limit-1].ID)
	}
	now := time.Now()
	for i := range list {
		page.Approvals = append(page.Approvals, approvalForm(&list[i], now))
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

func (c *call) approvalFilter() (f dlq.ApprovalFilter, err error) {
	status, err := c.queryOneOf("status", approvalStatuses)
	if err != nil {
		return f, err
	}
	f.Status, f.Tenant = dlq.ApprovalStatus(status), c.id.scope()
	if v, ok := c.query["dead_letter"]; ok {
		if f.DeadLetter, err = uuid.Parse(v); err != nil || len(v) != 36 {
			return f, problemIn(codeInvalidQuery, "dead_letter", "use the id of a dead letter")
		}
	}
	if f.Approver, err = c.queryText("approver"); err != nil {
		return f, err
	}
	if f.Limit, err = c.queryLimit(); err != nil {
		return f, err
	}
	before, err := c.queryCursor(cursorApprovals)
	f.Before = uuid.UUID(before)
	return f, err
}

// revokeApproval ends an approval that was not used.
func (h *Handler) revokeApproval(c *call) error {
	id, err := c.pathUUID("an approval")
	if err != nil {
		return err
	}
	reason, err := requireReason(c.reason("revoke"))
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	a, err := h.cfg.Admin.RevokeApproval(ctx, coordinator.RevokeParams{Actor: c.id.Actor, Tenant: c.id.scope(), ID: id, Reason: reason})
	if err != nil {
		return err
	}
	c.log.Info("an approval is revoked", "approval", id.String(), "actor", c.id.Actor)
	return c.send(http.StatusOK, newRenderer(), approvalForm(&a, a.RevokedAt))
}

// replayParams reads a replay of the dead letter of the path.
func (c *call) replayParams() (coordinator.LetterParams, error) {
	p := coordinator.LetterParams{Actor: c.id.Actor, Tenant: c.id.scope()}
	var form ReplayForm
	var err error
	if p.DeadLetter, err = c.pathUUID("a dead letter"); err != nil {
		return p, err
	}
	if p.Version, err = c.ifMatch(); err != nil {
		return p, err
	}
	if err := c.form("replay", &form, &form.Reason); err != nil {
		return p, err
	}
	p.Reason, p.BreakGlass = form.Reason, form.BreakGlass
	if form.Approval != "" {
		if p.Approval, err = uuid.Parse(form.Approval); err != nil || len(form.Approval) != 36 || p.Approval == uuid.Nil {
			return p, problemIn("invalid_value", "approval", "use the id of an approval: a UUID as 36 characters")
		}
	}
	return p, nil
}
