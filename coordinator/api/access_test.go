package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
)

// operation is a route as the document has it.
type operation struct {
	method, path string
	roles        []string // that suffice, each alone; nil: it is for everyone
	streams      bool     // the answer does not end by itself
}

func (o operation) String() string { return o.method + " " + o.path }

// operations reads them from the document, those that read before those that write.
func operations(w *world) []operation {
	w.t.Helper()
	doc := decode[struct {
		Paths map[string]map[string]struct {
			Security  []map[string][]string `json:"security"`
			Responses map[string]struct {
				Content map[string]struct{} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}](w.call("GET", "/openapi.json", "").expect(200))
	var list []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o := operation{method: strings.ToUpper(method), path: path}
			for _, s := range op.Security {
				o.roles = append(o.roles, s["bearer"]...)
			}
			_, o.streams = op.Responses["200"].Content["text/event-stream"]
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.method+b.path, b.method+a.path) })
	slices.SortStableFunc(list, func(a, b operation) int {
		order := map[string]int{"GET": 0, "POST": 1, "DELETE": 2}
		return order[a.method] - order[b.method]
	})
	return list
}

// matrix has things of the tenant acme and its client shop, and callers who must not get at them.
type matrix struct {
	*letters
	objects map[string]string // by what a path begins with: an id
	marks   []string          // what nobody else may be shown
	rows    int               // of the audit before the last call
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{letters: newLetters(t, func(c *api.Config) {
		c.Authenticate, c.DeniedRowsMax = api.Bearer(c.Tokens), 10_000
	})}
	shop := m.token("acme", "shop", token.Client|token.Operator|token.Approver)
	root := m.token(token.AllTenants, "", token.Admin)
	var fingerprint string
	body := `{"definition":{"name":"ill","steps":[{"name":"a","participant":"ill","action":"work"}]},"input":{"secret":"mark-in-payload"}}`
	tx := m.submit(body, append(shop, "Idempotency-Key", "key-of-acme")...)
	m.objects = map[string]string{"/v1/transactions/": strings.TrimPrefix(tx, "/v1/transactions/")}
	m.until("a dead letter", func() bool {
		page := decode[api.DeadLetters](m.call("GET", "/v1/dead-letters", "", shop...).expect(200))
		if len(page.DeadLetters) > 0 {
			m.objects["/v1/dead-letters/"], fingerprint = page.DeadLetters[0].ID, page.DeadLetters[0].Fingerprint
		}
		return len(page.DeadLetters) > 0
	})
	made := decode[api.NewToken](m.call("POST", "/v1/tokens", `{"tenant":"acme","client":"spare","roles":["client"],"reason":"spare"}`, root...).expect(201))
	m.objects["/v1/tokens/"] = made.ID
	pause := decode[api.Pause](m.call("POST", "/v1/pauses", `{"scope":"participant","participant":"other","reason":"mark-in-pause"}`, root...).expect(201))
	m.objects["/v1/pauses/"] = pause.ID
	m.objects["/v1/dead-letter-groups/"] = fingerprint
	job := decode[api.Job](m.call("POST", "/v1/jobs", m.body(operation{method: "POST", path: "/v1/jobs"}), shop...).expect(201))
	m.objects["/v1/jobs/"] = job.ID
	approval := decode[api.Approval](m.call("POST", "/v1/dead-letters/"+m.objects["/v1/dead-letters/"]+"/approvals", `{"reason":"x"}`, append(shop, "If-Match", `"1"`)...).expect(201))
	m.objects["/v1/approvals/"] = approval.ID
	hook := decode[api.Webhook](m.call("POST", "/v1/webhooks", bodies["POST /v1/webhooks"], root...).expect(201))
	m.objects["/v1/webhooks/"] = hook.ID
	m.call("POST", "/v1/definitions", registered, root...).expect(201)
	for _, id := range m.objects {
		m.marks = append(m.marks, id)
	}
	m.call("POST", "/v1/dead-letter-groups/"+fingerprint+"/notes", `{"note":"mark-in-note"}`, shop...).expect(201)
	m.marks = append(m.marks, "mark-in-note", "mark-in-payload", "mark-in-pause", "key-of-acme", "spare")
	return m
}

