package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/bus"
	dbschema "github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var schema = testdb.Template{Name: "api", Migrate: func(ctx context.Context, dsn string) error {
	_, err := dbschema.Up(ctx, dsn)
	return err
}}

// world is a coordinator with its API on real PostgreSQL and NATS.
type world struct {
	t      *testing.T
	pool   *pgxpool.Pool
	bus    *bus.Bus
	prefix string
	engine *coordinator.Coordinator
	server *httptest.Server
	logs   *logBuffer
}

func newWorld(t *testing.T, options ...func(*api.Config)) *world {
	t.Helper()
	w := &world{t: t, pool: testdb.New(t, schema), prefix: testdb.Prefix(t), logs: &logBuffer{}}
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.bus, err = bus.New(testdb.NATS(t), bus.Config{Prefix: w.prefix, Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.bus.Close)
	relay, err := outbox.NewRelay(outbox.Config{Pool: w.pool, Publisher: w.bus, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	w.engine, err = coordinator.New(coordinator.Config{Pool: w.pool, Bus: w.bus, Relay: relay, Log: quiet, Lanes: 4})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		if err := relay.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("relay: %v", err)
		}
	})
	running.Go(func() {
		if err := w.engine.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("coordinator: %v", err)
		}
	})
	cfg := api.Config{
		Coordinator: w.engine, Authenticate: api.Loopback(), Tokens: token.New(w.pool), Log: slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, o := range options {
		o(&cfg)
	}
	w.server = serve(t, api.New(cfg))
	return w
}

// serve starts a server with the product's limits.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config = api.Server("", h, slog.New(slog.DiscardHandler))
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// reply is an answer, read.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// call sends a request. Headers are name, value pairs; "Host" sets the host.
func call(t *testing.T, s *httptest.Server, method, path, body string, headers ...string) reply {
	t.Helper()
	r, err := try(t.Context(), s, method, path, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	r.t = t
	return r
}

func try(ctx context.Context, s *httptest.Server, method, path, body string, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header[http.CanonicalHeaderKey(headers[i])] = append(req.Header[http.CanonicalHeaderKey(headers[i])], headers[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: b}, err
}

func (w *world) call(method, path, body string, headers ...string) reply {
	w.t.Helper()
	return call(w.t, w.server, method, path, body, headers...)
}

func (w *world) get(path string) reply {
	w.t.Helper()
	return w.call("GET", path, "")
}

// submit starts a transaction and returns its path.
func (w *world) submit(body string, headers ...string) (path string) {
	w.t.Helper()
	r := w.call("POST", "/v1/transactions", body, headers...)
	r.expect(http.StatusAccepted)
	return r.header.Get("Location")
}

func (r reply) expect(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("HTTP %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// problem checks that the answer is a problem of that status and code.
func (r reply) problem(status int, code string) reply {
	r.t.Helper()
	var p api.Problem
	if err := json.Unmarshal(r.body, &p); err != nil || r.header.Get("Content-Type") != "application/problem+json" {
		r.t.Fatalf("no problem: HTTP %d %s %q", r.status, r.header.Get("Content-Type"), r.body)
	}
	if r.status != status || p.Status != status || p.Code != code || p.Type != "/problems/"+code || p.Title == "" || p.Detail == "" {
		r.t.Errorf("got HTTP %d %s, want %d %s", r.status, r.body, status, code)
	}
	if p.HTTPRequest == "" || p.HTTPRequest != r.header.Get("X-Request-Id") {
		r.t.Errorf("http_request is %q, X-Request-Id %q", p.HTTPRequest, r.header.Get("X-Request-Id"))
	}
	return r
}

func decode[T any](r reply) (v T) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("%v in %s", err, r.body)
	}
	return v
}

func (r reply) transaction() api.Transaction { r.t.Helper(); return decode[api.Transaction](r) }

// submission is the body of a transaction whose participant does not exist, so that it stays running.
func submission(name string, extra ...string) string {
	return fmt.Sprintf(`{"definition":{"name":%q,"steps":[{"name":"a","participant":"nobody","action":"work"}]}%s}`,
		name, strings.Join(append([]string{""}, extra...), ","))
}

// participant answers every command with what handle says.
func (w *world) participant(name string, handle func(saga.Command) saga.Reply) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w.t.Cleanup(func() { cancel(); running.Wait() })
	if err := w.bus.EnsureStreams(ctx); err != nil {
		w.t.Fatal(err)
	}
	running.Go(func() {
		err := w.bus.Consume(ctx, bus.Consumer{
			Stream: bus.Commands, Durable: name, FilterSubjects: []string{wire.CommandSubject(w.prefix, name)},
		}, func(d *bus.Delivery) { w.answer(ctx, name, handle, d) })
		if err != nil && ctx.Err() == nil {
			w.t.Errorf("participant: %v", err)
		}
	})
}

func (w *world) answer(ctx context.Context, name string, handle func(saga.Command) saga.Reply, d *bus.Delivery) {
	c, err := wire.DecodeCommand(d.Message)
	if err != nil {
		w.t.Errorf("participant: %v", err)
		return
	}
	r := handle(c)
	r.Verb, r.Tenant, r.Transaction, r.Step, r.Phase, r.Participant = c.Verb, c.Tenant, c.Transaction, c.Step, c.Phase, name
	r.Attempt, r.Revision, r.ContentSHA256, r.Question = c.Attempt, c.Revision, c.ContentSHA256, c.Question
	m, err := wire.EncodeReply(r, c.ReplyTo)
	if err != nil {
		w.t.Errorf("participant: %v", err)
		return
	}
	w.bus.Publish(ctx, []bus.Message{m}, func(_ int, err error) {
		if err != nil {
			d.Leave()
			return
		}
		_ = d.Ack()
	})
}

// until polls a condition that no signal announces.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			w.t.Fatalf("never happened: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
