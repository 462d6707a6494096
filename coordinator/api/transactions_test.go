package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/saga"
)

// S1.2 and I-14: another client's transaction is not there.
func TestTransactionsBelongToTheirClient(t *testing.T) {
	t.Parallel()
	as := func(r *http.Request) (api.Identity, error) {
		client := r.Header.Get("X-Client")
		id := api.Identity{Tenant: strings.ToLower(client[:1]), Client: client, Roles: token.Client}
		if client == "Root" {
			id.Roles |= token.Operator
		}
		return id, nil
	}
	w := newWorld(t, func(c *api.Config) { c.Authenticate = as })
	path := w.submit(submission("mine"), "X-Client", "Ann", "Idempotency-Key", "k")
	w.call("GET", path, "", "X-Client", "Ann").expect(200)
	w.call("GET", path+"/attempts", "", "X-Client", "Ann").expect(200)
	for _, other := range []string{"Bob", "Amy"} { // of another tenant, and of the same
		w.call("GET", path, "", "X-Client", other).problem(404, "not_found")
		w.call("GET", path+"?wait=10s", "", "X-Client", other).problem(404, "not_found")
		w.call("GET", path+"/attempts", "", "X-Client", other).problem(404, "not_found")
		w.call("GET", path+"/explain", "", "X-Client", other).problem(404, "not_found")
		w.call("POST", path+"/cancel", "", "X-Client", other).problem(404, "not_found")
		w.call("GET", "/v1/requests?id=k", "", "X-Client", other).problem(404, "not_found")
		if page := decode[api.Transactions](w.call("GET", "/v1/transactions", "", "X-Client", other)); len(page.Transactions) != 0 {
			t.Errorf("%s sees %+v", other, page)
		}
		if got := w.submit(submission("mine"), "X-Client", other, "Idempotency-Key", "k"); got == path {
			t.Errorf("%s got the transaction of Ann", other)
		}
	}
	for _, route := range []string{"/v1/dead-letters", "/v1/dead-letters/" + uuid.NewString()} {
		w.call("GET", route, "", "X-Client", "Ann").problem(403, "forbidden")
	}
	w.call("POST", "/v1/dead-letters/"+uuid.NewString()+"/replay", `{"reason":"x"}`, "X-Client", "Ann", "If-Match", `"1"`).problem(403, "forbidden")
	w.call("POST", "/v1/dead-letters/"+uuid.NewString()+"/discard", `{"reason":"x"}`, "X-Client", "Ann", "If-Match", `"1"`).problem(403, "forbidden")
	w.call("POST", "/v1/definitions", registered, "X-Client", "Ann").problem(403, "forbidden")
	w.call("POST", "/v1/definitions/order/2/drain", `{"reason":"x"}`, "X-Client", "Ann").problem(403, "forbidden")
	w.call("POST", "/v1/transactions/"+fakeID.String()+"/resolve", `{"reason":"x"}`, "X-Client", "Ann", "If-Match", `"1"`).problem(403, "forbidden")
	w.call("GET", "/v1/dead-letters", "", "X-Client", "Root").expect(200)
}