// token makes one and returns its header.
func (m *matrix) token(tenant, client string, roles token.Roles) []string {
	m.t.Helper()
	_, secret, err := token.New(m.pool).Create(m.t.Context(), token.CreateParams{By: "test", Tenant: tenant, Client: client, Actor: "someone", Roles: roles})
	if err != nil {
		m.t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + secret}
}

// target returns the path of acme's object that a route is about.
func (m *matrix) target(path string) string {
	m.t.Helper()
	switch {
	case strings.HasPrefix(path, "/v1/definitions/{name}/{version}"):
		path = strings.NewReplacer("{name}", "order", "{version}", "2").Replace(path)
	case path == "/v1/requests":
		path += "?id=key-of-acme"
	default:
		path = strings.ReplaceAll(path, "{fingerprint}", "{id}")
		if before, after, found := strings.Cut(path, "{id}"); found {
			id := m.objects[before]
			if id == "" {
				m.t.Fatalf("%s: there is no object of acme that it is about; make one in newMatrix", path)
			}
			path = before + id + after
		}
	}
	if strings.Contains(path, "{") {
		m.t.Fatalf("%s has a parameter that this test does not know; say in target what it is of acme's", path)
	}
	return path
}

// bodies of the routes that make something or take more than a reason, which is what the others take.
var bodies = map[string]string{
	"POST /v1/transactions":                           submission("theirs"),
	"POST /v1/definitions":                            registered,
	"POST /v1/pauses":                                 `{"scope":"participant","participant":"bank","reason":"x"}`,
	"POST /v1/webhooks":                               `{"url":"https://1.1.1.1/hook","kinds":["suspended"],"reason":"x"}`,
	"POST /v1/jobs":                                   `{"selection":{"fingerprint":"0123456789abcdef"},"reason":"x"}`,
	"POST /v1/dead-letters/{id}/edit":                 `{"reason":"x","input":1}`,
	"POST /v1/dead-letter-groups/{fingerprint}/notes": `{"note":"mark-in-note"}`,
	"POST /v1/tokens":                                 `{"tenant":"acme","client":"thief","roles":["client"],"reason":"x"}`,
}

func (m *matrix) body(o operation) string {
	m.t.Helper()
	if o.method == http.MethodGet {
		return ""
	}
	if body := bodies[o.String()]; body != "" {
		return strings.Replace(body, "0123456789abcdef", m.objects["/v1/dead-letter-groups/"], 1)
	}
	if !strings.Contains(o.path, "{") {
		m.t.Fatalf("%s makes something: say in bodies what it takes", o)
	}
	return `{"reason":"x"}`
}

func (m *matrix) do(o operation, headers []string) reply {
	m.t.Helper()
	m.rows = m.count(`SELECT count(*) FROM audit`)
	return m.call(o.method, m.target(o.path), m.body(o), slices.Concat(headers, []string{"If-Match", `"1"`})...)
}

// audited checks that the audit has one row of the call, which was refused, with the caller's tenant: of the API, which
// names the HTTP request, or of whoever looked for what it was about.
func (m *matrix) audited(what, tenant string, r reply) {
	m.t.Helper()
	const sql = `SELECT count(*) FROM (SELECT * FROM audit ORDER BY at DESC, id DESC LIMIT 1) AS last
		WHERE NOT allowed AND tenant = $2 AND actor = CASE WHEN tenant = '' THEN 'nobody' ELSE 'someone' END
		  AND (action <> 'denied' OR detail LIKE '%HTTP request ' || $1)`
	rows := m.count(`SELECT count(*) FROM audit`) - m.rows
	if last := m.count(sql, r.header.Get("X-Request-Id"), tenant); rows != 1 || last != 1 {
		m.t.Errorf("%s: HTTP %d, and %d rows in the audit, of which %d is right", what, r.status, rows, last)
	}
}

