package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/saga"
)

// schemaDoc is what the generator reads of a JSON Schema.
type schemaDoc struct {
	Ref        string                `json:"$ref"`
	Type       any                   `json:"type"`
	Enum       []any                 `json:"enum"`
	Properties map[string]*schemaDoc `json:"properties"`
	Items      *schemaDoc            `json:"items"`
}

type callDoc struct {
	method, path string
	Parameters   []struct {
		Name, In string
		Schema   schemaDoc
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]struct{ Schema schemaDoc } `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Description string              `json:"description"`
		Content     map[string]struct{} `json:"content"`
	} `json:"responses"`
}

// caller makes calls from the OpenAPI document, valid and broken ones.
type caller struct {
	*rand.Rand
	calls   []callDoc
	schemas map[string]*schemaDoc
	ids     []string // that answers had
	methods []string
}

func newCaller(t *testing.T, document []byte, seed uint64) *caller {
	t.Helper()
	var doc struct {
		Paths      map[string]map[string]callDoc
		Components struct{ Schemas map[string]*schemaDoc }
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	g := &caller{
		Rand: rand.New(rand.NewPCG(seed, 1)), schemas: doc.Components.Schemas, ids: []string{fakeID.String()},
		methods: []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "QUERY"},
	}
	for path, methods := range doc.Paths {
		for method, c := range methods {
			c.method, c.path = strings.ToUpper(method), path
			g.calls = append(g.calls, c)
		}
	}
	slices.SortFunc(g.calls, func(a, b callDoc) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return g
}

func (g *caller) odds(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *caller, of []T) T { return of[g.IntN(len(of))] }

var strange = []string{
	"", " ", "\x00", "\n", "\u202e", "é", "🂡", "\xff\xfe", "'", "\"", "' OR '1'='1", "'); --", "%00", "%", "%zz", "../..", "..%2f..", "//", "\\", "<b>", "{{1}}", "$1",
	"null", "NaN", "-1", "0", "1e999", "9223372036854775808", "-9223372036854775809", "1.5", "true", "*", "a,b", "0198c7a2", "00000000-0000-0000-0000-000000000000",
	"ffffffff-ffff-ffff-ffff-ffffffffffff", strings.Repeat("a", 300), strings.Repeat("é", 2000), strings.Repeat("[", 600),
}

var usual = []string{
	"a", "bank", "order", "ill", "x-1", "2", "1", "open", "true", "false", "running", "participant", "all", "definition", "1ms", "10ms", "24h", "never", "x@y", "order@2",
	"2030-01-02T03:04:05Z", "aGk=", `"1"`, `"2"`, "tcc", "saga", "pivot", "retriable", "0123456789abcdef", "dA", "acme", "client", "viewer",
}

// text draws a string: one of those that are allowed, usual, an id that there is, or strange.
func (g *caller) text(s *schemaDoc) string {
	switch {
	case s != nil && len(s.Enum) > 0 && g.odds(80):
		return fmt.Sprint(pick(g, s.Enum))
	case g.odds(5):
		return ""
	case g.odds(30):
		return pick(g, strange)
	case g.odds(50):
		return pick(g, g.ids)
	default:
		return pick(g, usual)
	}
}

// value draws a JSON value for a schema, of another type now and then.
func (g *caller) value(s *schemaDoc, depth int) any {
	if s != nil && s.Ref != "" {
		s = g.schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	kind := ""
	if s != nil {
		kind = strings.Trim(strings.Split(fmt.Sprint(s.Type), " ")[0], "[]")
	}
	if kind == "" || kind == "<nil>" || g.odds(6) {
		kind = pick(g, []string{"string", "integer", "boolean", "null", "object", "array", "number"})
	}
	if depth > 4 {
		kind = "string"
	}
	switch kind {
	case "object":
		o := map[string]any{}
		if s != nil {
			for name, of := range s.Properties {
				if g.odds(75) {
					o[name] = g.value(of, depth+1)
				}
			}
		}
		if g.odds(10) {
			o[g.text(nil)] = g.value(nil, depth+1)
		}
		return o
	case "array":
		a := []any{}
		var items *schemaDoc
		if s != nil {
			items = s.Items
		}
		for range pick(g, []int{0, 1, 1, 2, 3, 130}) {
			a = append(a, g.value(items, depth+2))
		}
		return a
	case "integer", "number":
		return json.RawMessage(pick(g, []string{"0", "1", "2", "-1", "50", "500", "501", "1.5", "1e400", "9223372036854775808", "123456789012345678901234567890"}))
	case "boolean":
		return g.odds(50)
	case "null":
		return nil
	default:
		return g.text(s)
	}
}

// body draws a body: of the schema, of an example, broken somewhere, or something else.
func (g *caller) body(c *callDoc) []byte {
	if c.RequestBody == nil && g.odds(90) {
		return nil
	}
	example := bodies[c.method+" "+c.path]
	if example == "" {
		example = `{"reason":"because"}`
	}
	var body []byte
	switch {
	case g.odds(45):
		body = []byte(example)
	case c.RequestBody != nil && g.odds(85):
		media := c.RequestBody.Content["application/json"]
		body, _ = json.Marshal(g.value(&media.Schema, 0)) // an impossible number makes no body at all
	default:
		body = []byte(pick(g, strange))
	}
	if g.odds(15) && len(body) > 0 { // cut, doubled, or a byte changed
		at := g.IntN(len(body))
		switch g.IntN(3) {
		case 0:
			body = body[:at]
		case 1:
			body = append(slices.Clone(body), body...)
		default:
			body = slices.Clone(body)
			body[at] = byte(g.IntN(256))
		}
	}
	if g.odds(1) {
		body = append([]byte(`{"reason":"`), strings.Repeat("x", 1<<uint(g.IntN(22)))...)
	}
	return body
}