// S2.9: cancelling is 200 and repeatable; after the end it is 409 with the state.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("good", func(saga.Command) saga.Reply { return saga.Reply{Outcome: saga.OutcomeDone} })
	running := w.submit(submission("slow"))
	tx := w.call("POST", running+"/cancel", `{"reason":"changed my mind"}`).expect(200).transaction()
	if tx.Status != "cancelling" || tx.Result != "running" || tx.Cause == nil || tx.Cause.Why != "client" || tx.Cause.Reason != "changed my mind" {
		t.Errorf("got %+v", tx)
	}
	w.call("POST", running+"/cancel", "").expect(200)
	w.call("POST", running+"/cancel", "{}", "Content-Type", "application/json").expect(200)

	// a delayed start has sent nothing: it is cancelled at once
	later := w.submit(submission("later", `"start_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"`))
	if tx := w.get(later).transaction(); tx.Status != "accepted" || tx.Result != "accepted" {
		t.Errorf("got %s %s", tx.Status, tx.Result)
	}
	tx = w.call("POST", later+"/cancel", "").expect(200).transaction()
	if tx.Status != "cancelled" || tx.Result != "failed" || tx.FinishedAt.IsZero() || tx.Links["cancel"] != "" {
		t.Errorf("got %+v", tx)
	}
	w.call("POST", later+"/cancel", "").expect(200)

	committed := w.call("POST", "/v1/transactions", `{"definition":{"name":"good","steps":[{"name":"a","participant":"good","action":"x"}]}}`,
		"Prefer", "wait=30").expect(200).header.Get("Location")
	r := w.call("POST", committed+"/cancel", "").problem(409, "not_cancellable")
	if p := decode[api.Problem](r); p.State != "committed" {
		t.Errorf("state %q", p.State)
	}
}

// S2.6, S2.9: while a pivot's outcome is open the answer is 202.
func TestCancelWhilePivotIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.submit(`{"definition":{"name":"pivot","steps":[{"name":"a","kind":"pivot","participant":"nobody","action":"x"}]}}`)
	for range 2 {
		if tx := w.call("POST", path+"/cancel", "").expect(202).transaction(); tx.Status != "running" {
			t.Errorf("got %s", tx.Status)
		}
	}
}

func TestCancelRefusesBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.submit(submission("slow"))
	for body, code := range map[string]string{
		`{`: "invalid_json", `{"why":"x"}`: "invalid_json", `{"reason":1}`: "invalid_json", "{\"reason\":\"\xff\"}": "invalid_utf8",
		`{"reason":"a","reason":"b"}`: "duplicate_member", `{"reason":"a\u0000b"}`: "invalid_reason",
		`{"reason":"` + strings.Repeat("x", 1025) + `"}`: "invalid_reason",
	} {
		w.call("POST", path+"/cancel", body).problem(400, code)
	}
	w.call("POST", path+"/cancel", strings.Repeat(" ", 9000)).problem(413, "too_large")
	if tx := w.get(path).transaction(); tx.Status != "running" {
		t.Errorf("it is %s", tx.Status)
	}
	w.call("POST", path+"/cancel", `{"reason":"`+strings.Repeat("x", 1024)+`"}`).expect(200)
}

