package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// marked are secrets that are found wherever they go.
type marked struct {
	password   string // of the databases
	nats       string
	configured string // token
	made       string // token, of the database
}

func (m marked) all() []string { return []string{m.password, m.nats, m.configured, m.made} }

// traces are the forms in which a secret may show: plain, hexadecimal, URL-encoded, and base64 at each of the three offsets.
func traces(secret string) []string {
	forms := []string{secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	var percent strings.Builder
	for _, b := range []byte(secret) {
		percent.WriteString("%" + hex.EncodeToString([]byte{b}))
	}
	forms = append(forms, percent.String(), strings.ToUpper(percent.String()), url.QueryEscape(secret))
	for offset := range 3 {
		padded := append(make([]byte, offset), secret...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(padded[:len(padded)-len(padded)%3])
			forms = append(forms, text[(offset*8+5)/6:]) // without the characters that depend on what is before
		}
	}
	return forms
}

// guard looks for secrets in everything that it is shown.
type guard struct {
	t      *testing.T
	marked marked
	traces []string
	looked atomic.Int64
}

func newGuard(t *testing.T, m marked) *guard {
	g := &guard{t: t, marked: m}
	for _, s := range m.all() {
		g.traces = append(g.traces, traces(s)...)
	}
	return g
}

func (g *guard) look(where, text string) {
	g.t.Helper()
	g.looked.Add(int64(len(text)))
	for _, form := range g.traces {
		if at := strings.Index(text, form); at >= 0 {
			g.t.Errorf("%s shows a secret as %q: …%q…", where, form, text[max(0, at-80):min(len(text), at+len(form)+20)])
			return
		}
	}
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// passwordOf returns the password of an address: the servers of the tests have drawn ones, which nothing else looks like.
func passwordOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	if len(password) < 16 {
		t.Fatal("a server of the tests has no password that could be found")
	}
	return password
}

// Marked passwords, tokens and addresses go through every command and every route, right and wrong. Nothing shows them:
// no output, no log, no answer, no row, no message, no process's arguments.
func TestNoSecretIsShown(t *testing.T) {
	noTokens(t)
	dsn := testdb.NewDSN(t, coordinatorSchema)
	natsURL := testdb.Cluster(t).NATSURL()
	mark := marked{password: passwordOf(t, dsn), nats: passwordOf(t, natsURL), configured: "cfgTok0123456789abcdefABCDEFmarkMark"}
	logs := &safeBuffer{}
	prefix := testdb.Prefix(t)
	s, err := newServer(t.Context(), serverConfig{
		DatabaseURL: dsn, NATSURL: natsURL, Prefix: prefix, Listen: "127.0.0.1:0", Token: mark.configured, Connections: 6, Lanes: 2,
		Log: slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	_, mark.made, err = token.New(s.pool).Create(t.Context(), token.CreateParams{
		By: "test", Tenant: "acme", Client: "shop", Roles: token.AllRoles,
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, mark)
	g.throughCommands(s.url(), dsn, natsURL)
	g.throughRoutes(s.url())
	g.throughProcesses()
	g.throughStreams(natsURL, prefix)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	stop()
	g.look("the log", logs.String())
	g.throughTables(pool)
	t.Logf("%d bytes were looked through", g.looked.Load())
	if g.looked.Load() < 100_000 {
		t.Error("hardly anything was looked through")
	}
}

// throughCommands runs every command with the secrets in its environment and files: right ones, wrong ones, and where nobody
// answers.
func (g *guard) throughCommands(server, dsn, natsURL string) {
	g.t.Helper()
	secret, made := g.marked.password, g.marked.made
	dir := g.t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			g.t.Fatal(err)
		}
		return path
	}
	submission := file("submission.json", `{"definition":{"name":"d","steps":[{"name":"a","participant":"p","action":"x"}]}}`)
	definition := file("definition.json", `{"name":"d","steps":[{"name":"a","participant":"p","action":"x"}]}`)
	config := file("serve.yaml", "database-url: "+dsn+"\nnats-url: "+natsURL+"\n")
	args := map[string][]string{
		"tx start": {"-f", submission, "--request-id", "r"}, "tx wait": {"--for", "50ms"}, "definition register": {definition},
		"definition show": {"d"}, "definition drain": {"d@1"}, "participant pause": {"p"}, "participant resume": {"p"}, "pause": {"--all"}, "resume": {"--all"},
		"token create": {"--tenant", "acme", "--actor", "ann", "--roles", "viewer"}, "token revoke": {made}, "config print": {"--config", config},
		"serve": {"--listen", "127.0.0.1:0", "--config", config}, "doctor": {"--participant", "bank"},
	}
	environments := []map[string]string{
		{"SAGACITY_SERVER": server, envToken: made, "DATABASE_URL": dsn, "NATS_URL": natsURL},
		{"SAGACITY_SERVER": server, envTokenFile: file("token", g.marked.configured), "DATABASE_URL": dsn + "&x=" + secret, "NATS_URL": natsURL},
		{"SAGACITY_SERVER": server, envToken: made[:46] + "!", "DATABASE_URL": "postgres://u:" + secret + "@127.0.0.1:1/db?connect_timeout=1", "NATS_URL": "nats://" + secret + "@127.0.0.1:1"},
		{"SAGACITY_SERVER": "http://u:" + secret + "@127.0.0.1:1", envToken: "bad " + secret, "DATABASE_URL": "postgres://u:" + secret + "@[::1/db", "NATS_URL": "nats://u:" + secret + "@[::1"},
		{"SAGACITY_SERVER": "http://127.0.0.1:1/?token=" + made, "DATABASE_URL": "host=127.0.0.1 password=" + secret + " port=x", "NATS_URL": "::" + secret},
		{"SAGACITY_SERVER": "http://127.0.0.1:1", envToken: made, envConfig: file("bad.yaml", "database-url: ["+secret), "DATABASE_URL": secret, "NATS_URL": secret},
		{"SAGACITY_SERVER": secret, envConfig: file("worse.yaml", "password: "+secret+"\n"), envTokenFile: filepath.Join(dir, "none"), "DATABASE_URL": "mysql://u:" + secret + "@h/db", "NATS_URL": "http://" + secret},
	}
	for _, env := range environments {
		for _, name := range []string{"SAGACITY_SERVER", envToken, envTokenFile, envConfig, "DATABASE_URL", "NATS_URL"} {
			g.t.Setenv(name, env[name])
		}
		for _, name := range []string{"SAGACITY_PARTICIPANT_BANK_URL", "SAGACITY_BANK_A_URL", "SAGACITY_BANK_B_URL"} {
			g.t.Setenv(name, env["DATABASE_URL"])
		}
		var commands errgroup.Group
		commands.SetLimit(8) // most wait for somebody who does not answer
		for _, cmd := range allCommands(newRoot(io.Discard, io.Discard)) {
			path := strings.TrimPrefix(cmd.CommandPath(), "coordinator ")
			if !cmd.Runnable() || slices.Contains([]string{"coordinator", "dev", "bench"}, path) { // they make what they need, and take no secret
				continue
			}
			line := append(strings.Fields(path), args[path]...)
			if args[path] == nil && strings.Contains(cmd.Use, "ID") {
				line = append(line, someID)
			}
			for flag, value := range map[string]string{"reason": "because", "yes": "true", "log-level": "debug"} {
				if cmd.Flag(flag) != nil {
					line = append(line, "--"+flag+"="+value)
				}
			}
			commands.Go(func() error { g.run(line); return nil })
		}
		_ = commands.Wait() // what is wrong is told to the test
	}
	for _, name := range []string{"SAGACITY_SERVER", envToken, envTokenFile, envConfig} {
		g.t.Setenv(name, "")
	}
}

// run runs a command for a short time. What "token create" prints on its output is the one place where a token is to be seen.
func (g *guard) run(line []string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 700*time.Millisecond)
	defer cancel()
	var stdout, stderr safeBuffer
	runWith(ctx, line, strings.NewReader(""), &stdout, &stderr)
	what := "coordinator " + line[0] + " " + line[min(1, len(line)-1)]
	g.look(what+" on standard output", stdout.String())
	g.look(what+" on standard error", stderr.String())
}

// throughRoutes calls every route with credentials in their place, broken, and in wrong places.
func (g *guard) throughRoutes(server string) {
	g.t.Helper()
	secret, made := g.marked.password, g.marked.made
	var doc struct {
		Paths map[string]map[string]struct{} `json:"paths"`
	}
	_, body := g.call(server, "GET", "/openapi.json", nil, "")
	if err := json.Unmarshal(body, &doc); err != nil {
		g.t.Fatal(err)
	}
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + secret))
	for path, methods := range doc.Paths {
		for method := range methods {
			right := strings.NewReplacer("{id}", someID, "{name}", "d", "{version}", "1", "{code}", "internal").Replace(path)
			wrong := strings.NewReplacer("{id}", made, "{name}", secret, "{version}", "1", "{code}", made).Replace(path)
			for _, header := range []string{
				"", "Bearer " + made, "Bearer " + g.marked.configured, "Bearer " + made + "x", "bearer " + made[:30], "Basic " + basic, made, "Bearer " + made + ", Bearer " + made,
			} {
				for _, target := range []string{right, wrong, right + "?access_token=" + made, right + "?status=" + secret, right + "?limit=" + secret + "&cursor=" + made} {
					for _, body := range []string{`{"reason":"because"}`, `{"token":"` + made + `"}`, `{"scope":"` + made + `","definition":"` + secret + `","tenant":"` + secret + `","roles":["` + made + `"],"reason":"x"}`} {
						if method == "get" && body != `{"reason":"because"}` {
							continue
						}
						if method == "get" {
							body = ""
						}
						head, answer := g.call(server, strings.ToUpper(method), target, http.Header{"Authorization": {header}, "If-Match": {`"1"`}}, body)
						g.look(strings.ToUpper(method)+" "+path, head+string(answer))
					}
				}
			}
		}
	}
}