func (g *caller) target(c *callDoc) string {
	path := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllStringFunc(c.path, func(name string) string {
		if (name == "{id}" || name == "{fingerprint}") && g.odds(70) {
			return pick(g, g.ids)
		}
		return url.PathEscape(g.text(nil))
	})
	query := url.Values{}
	for _, p := range c.Parameters {
		if p.In == "query" && g.odds(40) {
			v := g.text(&p.Schema)
			if p.Name == "wait" && g.odds(80) {
				v = pick(g, []string{"1ms", "0", "-1s", "1"})
			}
			query.Add(p.Name, v)
			if g.odds(5) {
				query.Add(p.Name, g.text(&p.Schema))
			}
		}
	}
	if g.odds(3) {
		query.Add(g.text(nil), g.text(nil))
	}
	if len(query) == 0 {
		return path
	}
	raw := query.Encode()
	if g.odds(4) {
		raw += pick(g, []string{"&", "&%zz=1", ";a=b", "&=", "&a=%ff"})
	}
	return path + "?" + raw
}

// request draws a call.
func (g *caller) request(ctx context.Context) (*http.Request, *callDoc) {
	c := &g.calls[g.IntN(len(g.calls))]
	method := c.method
	if g.odds(4) {
		method = pick(g, g.methods)
	}
	body := g.body(c)
	target, err := url.ParseRequestURI(g.target(c))
	if err != nil {
		target = &url.URL{Path: "/v1/transactions", RawQuery: "%zz"}
	}
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost/", strings.NewReader(string(body)))
	r.URL, r.RequestURI, r.RemoteAddr = target, target.RequestURI(), "127.0.0.1:1"
	if g.odds(2) {
		r.ContentLength = pick(g, []int64{-1, 0, 1, 1 << 40})
	}
	r.Header["Authorization"] = []string{pick(g, []string{"tenant", "all", "all", "all", "all", "all", "nobody"})}
	headers := map[string][]string{
		"If-Match": {`"1"`, `"2"`, `"3"`, `W/"1"`, "*", `"`, "1"}, "Content-Type": {"application/json", "text/plain", "application/json; charset=utf-8", ";;", "application/json; charset"},
		"Content-Encoding": {"gzip", "identity"}, "Idempotency-Key": {"k", "k2", "k3", "k4"}, "Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"Prefer": {"wait=0", "wait=x", "respond-async"}, "X-Request-Id": {"abc", "a b"}, "Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site", "same-origin"},
		"Last-Event-Id": {"1", "x"}, "Accept": {"text/event-stream", "*/*", "a/b/c"},
	}
	for _, p := range c.Parameters {
		if p.In == "header" && headers[p.Name] == nil {
			headers[p.Name] = usual
		}
	}
	for _, name := range slices.Sorted(mapKeys(headers)) {
		odds := 4
		if name == "If-Match" || name == "Idempotency-Key" {
			odds = 60
		}
		if !g.odds(odds) {
			continue
		}
		r.Header[name] = []string{pick(g, headers[name])}
		if g.odds(5) {
			r.Header[name] = append(r.Header[name], pick(g, strange))
		}
	}
	return r, c
}