// I-14, D6: every route × {no token, wrong role, other tenant, other client}. The routes and the roles that they need are
// those of the document, so that a new route cannot be forgotten.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	list := operations(m.world)
	byRole := map[string][]string{}
	for _, name := range token.RoleNames() {
		role, err := token.ParseRoles([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		byRole[name] = m.token("acme", "shop", role)
	}
	rival, neighbour := m.token("rival", "shop", token.AllRoles), m.token("acme", "neighbour", token.Client)
	checks := map[string]int{}
	for _, o := range list {
		if o.roles == nil {
			if public := []string{"/healthz", "/readyz", "/openapi.json", "/problems/{code}"}; !slices.Contains(public, o.path) {
				t.Errorf("%s is for everyone", o)
			}
			continue
		}
		for what, header := range map[string][]string{
			"no token": nil, "a wrong token": {"Authorization", "Bearer sag_" + strings.Repeat("A", 43)}, "no bearer": {"Authorization", "Basic eDp5"},
		} {
			r := m.do(o, header).problem(401, "unauthenticated")
			m.audited(o.String()+" with "+what, "", r)
			checks["no token"]++
		}
		for name, header := range byRole {
			if !slices.Contains(o.roles, name) {
				r := m.do(o, header).problem(403, "forbidden")
				m.audited(o.String()+" as "+name, "acme", r)
				checks["wrong role"]++
			}
		}
		m.foreign(o, "another tenant", "rival", rival, checks)
		m.foreign(o, "another client", "acme", neighbour, checks)
	}
	m.allowed(list)
	t.Logf("%d routes; denied: %v", len(list), checks)
	if len(list) < 24 || checks["no token"] < 60 || checks["wrong role"] < 40 || checks["another tenant"] < 35 || checks["another client"] < 15 {
		t.Error("hardly anything was checked")
	}
}

// foreign calls a route as somebody who has nothing to do with what is acme's: denied, or shown nothing of it.
func (m *matrix) foreign(o operation, what, tenant string, header []string, checks map[string]int) {
	m.t.Helper()
	r := m.do(o, append(header, "Idempotency-Key", "key-of-acme"))
	switch {
	case r.status == 401 || r.status == 403 || r.status == 404, o.path == "/v1/jobs" && r.status == 409: // nothing of its own is selected
		m.audited(o.String()+" of "+what, tenant, r)
		checks[what]++
		return
	case r.status >= 300:
		m.t.Errorf("%s of %s: HTTP %d %s", o, what, r.status, r.body)
		return
	case strings.Contains(o.path, "{") && !strings.HasPrefix(o.path, "/v1/definitions/"): // definitions are for all tenants to read
		m.t.Errorf("%s of %s: HTTP %d %s", o, what, r.status, r.body)
	}
	if o.path == "/v1/audit" { // it has the ids that the rival has just asked for
		for _, e := range decode[api.Audit](r).Audit {
			if e.Tenant != "rival" {
				m.t.Errorf("the audit shows %s the tenant %q", what, e.Tenant)
			}
		}
		return
	}
	for _, mark := range m.marks {
		if strings.Contains(string(r.body)+r.header.Get("Location"), mark) {
			m.t.Errorf("%s shows %s what is acme's: %s", o, what, r.body)
		}
	}
}

// allowed shows that what was denied is there for those whose it is. What they do changes things, so it comes last.
func (m *matrix) allowed(list []operation) {
	m.t.Helper()
	shop, root := m.token("acme", "shop", token.AllRoles), m.token(token.AllTenants, "", token.Admin)
	for _, o := range list {
		if o.roles == nil {
			continue
		}
		if o.streams {
			ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Second)
			if r, _ := try(ctx, m.server, o.method, m.target(o.path), "", shop...); r.status != 200 { // it is cut off on purpose
				m.t.Errorf("%s of its owner: HTTP %d %s", o, r.status, r.body)
			}
			cancel()
			continue
		}
		r := m.do(o, shop)
		if r.status == 403 { // it is about what all tenants share
			r = m.do(o, root)
		}
		if r.status == 401 || r.status == 403 || r.status == 404 {
			m.t.Errorf("%s of its owner: HTTP %d %s", o, r.status, r.body)
		}
	}
}

