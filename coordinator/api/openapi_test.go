package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sagacity-tx/sagacity/coordinator/api"
)

type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string                      `json:"operationId"`
		Responses   map[string]json.RawMessage  `json:"responses"`
		Parameters  []struct{ Name, In string } `json:"parameters"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
}

func theDocument(t *testing.T, s *httptest.Server) (document, reply) {
	t.Helper()
	r := call(t, s, "GET", "/openapi.json", "").expect(200)
	return decode[document](r), r
}

// The document lists every route, and every route that it lists is served.
func TestDocumentListsTheRoutes(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{})
	doc, r := theDocument(t, s)
	var got []string
	for path, methods := range doc.Paths {
		for method, op := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
			if op.OperationID == "" || len(op.Responses) < 2 {
				t.Errorf("%s %s is %+v", method, path, op)
			}
			served := call(t, s, strings.ToUpper(method), strings.NewReplacer("{id}", fakeID.String(), "{code}", "internal", "{fingerprint}", "0123456789abcdef").Replace(path), "")
			if served.status == 404 || served.status == 405 || served.status >= 500 {
				t.Errorf("%s %s is not served: HTTP %d %s", method, path, served.status, served.body)
			}
			if _, documented := op.Responses[fmt.Sprint(served.status)]; !documented {
				t.Errorf("%s %s answers HTTP %d, which is not documented", method, path, served.status)
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"DELETE /v1/pauses/{id}", "DELETE /v1/tokens/{id}", "DELETE /v1/webhooks/{id}", "GET /healthz", "GET /openapi.json",
		"GET /problems/{code}", "GET /readyz", "GET /v1/approvals", "GET /v1/audit", "GET /v1/dead-letter-groups",
		"GET /v1/dead-letter-groups/{fingerprint}", "GET /v1/dead-letters", "GET /v1/dead-letters/{id}", "GET /v1/definitions",
		"GET /v1/definitions/{name}/{version}", "GET /v1/jobs", "GET /v1/jobs/{id}", "GET /v1/jobs/{id}/items", "GET /v1/participants",
		"GET /v1/pauses", "GET /v1/requests", "GET /v1/tokens", "GET /v1/transactions", "GET /v1/transactions/{id}",
		"GET /v1/transactions/{id}/attempts", "GET /v1/transactions/{id}/events", "GET /v1/transactions/{id}/explain",
		"GET /v1/webhooks", "GET /v1/webhooks/{id}/deliveries", "POST /v1/approvals/{id}/revoke",
		"POST /v1/dead-letter-groups/{fingerprint}/inquire", "POST /v1/dead-letter-groups/{fingerprint}/notes",
		"POST /v1/dead-letters/{id}/approvals", "POST /v1/dead-letters/{id}/discard", "POST /v1/dead-letters/{id}/edit",
		"POST /v1/dead-letters/{id}/inquire", "POST /v1/dead-letters/{id}/replay", "POST /v1/definitions",
		"POST /v1/definitions/{name}/{version}/drain", "POST /v1/jobs", "POST /v1/jobs/{id}/abort", "POST /v1/jobs/{id}/pause",
		"POST /v1/jobs/{id}/resume", "POST /v1/jobs/{id}/start", "POST /v1/pauses", "POST /v1/tokens", "POST /v1/transactions",
		"POST /v1/transactions/{id}/cancel",
		"POST /v1/transactions/{id}/resolve", "POST /v1/webhooks", "POST /v1/webhooks/{id}/test",
	}
	if doc.OpenAPI != "3.1.0" || !slices.Equal(got, want) {
		t.Errorf("version %s, routes %q, want %q", doc.OpenAPI, got, want)
	}
	if strings.Contains(string(r.body), "$schema") {
		t.Error("a schema link is in the document")
	}
	for _, ref := range regexp.MustCompile(`"\$ref":"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(string(r.body), -1) {
		if doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("%s is not defined", ref[0])
		}
	}
}

