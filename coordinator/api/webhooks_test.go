package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator/api"
)

// A webhook is registered, tested, told, listed and removed; its secret is shown once.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("this machine was told") }))
	t.Cleanup(target.Close)
	w.call("POST", "/v1/webhooks", `{"url":"https://hooks.invalid"}`).problem(400, "missing_reason")
	w.call("POST", "/v1/webhooks", `{"url":"https://hooks.invalid","kinds":["all"],"reason":"x"}`).problem(400, "invalid_value")
	r := w.call("POST", "/v1/webhooks", `{"url":"https://127.0.0.1/hidden","reason":"x"}`).problem(400, "invalid_webhook_url")
	if strings.Contains(string(r.body)+w.logs.String(), "hidden") {
		t.Error("the URL is repeated")
	}
	hook := decode[api.Webhook](w.call("POST", "/v1/webhooks", `{"url":"https://hooks.invalid/hook","kinds":["paused"],"reason":"x"}`).expect(201))
	if !strings.HasPrefix(hook.Secret, "whsec_") || len(hook.Kinds) != 1 {
		t.Errorf("registered %+v", hook)
	}
	if _, err := w.pool.Exec(t.Context(), `UPDATE webhooks SET url = $1`, target.URL); err != nil { // as if its name pointed here by now
		t.Fatal(err)
	}
	list := w.get("/v1/webhooks").expect(200)
	if strings.Contains(string(list.body)+w.logs.String(), hook.Secret) || len(decode[api.Webhooks](list).Webhooks) != 1 {
		t.Errorf("listed %s", list.body)
	}
	path := "/v1/webhooks/" + hook.ID
	made := decode[api.Testing](w.call("POST", path+"/test", `{"reason":"x"}`).expect(202))
	w.until("it is refused, because it is not public", func() bool {
		return strings.Contains(string(w.get(path+"/deliveries?status=pending").body), "not a public one")
	})
	if page := decode[api.Deliveries](w.get(path + "/deliveries?limit=1")); len(page.Deliveries) != 1 || page.Deliveries[0].ID != made.ID {
		t.Errorf("deliveries are %+v", page)
	}
	w.get(path+"/deliveries?cursor=x").problem(400, "invalid_cursor")
	w.get("/v1/webhooks/"+fakeID.String()+"/deliveries").problem(404, "not_found")
	w.call("DELETE", path, `{"reason":"x"}`).expect(200)
	w.call("DELETE", path, `{"reason":"x"}`).problem(404, "not_found")
	if n := w.count(`SELECT count(*) FROM audit WHERE action LIKE 'webhook%'`); n != 4 {
		t.Errorf("%d entries in the audit", n)
	}
}