// Operators of one tenant see and do what is their tenant's, those of all tenants everything; a client its own.
func TestReach(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	tx := "/v1/transactions/" + m.objects["/v1/transactions/"]
	letter := "/v1/dead-letters/" + m.objects["/v1/dead-letters/"]
	other := m.submit(submission("theirs"), m.token("rival", "shop", token.Client)...)
	seen := func(header []string) (n int) {
		return len(decode[api.Transactions](m.call("GET", "/v1/transactions", "", header...).expect(200)).Transactions)
	}
	for what, c := range map[string]struct {
		header []string
		sees   int
		status int
	}{
		"viewer":             {m.token("acme", "", token.Viewer), 1, 200},
		"approver":           {m.token("acme", "", token.Approver), 1, 200},
		"viewer of all":      {m.token(token.AllTenants, "", token.Viewer), 2, 200},
		"viewer of another":  {m.token("rival", "", token.Viewer), 1, 404},
		"viewer of nothing":  {m.token("third", "", token.Viewer), 0, 404},
		"client and viewer":  {m.token("acme", "neighbour", token.Client|token.Viewer), 1, 200},
		"client of the same": {m.token("acme", "shop", token.Client), 1, 200},
	} {
		if n := seen(c.header); n != c.sees {
			t.Errorf("%s sees %d transactions", what, n)
		}
		for _, path := range []string{tx, tx + "/attempts", tx + "/explain"} {
			if r := m.call("GET", path, "", c.header...); r.status != c.status {
				t.Errorf("%s reads %s: HTTP %d", what, path, r.status)
			}
		}
		if what != "client of the same" {
			if r := m.call("GET", letter, "", c.header...); r.status != c.status {
				t.Errorf("%s reads the dead letter: HTTP %d", what, r.status)
			}
		}
		m.call("POST", letter+"/discard", `{"reason":"x"}`, append(c.header, "If-Match", `"1"`)...).problem(403, "forbidden")
	}
	m.call("POST", other+"/cancel", `{"reason":"x"}`, m.token("acme", "", token.Operator)...).problem(404, "not_found")
	m.call("POST", other+"/cancel", `{"reason":"x"}`, m.token(token.AllTenants, "", token.Viewer)...).problem(403, "forbidden")
	m.call("POST", other+"/cancel", `{"reason":"stop it"}`, m.token(token.AllTenants, "", token.Operator)...).expect(200)
	if n := m.count(`SELECT count(*) FROM audit WHERE action = 'cancel' AND allowed AND actor = 'someone' AND tenant = 'rival' AND reason = 'stop it' AND object = $1`,
		strings.TrimPrefix(other, "/v1/transactions/")); n != 1 {
		t.Errorf("%d audit rows of the cancel", n)
	}
	m.call("POST", letter+"/discard", `{"reason":"x"}`, append(m.token("rival", "", token.Operator), "If-Match", `"1"`)...).problem(404, "not_found")
	m.call("POST", letter+"/discard", `{"reason":"x"}`, append(m.token("acme", "", token.Operator), "If-Match", `"1"`)...).expect(200)
}