// U5: a long poll ends with the transaction, or with the time.
func TestGetWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.submit(submission("later", `"start_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"`))
	if tx := w.get(path + "?wait=20ms").expect(200).transaction(); tx.Status != "accepted" {
		t.Errorf("got %s", tx.Status)
	}
	ended := make(chan reply, 1)
	go func() {
		r, err := try(t.Context(), w.server, "GET", path+"?wait=60s", "")
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	w.call("POST", path+"/cancel", "").expect(200)
	select {
	case r := <-ended:
		r.t = t
		if tx := r.expect(200).transaction(); tx.Status != "cancelled" {
			t.Errorf("got %s", tx.Status)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the wait did not end with the transaction")
	}
	for _, wait := range []string{"5", "-1s", "soon", "", "NaNs"} {
		w.get(path+"?wait="+wait).problem(400, "invalid_query")
	}
}

func TestGetRefusesBadIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"x", "%00", "%ff", uuid.NewString(), strings.Repeat("a", 300)} {
		w.get("/v1/transactions/"+id).problem(400, "invalid_id")
		w.get("/v1/transactions/"+id+"/attempts").problem(400, "invalid_id")
		w.call("POST", "/v1/transactions/"+id+"/cancel", "").problem(400, "invalid_id")
	}
	none := uuid.Must(uuid.NewV7()).String()
	w.get("/v1/transactions/"+none).problem(404, "not_found")
	w.get("/v1/transactions/"+strings.ToUpper(none)).problem(404, "not_found")
	w.call("POST", "/v1/transactions/"+none+"/cancel", "").problem(404, "not_found")
	w.get("/v1/requests?id=none").problem(404, "not_found")
	for _, query := range []string{"", "?id=", "?id=a%20b", "?id=%00", "?id=%ff", "?id=" + strings.Repeat("k", 256)} {
		w.get("/v1/requests"+query).problem(400, "invalid_request_id")
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("busy", func(saga.Command) saga.Reply {
		return saga.Reply{Outcome: saga.OutcomeRetry, Code: saga.CodeBusy, Reason: "try later"}
	})
	path := w.submit(`{"definition":{"name":"busy","steps":[{"name":"a","participant":"busy","action":"x",
		"retry":{"strategy":"fixed","base":"20ms","max_attempts":2}}]}}`)
	var list api.Attempts
	w.until("two attempts", func() bool {
		list = decode[api.Attempts](w.get(path + "/attempts").expect(200))
		return len(list.Attempts) >= 2
	})
	if a := list.Attempts[0]; a.Step != "a" || a.Phase != "try" || a.Outcome != "retry" || a.Code != "busy" || a.Reason != "try later" || a.Attempt != 1 {
		t.Errorf("got %+v", a)
	}
	if list.Links["transaction"] != path {
		t.Errorf("links %v", list.Links)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string // newest first
	for i := range 7 {
		path := w.submit(submission(fmt.Sprintf("list-%d", i%2)))
		want = append([]string{strings.TrimPrefix(path, "/v1/transactions/")}, want...)
	}
	for _, limit := range []int{1, 3, 7, 500} {
		var got []string
		query := fmt.Sprintf("?limit=%d", limit)
		for pages := 1; ; pages++ {
			page := decode[api.Transactions](w.get("/v1/transactions" + query).expect(200))
			if len(page.Transactions) == 0 || len(page.Transactions) > limit {
				t.Fatalf("limit %d: a page of %d", limit, len(page.Transactions))
			}
			for _, tx := range page.Transactions {
				got = append(got, tx.ID)
				if len(tx.Steps) != 0 || tx.Links["self"] != "/v1/transactions/"+tx.ID {
					t.Errorf("got %+v", tx)
				}
			}
			if page.NextCursor == "" {
				if want := (7 + limit - 1) / limit; pages != want {
					t.Errorf("limit %d: %d pages, want %d", limit, pages, want)
				}
				break
			}
			query = fmt.Sprintf("?limit=%d&cursor=%s", limit, page.NextCursor)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
	w.call("POST", "/v1/transactions/"+want[0]+"/cancel", "").expect(200)
	for query, n := range map[string]int{
		"?definition=list-1": 3, "?status=running": 6, "?status=cancelling": 1, "?status=committed": 0, "?suspended=false": 7,
		"?suspended=true": 0, "?definition=list-0&status=running": 3, "": 7,
	} {
		if page := decode[api.Transactions](w.get("/v1/transactions" + query).expect(200)); len(page.Transactions) != n {
			t.Errorf("%q selects %d, want %d", query, len(page.Transactions), n)
		}
	}
}

func TestListRefusesBadQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, query := range []string{
		"status=failed", "status=", "status=running&status=accepted", "definition=a%20b", "definition=%00", "suspended=1",
		"limit=0", "limit=501", "limit=-1", "limit=x", "limit=99999999999999999999", "state=running", "a;b", "%zz", "definition=%ff",
	} {
		w.get("/v1/transactions?"+query).problem(400, "invalid_query")
	}
	// of another list, too long, not base64, empty
	for _, cursor := range []string{"ZAGQAAAAAABwAIAAAAAAAAAA", "dAGQAAAAAABwAIAAAAAAAAAAAA", "!", "", "%00"} {
		w.get("/v1/transactions?cursor="+cursor).problem(400, "invalid_cursor")
	}
}
