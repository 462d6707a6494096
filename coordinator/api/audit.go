package api

import (
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/dlq"
)

// Audit is a page of the audit, the newest entry first.
type Audit struct {
	Audit      []AuditEntry `json:"audit" nullable:"false"`
	NextCursor string       `json:"next_cursor,omitempty" doc:"of the next page; absent on the last"`
}

func auditRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/v1/audit", access: accessViewer, byTenant: true, handle: (*Handler).listAudit, name: "listAudit",
		summary: "List what operators did and were not allowed to do, the newest first",
		params: append([]*huma.Param{
			param("query", "actor", "only what this one did", stringSchema()),
			param("query", "action", "only those, such as replay", stringSchema()),
			param("query", "object", "only about the object with this id", stringSchema()),
			param("query", "allowed", "only what was carried out, or only what was refused", stringSchema("true", "false")),
			param("query", "since", "only since this instant, RFC 3339", &huma.Schema{Type: huma.TypeString, Format: "date-time"}),
		}, pageParams()...),
		answers: []answerDoc{{200, "a page", reflect.TypeFor[Audit](), nil}}, codes: []string{codeInvalidQuery, codeInvalidCursor, codeUnsupported},
	}}
}

func auditForms(entries []dlq.AuditEntry) []AuditEntry {
	forms := make([]AuditEntry, 0, len(entries))
	for _, e := range entries {
		forms = append(forms, AuditEntry{
			ID: e.ID.String(), At: e.At.UTC(), Tenant: e.Tenant, Actor: e.Actor, Action: e.Action, Object: e.Object, Allowed: e.Allowed,
			Reason: e.Reason, Detail: e.Detail,
		})
	}
	return forms
}

// listAudit answers with a page of the audit (D6).
func (h *Handler) listAudit(c *call) error {
	desk, err := h.desk()
	if err != nil {
		return err
	}
	f, err := c.auditFilter()
	if err != nil {
		return err
	}
	limit := f.Limit
	f.Limit++ // to see whether there is a next page
	entries, err := desk.Audit(c.r.Context(), f)
	if err != nil {
		return err
	}
	page := Audit{}
	if len(entries) > limit {
		entries = entries[:limit]
		page.NextCursor = cursorOf(cursorAudit, entries[limit-1].ID)
	}
	page.Audit = auditForms(entries)
	return c.send(http.StatusOK, newRenderer(), page)
}

func (c *call) auditFilter() (f dlq.AuditFilter, err error) {
	f.Tenant = c.id.scope()
	if f.Actor, err = c.queryText("actor"); err != nil {
		return f, err
	}
	if f.Action, err = c.queryText("action"); err != nil {
		return f, err
	}
	object, err := c.queryText("object")
	if err != nil {
		return f, err
	}
	if object != "" {
		f.Objects = []string{object}
	}
	allowed, err := c.queryOneOf("allowed", []string{"true", "false"})
	if err != nil {
		return f, err
	}
	if allowed != "" {
		only := allowed == "true"
		f.Allowed = &only
	}
	if v, ok := c.query["since"]; ok {
		if f.Since, err = time.Parse(time.RFC3339, v); err != nil {
			return f, problemIn(codeInvalidQuery, "since", "use an instant as in RFC 3339, such as 2026-01-31T03:00:00Z")
		}
	}
	if f.Limit, err = c.queryLimit(); err != nil {
		return f, err
	}
	before, err := c.queryCursor(cursorAudit)
	f.Before = uuid.UUID(before)
	return f, err
}
