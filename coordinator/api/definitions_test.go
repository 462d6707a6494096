package api_test

import (
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator/api"
)

const registered = `{"name":"order","version":2,"steps":[{"name":"a","participant":"nobody","action":"work"}]}`

func TestDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if list := decode[api.Definitions](w.get("/v1/definitions").expect(200)); len(list.Definitions) != 0 {
		t.Errorf("got %+v", list)
	}
	const path = "/v1/definitions/order/2"
	r := w.call("POST", "/v1/definitions", registered).expect(201)
	d := decode[api.Definition](r)
	if r.header.Get("Location") != path || d.Name != "order" || d.Version != 2 || d.State != "active" || len(d.SHA256) != 64 || d.Links["self"] != path ||
		d.Links["drain"] != path+"/drain" || !strings.Contains(string(d.Definition), `"timeout":"24h0m0s"`) {
		t.Errorf("got %v %s", r.header, r.body)
	}
	again := w.call("POST", "/v1/definitions", string(d.Definition)).expect(200) // the canonical form is the same definition
	if string(again.body) != string(r.body) || again.header.Get("Location") != path {
		t.Errorf("got %s, before %s", again.body, r.body)
	}
	w.call("POST", "/v1/definitions", strings.Replace(registered, "work", "rest", 1)).problem(409, "definition_taken")
	for body, code := range map[string]string{
		``: "invalid_json", `[]`: "invalid_json", `"order"`: "invalid_json", `{"name":"order","steps":[],"x":1}`: "invalid_json",
		`{"name":"order","steps":[]}`: "invalid_steps", `{"name":"../x","steps":[]}`: "invalid_name", `{"name":"x","version":-1,"steps":[]}`: "invalid_version",
	} {
		w.call("POST", "/v1/definitions", body).problem(400, code)
	}
	w.call("POST", "/v1/definitions", registered, "Content-Type", "text/plain").problem(415, "unsupported_media_type")
	w.call("POST", "/v1/definitions", strings.Repeat(" ", 2<<20)).problem(413, "too_large")

	if got := w.get(path).expect(200); string(got.body) != string(r.body) {
		t.Errorf("got %s", got.body)
	}
	list := decode[api.Definitions](w.get("/v1/definitions?name=order").expect(200))
	if len(list.Definitions) != 1 || list.Definitions[0].Definition != nil || list.Definitions[0].SHA256 != d.SHA256 {
		t.Errorf("got %+v", list)
	}
	if list := decode[api.Definitions](w.get("/v1/definitions?name=other").expect(200)); len(list.Definitions) != 0 {
		t.Errorf("got %+v", list)
	}
	w.get("/v1/definitions?name=a.b").problem(400, "invalid_query")
	w.get("/v1/definitions/order/3").problem(404, "not_found")
	w.get("/v1/definitions/order/02").problem(400, "invalid_version")
	w.get("/v1/definitions/a%20b/1").problem(400, "invalid_name")

	for _, name := range []string{"order", "order@2"} {
		tx := w.get(w.submit(`{"definition":"` + name + `"}`)).transaction()
		if tx.Definition.Name != "order" || tx.Definition.Version != 2 {
			t.Errorf("%s began %+v", name, tx.Definition)
		}
	}
	first := w.call("POST", "/v1/transactions", `{"definition":"order"}`, "Idempotency-Key", "k").expect(202)
	w.call("POST", "/v1/transactions", `{"definition":"order@3"}`).problem(400, "unknown_definition")
	w.call("POST", "/v1/transactions", `{"definition":"order@x"}`).problem(400, "invalid_version")
	w.call("POST", "/v1/transactions", `{"definition":""}`).problem(400, "invalid_name")

	for _, body := range []string{``, `{}`} {
		w.call("POST", path+"/drain", body).problem(400, "missing_reason")
	}
	w.call("POST", path+"/drain", `{"why":"x"}`).problem(400, "invalid_json")
	w.call("POST", path+"/drain", `{"reason":"`+strings.Repeat("x", 1025)+`"}`).problem(400, "invalid_reason")
	w.call("POST", "/v1/definitions/order/3/drain", `{"reason":"x"}`).problem(404, "not_found")
	w.call("POST", "/v1/definitions/order/x/drain", `{"reason":"x"}`).problem(400, "invalid_version")
	for range 2 {
		r = w.call("POST", path+"/drain", `{"reason":"replaced"}`).expect(200)
		if d := decode[api.Definition](r); d.State != "draining" || d.Links["drain"] != "" {
			t.Errorf("got %s", r.body)
		}
	}
	w.call("POST", "/v1/transactions", `{"definition":"order"}`).problem(409, "definition_draining")
	w.call("POST", "/v1/transactions", `{"definition":"order@2"}`, "Idempotency-Key", "new").problem(409, "definition_draining")
	repeated := w.call("POST", "/v1/transactions", `{"definition":"order"}`, "Idempotency-Key", "k").expect(202)
	if string(repeated.body) != string(first.body) || repeated.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %s, first %s", repeated.body, first.body)
	}
}