func (g *guard) call(server, method, target string, header http.Header, body string) (head string, answer []byte) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, server+target, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if req.Header.Get("Authorization") == "" {
		req.Header.Del("Authorization")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		g.t.Fatal(err)
	}
	var text strings.Builder
	_ = resp.Header.Write(&text) // into memory
	return text.String(), answer
}

// throughProcesses looks at the arguments of every process of the machine, for everyone on it may.
func (g *guard) throughProcesses() {
	g.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		g.t.Fatal(err)
	}
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil { // it may have ended
			g.look("the arguments in "+name, string(text))
		}
	}
}

// throughStreams reads every message that the coordinator has published.
func (g *guard) throughStreams(natsURL, prefix string) {
	g.t.Helper()
	js, err := jetstream.New(testdb.NATS(g.t))
	if err != nil {
		g.t.Fatal(err)
	}
	streams := js.ListStreams(g.t.Context())
	for info := range streams.Info() {
		if !strings.Contains(strings.ToLower(info.Config.Name), strings.ToLower(prefix)) {
			continue
		}
		stream, err := js.Stream(g.t.Context(), info.Config.Name)
		if err != nil {
			g.t.Fatal(err)
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
			if m, err := stream.GetMsg(g.t.Context(), seq); err == nil { // it may be gone
				var head strings.Builder
				_ = http.Header(m.Header).Write(&head) // into memory
				g.look("a message on "+m.Subject, head.String()+string(m.Data))
			}
		}
	}
	if streams.Err() != nil {
		g.t.Error(streams.Err())
	}
}

// throughTables reads every row of the database, and what its sessions have run.
func (g *guard) throughTables(pool *pgxpool.Pool) {
	g.t.Helper()
	rows, err := pool.Query(g.t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		g.t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			g.t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if len(tables) < 10 {
		g.t.Fatalf("only %d tables", len(tables))
	}
	for _, sql := range append(tables, "pg_stat_activity") {
		var text string
		if err := pool.QueryRow(g.t.Context(), `SELECT coalesce(string_agg(t::text, E'\n'), '') FROM `+sql+` t`).Scan(&text); err != nil {
			g.t.Fatal(err)
		}
		g.look("table "+sql, text)
	}
}