// Operators of one tenant have groups, notes, jobs, approvals and inquiries of their own: of what they share a cause with,
// and of what those of all tenants do, they see nothing (I-14).
func TestTenantOperators(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	const roles = token.Operator | token.Approver
	acme, rival, root := m.token("acme", "", roles), m.token("rival", "", roles), m.token(token.AllTenants, "", roles)
	m.submit(`{"definition":{"name":"ill","steps":[{"name":"a","participant":"ill","action":"work"}]}}`, m.token("rival", "shop", token.Client)...)
	var letter api.DeadLetter
	m.until("the rival has a dead letter", func() bool {
		page := decode[api.DeadLetters](m.call("GET", "/v1/dead-letters", "", rival...).expect(200))
		if len(page.DeadLetters) == 1 {
			letter = page.DeadLetters[0]
		}
		return len(page.DeadLetters) == 1
	})
	group := "/v1/dead-letter-groups/" + m.objects["/v1/dead-letter-groups/"]
	if groupPath := "/v1/dead-letter-groups/" + letter.Fingerprint; groupPath != group {
		t.Fatalf("equal causes are in the groups %s and %s", groupPath, group)
	}
	m.call("POST", group+"/notes", `{"note":"of the rival"}`, rival...).expect(201)
	job := decode[api.Job](m.call("POST", "/v1/jobs", m.body(operation{method: "POST", path: "/v1/jobs"}), rival...).expect(201))
	all := decode[api.Job](m.call("POST", "/v1/jobs", m.body(operation{method: "POST", path: "/v1/jobs"}), root...).expect(201))
	if job.Items["pending"] != 1 || all.Items["pending"] != 2 {
		t.Errorf("the rival has selected %v, root %v", job.Items, all.Items)
	}
	approval := decode[api.Approval](m.call("POST", "/v1/dead-letters/"+letter.ID+"/approvals", `{"reason":"x"}`, append(rival, "If-Match", `"1"`)...).expect(201))
	m.call("POST", "/v1/dead-letters/"+letter.ID+"/inquire", "", rival...).expect(202)
	m.call("POST", group+"/inquire", "", rival...).expect(202)

	for _, c := range []struct {
		who                                    string
		header                                 []string
		letters, sample, notes, approvals, job int
	}{
		{"acme", acme, 1, 1, 1, 1, 1}, {"rival", rival, 1, 1, 1, 1, 1}, {"root", root, 2, 2, 2, 2, 3},
	} {
		g := decode[api.GroupDetail](m.call("GET", group, "", c.header...).expect(200))
		list := decode[api.Groups](m.call("GET", "/v1/dead-letter-groups", "", c.header...).expect(200)).Groups
		if g.Counts["open"] != c.letters || len(g.Sample) != c.sample || len(g.NoteList) != c.notes || g.Notes != c.notes || len(list) != 1 || list[0].Counts["open"] != c.letters {
			t.Errorf("%s sees %+v, and the groups %+v", c.who, g, list)
		}
		if n := len(decode[api.Approvals](m.call("GET", "/v1/approvals", "", c.header...).expect(200)).Approvals); n != c.approvals {
			t.Errorf("%s sees %d approvals", c.who, n)
		}
		if n := len(decode[api.Jobs](m.call("GET", "/v1/jobs", "", c.header...).expect(200)).Jobs); n != c.job {
			t.Errorf("%s sees %d jobs", c.who, n)
		}
	}
	for _, path := range []string{"/v1/jobs/" + job.ID, "/v1/jobs/" + all.ID} {
		m.call("GET", path, "", acme...).problem(404, "not_found")
		m.call("GET", path+"/items", "", acme...).problem(404, "not_found")
		m.call("POST", path+"/abort", `{"reason":"x"}`, append(acme, "If-Match", `"1"`)...).problem(404, "not_found")
		m.call("GET", path, "", root...).expect(200)
	}
	m.call("POST", "/v1/approvals/"+approval.ID+"/revoke", `{"reason":"x"}`, acme...).problem(404, "not_found")
	mine := m.objects["/v1/dead-letters/"]
	m.call("POST", "/v1/dead-letters/"+mine+"/replay", `{"reason":"x","approval":"`+approval.ID+`"}`, append(acme, "If-Match", `"1"`)...).problem(409, "approval_mismatch")
	m.call("POST", "/v1/approvals/"+approval.ID+"/revoke", `{"reason":"x"}`, rival...).expect(200)
	for action, want := range map[string]int{"note": 1, "create_job": 1, "approve": 1, "revoke": 1, "inquire": 2} {
		if n := m.count(`SELECT count(*) FROM audit WHERE action = $1 AND tenant = 'rival' AND allowed`, action); n != want {
			t.Errorf("%d rows of %s", n, action)
		}
	}
}

// Denied calls do not fill the disk, and a flood of one caller does not hide what another does (D6).
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	h := api.New(api.Config{Coordinator: m.engine, Tokens: token.New(m.pool), Authenticate: api.Bearer(token.New(m.pool))})
	s := serve(t, h)
	viewer := m.token("acme", "", token.Viewer)
	for range 200 {
		call(t, s, "GET", "/v1/transactions", "").problem(401, "unauthenticated")
	}
	for range 3 {
		call(t, s, "GET", "/v1/dead-letters/"+uuid.NewString(), "", viewer...).problem(404, "not_found")
	}
	h.StopWaiting()
	rows := func(actor, object string) int {
		return m.count(`SELECT count(*) FROM audit WHERE action = 'denied' AND actor = $1 AND object = $2`, actor, object)
	}
	if a, b, c := rows("nobody", "GET /v1/transactions"), rows("nobody", "more"), rows("someone", "GET /v1/dead-letters/{id}"); a != 30 || b != 1 || c != 3 {
		t.Errorf("%d and %d rows of nobody, %d of someone", a, b, c)
	}
	if n := m.count(`SELECT count(*) FROM audit WHERE action = 'denied' AND actor = 'nobody' AND detail = '170 more calls within a minute'`); n != 1 {
		t.Error("the rest was not counted")
	}
}

