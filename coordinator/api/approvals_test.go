package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/saga"
)

// actors lets callers say who they are.
func actors(c *api.Config) {
	c.Authenticate = func(r *http.Request) (api.Identity, error) {
		return api.Identity{Tenant: "default", Client: "anonymous", Actor: r.Header.Get("X-Actor"), Roles: token.AllRoles, AllTenants: true}, nil
	}
}

// D3, D4: the replay of what is unknown is refused without an approval, and with an expired, used, revoked, mismatching or
// one's own one, each with its code; with a valid one it runs; after the decision it is obsolete.
func TestApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, actors)
	var mended atomic.Bool
	w.participant("dim", func(saga.Command) saga.Reply {
		if mended.Load() {
			return saga.Reply{Outcome: saga.OutcomeDone}
		}
		return saga.Reply{Outcome: saga.OutcomeUnknown, Reason: "no answer of the gateway"}
	})
	bury := func() (path, transaction string) {
		transaction = w.submit(`{"definition":{"name":"dim","steps":[{"name":"a","participant":"dim","action":"pay"}]}}`)
		w.until("a dead letter", func() bool {
			page := decode[api.DeadLetters](w.get("/v1/dead-letters?transaction=" + transaction[len("/v1/transactions/"):]).expect(200))
			if len(page.DeadLetters) == 1 {
				path = page.DeadLetters[0].Links["self"]
			}
			return path != ""
		})
		return path, transaction
	}
	etag := func(path string) string { return w.get(path).expect(200).header.Get("ETag") }
	approve := func(path, actor, more string) api.Approval {
		t.Helper()
		body := fmt.Sprintf(`{"reason":"looked at it"%s}`, more)
		return decode[api.Approval](w.call("POST", path+"/approvals", body, "If-Match", etag(path), "X-Actor", actor).expect(201))
	}
	replay := func(path, actor, more string) reply {
		t.Helper()
		return w.call("POST", path+"/replay", fmt.Sprintf(`{"reason":"it can be asked again"%s}`, more), "If-Match", etag(path), "X-Actor", actor)
	}
	with := func(a api.Approval) string { return fmt.Sprintf(`,"approval":%q`, a.ID) }

	path, transaction := bury()
	other, _ := bury()
	for _, bad := range []struct{ body, code string }{
		{`{"reason":"x","expires_in":"0s"}`, "invalid_duration"},
		{`{"reason":"x","expires_in":"25h"}`, "invalid_duration"},
		{`{"reason":"x","expires_in":"soon"}`, "invalid_duration"},
		{`{"reason":" "}`, "missing_reason"},
		{`{"why":""}`, "invalid_json"},
	} {
		w.call("POST", path+"/approvals", bad.body, "If-Match", etag(path)).problem(400, bad.code)
	}
	w.call("POST", path+"/approvals", `{"reason":"x"}`).problem(428, "precondition_required")
	w.call("POST", path+"/approvals", `{"reason":"x"}`, "If-Match", `"99"`).problem(412, "stale")

	valid, elsewhere := approve(path, "bob", ""), approve(other, "bob", "")
	short, gone := approve(path, "bob", `,"expires_in":"1s"`), approve(path, "bob", "")
	if valid.Status != "open" || valid.Approver != "bob" || valid.ContentSHA256 == "" || valid.ExpiresAt.Sub(valid.CreatedAt).Round(time.Minute) != 15*time.Minute {
		t.Errorf("approved: %+v", valid)
	}
	revoked := decode[api.Approval](w.call("POST", gone.Links["revoke"], `{"reason":"not so fast"}`, "X-Actor", "eve").expect(200))
	if revoked.Status != "revoked" || revoked.RevokedBy != "eve" || revoked.Links["revoke"] != "" {
		t.Errorf("revoked: %+v", revoked)
	}
	w.call("POST", gone.Links["revoke"], `{"reason":"again"}`).problem(409, "approval_revoked")
	w.call("POST", "/v1/approvals/0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f/revoke", `{"reason":"x"}`).problem(404, "not_found")
	w.until("the short one has expired", func() bool {
		return len(decode[api.Approvals](w.get("/v1/approvals?status=expired").expect(200)).Approvals) == 1
	})

	replay(path, "ann", "").problem(409, "approval_required")
	replay(path, "ann", with(short)).problem(409, "approval_expired")
	replay(path, "ann", with(gone)).problem(409, "approval_revoked")
	replay(path, "ann", with(elsewhere)).problem(409, "approval_mismatch")
	replay(path, "ann", `,"approval":"0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"`).problem(409, "approval_mismatch")
	replay(path, "bob", with(valid)).problem(409, "approval_own")
	replay(path, "ann", `,"approval":"me"`).problem(400, "invalid_value")
	replay(path, "ann", `,"break_glass":true`).problem(400, "break_glass_reason")
	replay(path, "ann", with(valid)+`,"break_glass":true`).problem(400, "invalid_value")

	version := etag(path)
	replay(path, "ann", with(valid)).expect(202) // runs, and fails again
	w.until("it is open again", func() bool {
		return decode[api.DeadLetterDetail](w.get(path).expect(200)).Status == "open" && etag(path) != version
	})
	replay(path, "ann", with(valid)).problem(409, "approval_used")
	w.call("POST", valid.Links["revoke"], `{"reason":"late"}`).problem(409, "approval_used")
	mended.Store(true)
	replay(path, "ann", with(approve(path, "bob", ""))).expect(202)
	if tx := w.get(transaction + "?wait=30s").transaction(); tx.Status != "committed" {
		t.Errorf("the transaction is %s", tx.Status)
	}

	late, cancelled := bury2(w, &mended, bury)
	for _, actor := range []string{"ann", "bob"} {
		w.call("POST", late+"/replay", `{"reason":"too late"}`, "If-Match", etag(late), "X-Actor", actor).problem(409, "obsolete")
	}
	w.call("POST", late+"/approvals", `{"reason":"too late"}`, "If-Match", etag(late)).problem(409, "obsolete")
	if tx := w.get(cancelled + "?wait=30s").transaction(); tx.Status != "cancelled" {
		t.Errorf("the transaction is %s", tx.Status)
	}
	w.expectApprovalPages(5)
}