// Real answers are what the document says.
func TestAnswersFitTheDocument(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	id, path := l.bury()
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	check := func(r reply, form reflect.Type) {
		t.Helper()
		schema := registry.Schema(form, true, "")
		for _, s := range registry.Map() {
			s.PrecomputeMessages()
		}
		var value any
		if err := json.Unmarshal(r.body, &value); err != nil {
			t.Fatal(err)
		}
		var result huma.ValidateResult
		huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &result)
		for _, err := range result.Errors {
			t.Errorf("%v in %s", err, r.body)
		}
	}
	check(l.get(path), reflect.TypeFor[api.Transaction]())
	check(l.get(path+"/attempts"), reflect.TypeFor[api.Attempts]())
	check(l.get("/v1/transactions?limit=1"), reflect.TypeFor[api.Transactions]())
	check(l.get("/v1/dead-letters?limit=1"), reflect.TypeFor[api.DeadLetters]())
	check(l.get("/v1/audit?limit=1"), reflect.TypeFor[api.Audit]())
	groups := l.get("/v1/dead-letter-groups?limit=1").expect(200)
	check(groups, reflect.TypeFor[api.Groups]())
	group := decode[api.Groups](groups).Groups[0].Links["self"]
	check(l.call("POST", group+"/notes", `{"note":"x"}`).expect(201), reflect.TypeFor[api.Note]())
	check(l.call("POST", group+"/inquire", "").expect(202), reflect.TypeFor[api.Inquired]())
	check(l.get(group), reflect.TypeFor[api.GroupDetail]())
	check(l.get("/v1/dead-letters/"+id), reflect.TypeFor[api.DeadLetterDetail]())
	check(l.call("POST", "/v1/transactions", submission("d"), "Idempotency-Key", "k").expect(202), reflect.TypeFor[api.Accepted]())
	check(l.call("POST", "/v1/pauses", `{"scope":"participant","participant":"bank","reason":"x"}`).expect(201), reflect.TypeFor[api.Pause]())
	check(l.get("/v1/pauses"), reflect.TypeFor[api.Pauses]())
	check(l.get("/v1/participants"), reflect.TypeFor[api.Participants]())
	check(l.call("POST", "/v1/webhooks", `{"url":"https://hooks.invalid","reason":"x"}`).expect(201), reflect.TypeFor[api.Webhook]())
	check(l.get("/v1/webhooks"), reflect.TypeFor[api.Webhooks]())
	check(l.get("/nothing"), reflect.TypeFor[api.Problem]())
	check(l.call("POST", path+"/cancel", "").expect(200), reflect.TypeFor[api.Transaction]())
	later := l.submit(submission("later", `"timeout":"1h"`))
	check(l.get(later), reflect.TypeFor[api.Transaction]())
}

// docs/api.md describes every route, and every code with its status: it is where problem types lead.
func TestDocsAreComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serveFake(t, &fake{})
	doc, r := theDocument(t, s)
	for path, methods := range doc.Paths {
		for method := range methods {
			if want := "`" + strings.ToUpper(method) + " " + path + "`"; !strings.Contains(string(text), want) {
				t.Errorf("docs/api.md does not have %s", want)
			}
		}
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| <a id="[a-z_]+"></a>`+"`([a-z_]+)`"+` \| (\d+) \| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[0]
		explained := call(t, s, "GET", "/problems/"+m[1], "").expect(200)
		want := fmt.Sprintf("%s (HTTP %s)\n\n%s\n\n%s\n", m[1], m[2], m[3], m[4])
		if string(explained.body) != want {
			t.Errorf("docs/api.md says of %s:\n%s\nthe API says:\n%s", m[1], want, explained.body)
		}
	}
	documented := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(string(r.body), -1)
	if len(rows) < 40 || len(documented) < 40 {
		t.Fatalf("%d rows, %d codes in the document", len(rows), len(documented))
	}
	for _, m := range documented {
		if rows[m[1]] == "" {
			t.Errorf("docs/api.md does not explain %s", m[1])
		}
	}
	if call(t, s, http.MethodGet, "/problems/internal", "").header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Error("the explanation is not plain text")
	}
}