// An admin of one tenant makes, sees and revokes its tenant's tokens, one of all tenants those of all.
func TestTokensOverTheAPI(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	admin, root := m.token("acme", "", token.Admin), m.token(token.AllTenants, "", token.Admin)
	made := decode[api.NewToken](m.call("POST", "/v1/tokens",
		`{"tenant":"acme","client":"till","roles":["client"],"expires_in":"24h","reason":"new till"}`, admin...).expect(201))
	till := []string{"Authorization", "Bearer " + made.Secret}
	m.submit(submission("sale"), till...)
	m.call("GET", "/v1/tokens", "", till...).problem(403, "forbidden")
	m.call("POST", "/v1/tokens", `{"tenant":"rival","actor":"x","roles":["viewer"],"reason":"x"}`, admin...).problem(403, "forbidden")
	m.call("POST", "/v1/tokens", `{"tenant":"*","actor":"x","roles":["admin"],"reason":"x"}`, admin...).problem(403, "forbidden")
	for _, bad := range []string{
		`{"tenant":"acme","roles":["client"],"reason":"x"}`, `{"tenant":"acme","actor":"x","roles":["boss"],"reason":"x"}`,
		`{"tenant":"acme","actor":"x","roles":[],"reason":"x"}`, `{"tenant":"acme","actor":"x","roles":["viewer"],"expires_in":"soon","reason":"x"}`,
	} {
		r := m.call("POST", "/v1/tokens", bad, admin...).problem(400, "invalid_token")
		if strings.Contains(string(r.body), "boss") || strings.Contains(string(r.body), "soon") {
			t.Errorf("an answer repeats what was sent: %s", r.body)
		}
	}
	m.call("POST", "/v1/tokens", `{"tenant":"acme","actor":"x","roles":["viewer"]}`, admin...).problem(400, "missing_reason")
	all := map[string]int{}
	for _, header := range [][]string{admin, root} {
		next, tenants := "", map[string]int{}
		for {
			r := m.call("GET", "/v1/tokens?limit=2"+next, "", header...).expect(200)
			if strings.Contains(string(r.body), "sag_") {
				t.Errorf("a list has a token: %s", r.body)
			}
			page := decode[api.TokenPage](r)
			for i := range page.Tokens {
				tenants[page.Tokens[i].Tenant]++
			}
			if page.NextCursor == "" {
				break
			}
			next = "&cursor=" + page.NextCursor
		}
		all[fmt.Sprint(len(tenants))] = tenants["acme"]
	}
	if len(all) != 2 || all["1"] != all["2"] || all["1"] == 0 {
		t.Errorf("by number of tenants seen: %v", all)
	}
	path := "/v1/tokens/" + made.ID
	m.call("DELETE", path, `{"reason":"x"}`, m.token("rival", "", token.Admin)...).problem(404, "not_found")
	m.call("DELETE", path, `{}`, admin...).problem(400, "missing_reason")
	for range 2 {
		if got := decode[api.Token](m.call("DELETE", path, `{"reason":"stolen"}`, admin...).expect(200)); got.State != "revoked" {
			t.Errorf("got %+v", got)
		}
	}
	m.call("GET", "/v1/transactions", "", till...).problem(401, "unauthenticated")
}

// away is where tokens are, and cannot be reached.
type away struct{ api.Tokens }

func (away) Find(context.Context, string) (token.Token, error) {
	return token.Token{}, fmt.Errorf("look a token up: %w", &pgconn.ConnectError{})
}

// A database that is away makes nobody unknown: 503, not 401.
func TestTokensWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{}, func(c *api.Config) { c.Tokens, c.Authenticate = away{}, api.Bearer(away{}) })
	call(t, s, "GET", "/v1/transactions", "", "Authorization", "Bearer sag_x").problem(503, "unavailable")
	call(t, s, "GET", "/v1/transactions", "").problem(401, "unauthenticated")
}

// What an Authenticator says is not trusted further than an identity goes: mistakes let nobody in.
func TestIdentitiesThatAreIncomplete(t *testing.T) {
	t.Parallel()
	for _, id := range []api.Identity{
		{}, {Roles: token.AllRoles}, {Tenant: "acme"}, {Tenant: "acme", Roles: token.Client}, {Client: "shop", Roles: token.Client, AllTenants: true},
	} {
		s := serveFake(t, &fake{}, func(c *api.Config) { c.Authenticate = func(*http.Request) (api.Identity, error) { return id, nil } })
		for _, e := range every {
			call(t, s, e.method, e.path, e.body).problem(403, "forbidden")
		}
	}
}