// bury2 makes a dead letter whose transaction is cancelled then.
func bury2(w *world, mended *atomic.Bool, bury func() (string, string)) (path, transaction string) {
	w.t.Helper()
	mended.Store(false)
	path, transaction = bury()
	mended.Store(true)
	w.call("POST", transaction+"/cancel", `{"reason":"changed my mind"}`).expect(200)
	return path, transaction
}

// expectApprovalPages lists all approvals in pages of two, the newest first.
func (w *world) expectApprovalPages(want int) {
	w.t.Helper()
	cursor, last, n := "", "~", 0
	for {
		page := decode[api.Approvals](w.get("/v1/approvals?limit=2" + cursor).expect(200))
		for _, a := range page.Approvals {
			if a.ID >= last {
				w.t.Errorf("%s comes after %s", a.ID, last)
			}
			last, n = a.ID, n+1
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if n != want {
		w.t.Errorf("%d approvals, want %d", n, want)
	}
	w.get("/v1/approvals?status=gone").problem(400, "invalid_query")
	w.get("/v1/approvals?dead_letter=7").problem(400, "invalid_query")
	for _, text := range []string{"%FF%FE", "%00", "", strings.Repeat("x", 257)} {
		w.get("/v1/approvals?approver="+text).problem(400, "invalid_query")
	}
	w.get("/v1/approvals?cursor=x").problem(400, "invalid_cursor")
	if n := len(decode[api.Approvals](w.get("/v1/approvals?approver=bob&status=used").expect(200)).Approvals); n != 2 {
		w.t.Errorf("%d used approvals of bob", n)
	}
}

// S1.5: what an edit needs, in this order; without --allow-edit it is refused.
func TestEditRequests(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	id, _ := l.bury()
	path := "/v1/dead-letters/" + id + "/edit"
	etag := l.get("/v1/dead-letters/" + id).expect(200).header.Get("ETag")
	l.call("POST", path, `{"reason":"x","input":1}`).problem(428, "precondition_required")
	for _, bad := range []struct {
		body, code string
		status     int
	}{
		{``, "missing_reason", 400},
		{`{"input":1}`, "missing_reason", 400},
		{`{"reason":"x"}`, "invalid_json", 400},
		{`{"reason":"x","input":}`, "invalid_json", 400},
		{`{"reason":"x","input":1,"input":2}`, "duplicate_member", 400},
		{`{"reason":"x","input":"` + strings.Repeat("x", saga.InputBytesMax) + `"}`, "too_large", 413},
		{`{"reason":"x","input":"` + strings.Repeat("x", saga.InputBytesMax+(8<<10)) + `"}`, "too_large", 413},
		{`{"reason":"x","input":null}`, "edit_disabled", 409},
	} {
		l.call("POST", path, bad.body, "If-Match", etag).problem(bad.status, bad.code)
	}
}