func mapKeys(m map[string][]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

var idPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{16}\b`)

// learn takes ids from an answer, so that later calls are about things that there are.
func (g *caller) learn(body string) {
	const idsMax = 200
	for _, id := range idPattern.FindAllString(body, 5) {
		if len(g.ids) < idsMax {
			g.ids = append(g.ids, id)
		} else {
			g.ids[g.IntN(idsMax)] = id
		}
	}
}

// innards are what no answer may show: of SQL, of PostgreSQL's errors, of Go's stacks and of this program's files.
var innards = regexp.MustCompile(`SQLSTATE|\bSELECT\b.*\bFROM\b|\bINSERT INTO\b|\bUPDATE \w+ SET\b|ERROR:|goroutine \d|\.go:\d|runtime\.|pgx|pgconn|panic|relation "|syntax error|/usr/|/home/`)

// wrong returns what is wrong with an answer, "" for nothing.
func (c *callDoc) wrong(r *http.Request, w *httptest.ResponseRecorder) string {
	status, body := w.Code, w.Body.String()
	switch {
	case c.path != "/openapi.json" && innards.MatchString(body): // the document is a constant, and speaks of many things
		return "shows what is inside"
	case status == http.StatusServiceUnavailable && strings.Contains(c.Responses["503"].Description, "`"+codeIn(body)+"`"):
		return ""
	case status >= 500:
		return "is an error of the server"
	case r.Method != c.method && status != 200 && status != 404 && status != 405 && r.Method != "HEAD":
		return "" // it may be another route's
	case r.Method == c.method && status != 404 && c.Responses[strconv.Itoa(status)].Description == "":
		return "has a status that is not documented"
	case body != "" && strings.Contains(w.Header().Get("Content-Type"), "json") && !json.Valid([]byte(body)):
		return "is not JSON"
	case status >= 400 && w.Header().Get("Content-Type") != "application/problem+json":
		return "is no problem"
	case w.Header().Get("X-Request-Id") == "":
		return "has no X-Request-Id"
	}
	return ""
}

func codeIn(body string) string {
	var p api.Problem
	_ = json.Unmarshal([]byte(body), &p) // what is no problem has no code
	return p.Code
}

// fuzzed is a world whose callers say who they are.
func fuzzed(t *testing.T) (*letters, http.Handler) {
	t.Helper()
	var h http.Handler
	identities := map[string]api.Identity{
		"tenant": {Tenant: "acme", Client: "shop", Actor: "ann", Roles: token.AllRoles},
		"all":    {Tenant: "acme", Client: "shop", Actor: "root", Roles: token.AllRoles, AllTenants: true},
	}
	l := newLetters(t, func(c *api.Config) {
		c.Authenticate = func(r *http.Request) (api.Identity, error) {
			id, ok := identities[r.Header.Get("Authorization")]
			if !ok {
				return id, api.ErrUnauthenticated
			}
			return id, nil
		}
		h = api.New(*c)
	})
	return l, h
}

// No call that can be made from the document breaks the server. API_SEED and API_CALLS repeat a run or make more calls.
func TestGeneratedCalls(t *testing.T) {
	t.Parallel()
	l, h := fuzzed(t)
	seed, count := uint64(time.Now().UnixNano()), 5000
	if v := os.Getenv("API_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	if v := os.Getenv("API_CALLS"); v != "" {
		count, _ = strconv.Atoi(v)
	}
	t.Logf("API_SEED=%d API_CALLS=%d", seed, count)
	g := newCaller(t, l.call("GET", "/openapi.json", "").expect(200).body, seed)
	l.seedLetters(g)
	statuses, reached := map[int]int{}, map[string]bool{}
	for i := range count {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, c := g.request(ctx)
		if slices.ContainsFunc([]string{"200", "201"}, func(s string) bool { _, stream := c.Responses[s].Content["text/event-stream"]; return stream }) {
			ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
			r = r.WithContext(ctx)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		cancel()
		statuses[w.Code]++
		if w.Code < 300 && r.Method == c.method {
			reached[c.method+" "+c.path] = true
		}
		if what := c.wrong(r, w); what != "" {
			t.Errorf("call %d of seed %d: the answer %s\n%s %q %v\nHTTP %d %.500s", i, seed, what, r.Method, r.URL, r.Header, w.Code, w.Body)
		}
		g.learn(w.Body.String())
	}
	t.Logf("by status: %v; %d of %d routes were reached with success", statuses, len(reached), len(g.calls))
	if count >= 5000 && (len(reached) < len(g.calls)/2 || statuses[400] < count/20) {
		t.Error("hardly anything was reached")
	}
	if log := l.logs.String(); strings.Contains(log, "panicked") {
		t.Errorf("a request panicked: %s", log)
	}
	l.aliveAndCorrect()
}

// seedLetters makes dead letters, so that there are some to act on.
func (l *letters) seedLetters(g *caller) {
	l.t.Helper()
	for i := range 5 {
		l.submit(`{"definition":{"name":"ill","steps":[{"name":"a","participant":"ill","action":"work"}]}}`, "Authorization", "tenant", "Idempotency-Key", "seed"+strconv.Itoa(i))
	}
	l.until("dead letters", func() bool {
		r := l.call("GET", "/v1/dead-letters", "", "Authorization", "tenant").expect(200)
		g.learn(string(r.body))
		return len(decode[api.DeadLetters](r).DeadLetters) == 5
	})
}

// aliveAndCorrect shows that after all of that the server does its work.
func (l *letters) aliveAndCorrect() {
	l.t.Helper()
	as := []string{"Authorization", "all"}
	l.call("GET", "/healthz", "").expect(200)
	for _, p := range decode[api.Pauses](l.call("GET", "/v1/pauses", "", as...).expect(200)).Pauses {
		l.call("DELETE", "/v1/pauses/"+p.ID, `{"reason":"go on"}`, as...).expect(200)
	}
	l.participant("good", func(saga.Command) saga.Reply { return saga.Reply{Outcome: saga.OutcomeDone} })
	path := l.submit(`{"definition":{"name":"last","steps":[{"name":"a","participant":"good","action":"work"}]}}`, append(as, "Idempotency-Key", "the-last")...)
	if tx := l.call("GET", path+"?wait=30s", "", as...).transaction(); tx.Status != "committed" {
		l.t.Errorf("the last transaction is %+v", tx)
	}
}
