package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
)

// every is one request to each route that calls the coordinator.
var every = []struct{ method, path, body string }{
	{"POST", "/v1/transactions", `{}`},
	{"GET", "/v1/transactions", ""},
	{"GET", "/v1/transactions/" + fakeID.String(), ""},
	{"GET", "/v1/transactions/" + fakeID.String() + "?wait=1s", ""},
	{"GET", "/v1/transactions/" + fakeID.String() + "/attempts", ""},
	{"GET", "/v1/requests?id=x", ""},
	{"POST", "/v1/transactions/" + fakeID.String() + "/cancel", ""},
	{"POST", "/v1/definitions", `{"name":"d","steps":[{"name":"a","participant":"p","action":"x"}]}`},
	{"GET", "/v1/definitions", ""},
	{"GET", "/v1/definitions/d/1", ""},
	{"POST", "/v1/definitions/d/1/drain", `{"reason":"x"}`},
	{"GET", "/v1/dead-letters", ""},
	{"GET", "/v1/dead-letters/" + uuid.Max.String(), ""},
	{"POST", "/v1/dead-letters/" + uuid.Max.String() + "/replay", `{"reason":"x"}`},
	{"POST", "/v1/dead-letters/" + uuid.Max.String() + "/discard", `{"reason":"x"}`},
	{"POST", "/v1/transactions/" + fakeID.String() + "/resolve", `{"reason":"x"}`},
}

// T4, R3: every error of the layers below has its status, its code and, where waiting helps, Retry-After.
func TestErrorsAreTranslated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{coordinator.ErrNotFound, 404, "not_found", ""},
		{dlq.ErrNotFound, 404, "not_found", ""},
		{coordinator.ErrKeyReused, 422, "key_reused", ""},
		{coordinator.ErrIDTaken, 409, "id_taken", ""},
		{coordinator.ErrOverloaded, 429, "overloaded", "1"},
		{&coordinator.RateError{RetryAfter: time.Microsecond}, 429, "rate_limited", "1"},
		{&coordinator.RateError{Tenant: true, RetryAfter: 2001 * time.Millisecond}, 429, "rate_limited", "3"},
		{coordinator.ErrOutcomeUnknown, 503, "outcome_unknown", "1"},
		{fmt.Errorf("%w: %w", coordinator.ErrOutcomeUnknown, context.DeadlineExceeded), 503, "outcome_unknown", "1"},
		{coordinator.ErrStale, 412, "stale", ""},
		{coordinator.ErrDefinitionTaken, 409, "definition_taken", ""},
		{&saga.InvalidError{Code: coordinator.CodeUnknownDefinition, Field: "submission.definition"}, 400, "unknown_definition", ""},
		{&saga.InvalidError{Code: coordinator.CodeDefinitionDraining, Field: "submission.definition"}, 409, "definition_draining", ""},
		{&saga.InvalidError{Code: "cycle", Field: "steps"}, 400, "cycle", ""},
		{&saga.InvalidError{Code: saga.CodeTooLarge, Field: "submission.input"}, 413, "too_large", ""},
		{&saga.StateError{Code: saga.CodeNotCancellable, Status: saga.StatusCommitted}, 409, "not_cancellable", ""},
		{&saga.StateError{Code: saga.CodeUnknownStep}, 409, "illegal_event", ""},
		{&saga.StateError{Code: "what_comes_later"}, 409, "illegal_event", ""},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, 503, "unavailable", "2"},
		{&pgconn.ConnectError{}, 503, "unavailable", "2"},
		{&pgconn.PgError{Code: "57P01"}, 503, "unavailable", "2"},
		{&pgconn.PgError{Code: "53300"}, 503, "unavailable", "2"},
		{&pgconn.PgError{Code: "42P01"}, 500, "internal", ""},
		{io.ErrUnexpectedEOF, 503, "unavailable", "2"},
		{context.DeadlineExceeded, 503, "unavailable", "2"},
		{errors.New("secret detail of the inside"), 500, "internal", ""},
	} {
		s := serveFake(t, &fake{err: fmt.Errorf("wrapped: %w", c.err)})
		for _, e := range every {
			r := call(t, s, e.method, e.path, e.body, "If-Match", `"1"`)
			r.problem(c.status, c.code)
			if got := r.header.Get("Retry-After"); got != c.retry {
				t.Errorf("%v: Retry-After %q", c.err, got)
			}
			if strings.Contains(string(r.body), "secret") || strings.Contains(string(r.body), "wrapped") {
				t.Errorf("the answer tells too much: %s", r.body)
			}
		}
	}
}

// A submission that does not get its answer in time is answered with unknown, never with failed (U1).
func TestSubmitTimeoutIsUnknown(t *testing.T) {
	t.Parallel()
	f := &fake{submit: func(ctx context.Context, _ coordinator.SubmitParams) (coordinator.Submitted, error) {
		<-ctx.Done()
		return coordinator.Submitted{}, fmt.Errorf("%w: %w", coordinator.ErrOutcomeUnknown, ctx.Err())
	}}
	s := serveFake(t, f, func(c *api.Config) { c.SubmitTimeout = 20 * time.Millisecond })
	call(t, s, "POST", "/v1/transactions", `{}`).problem(503, "outcome_unknown")
}

// An accepted submission is never turned into an error by what follows.
func TestSubmitWaitFails(t *testing.T) {
	t.Parallel()
	stored := coordinator.Submitted{ID: fakeID, Answer: []byte(`{"id":"` + fakeID.String() + `"}`)}
	f := &fake{
		submit: func(context.Context, coordinator.SubmitParams) (coordinator.Submitted, error) { return stored, nil },
		wait:   func(context.Context) (coordinator.View, error) { return coordinator.View{}, errors.New("down") },
		err:    errors.New("down"),
	}
	r := call(t, serveFake(t, f), "POST", "/v1/transactions", `{}`, "Prefer", "wait=5").expect(202)
	if string(r.body) != `{"id":"`+fakeID.String()+`"}` || r.header.Get("Preference-Applied") != "" {
		t.Errorf("got %v %s", r.header, r.body)
	}
}

// R3: callers that wait and bodies that are held are bounded.
func TestCapacity(t *testing.T) {
	t.Parallel()
	waiting, end := make(chan struct{}), make(chan struct{})
	f := &fake{
		wait: func(context.Context) (coordinator.View, error) {
			waiting <- struct{}{}
			<-end
			return coordinator.View{ID: fakeID, Status: saga.StatusRunning}, nil
		},
		submit: func(context.Context, coordinator.SubmitParams) (coordinator.Submitted, error) {
			waiting <- struct{}{}
			<-end
			return coordinator.Submitted{ID: fakeID, Answer: []byte(`{}`)}, nil
		},
	}
	s := serveFake(t, f, func(c *api.Config) { c.WaitersMax, c.BodyBytesMax = 1, 10 })
	path := "/v1/transactions/" + fakeID.String() + "?wait=60s"
	var first sync.WaitGroup
	first.Go(func() {
		if r, err := try(t.Context(), s, "GET", path, ""); err != nil || r.status != 200 {
			t.Errorf("the first to wait: HTTP %d, %v", r.status, err)
		}
	})
	first.Go(func() {
		if r, err := try(t.Context(), s, "POST", "/v1/transactions", "0123456789"); err != nil || r.status != 202 {
			t.Errorf("the first body: HTTP %d, %v", r.status, err)
		}
	})
	<-waiting
	<-waiting
	call(t, s, "GET", path, "").problem(429, "overloaded")
	call(t, s, "POST", "/v1/transactions", "x").problem(429, "overloaded")
	close(end)
	first.Wait()
	go func() { <-waiting }()
	call(t, s, "POST", "/v1/transactions", "0123456789").expect(202)
}

// Every code that the core can refuse a submission with is known here and documented.
func TestCodesOfTheCoreAreKnown(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../saga/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	pattern := regexp.MustCompile(`(?:invalid\(|InvalidError\{Code: )"([a-z_]+)"`)
	s := serveFake(t, &fake{})
	seen := map[string]bool{"too_large": true}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pattern.FindAllSubmatch(source, -1) {
			seen[string(m[1])] = true
		}
	}
	if len(seen) < 20 {
		t.Fatalf("found only %v", seen)
	}
	for code := range seen {
		call(t, s, "GET", "/problems/"+code, "").expect(200)
	}
	call(t, s, "GET", "/problems/none", "").problem(404, "not_found")
}

// No error repeats a value that the caller sent, nor a name of the caller's own. Of members that are not known it says the name.
func TestErrorsDoNotEcho(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const mark = "zqxjkw"
	step := func(members string) string {
		return `{"definition":{"name":"d","steps":[{"name":"a","participant":"p","action":"x"` + members + `}]}}`
	}
	bodies := []string{
		mark, `{"imput":"` + mark + `"}`, `{"definition":"` + mark + `"}`, `{"definition":{"name":"` + mark + `.","steps":[]}}`,
		step(`,"kind":"` + mark + `"`), step(`,"after":["` + mark + `"]`), step(`,"attempt_timeout":"` + mark + `"`), step(`,"actoin":"` + mark + `"`),
		step(`,"retry":{"strategy":"` + mark + `"}`), step(`,"name":"` + mark + `"`), step(`,"after":["a"]`),
		`{"definition":{"name":"d","steps":[{"name":"` + mark + `","after":["` + mark + `"],"participant":"p","action":"x"}]}}`,
		submission("d", `"inputs":{"`+mark+`":1}`), submission("d", `"inputs":{"`+mark+`":1,"`+mark+`":2}`), submission("d", `"id":"`+mark+`"`),
		submission("d", `"deadline":"`+mark+`"`), submission("d", `"timeout":"`+mark+`"`), submission("d", `"imput":"`+mark+`","imput":2`),
		submission("d", `"inputs_base64":{"a":{"type":"`+mark+` ","data":""}}`), submission("d", `"inputs_base64":{"a":{"type":"x/y","data":"`+mark+`-"}}`),
		submission("d", `"inputs_base64":{"a":{"typ":"`+mark+`"}}`), submission("d", `"inputs_base64":{"a":"`+mark+`"}`), submission("d", `"input":`+mark),
	}
	var replies []reply
	for _, b := range bodies {
		replies = append(replies, w.call("POST", "/v1/transactions", b))
	}
	for _, path := range []string{
		"/" + mark, "/v1/transactions/" + mark, "/v1/transactions?" + mark + "=1", "/v1/transactions?status=" + mark,
		"/v1/transactions?limit=" + mark, "/v1/transactions?cursor=" + mark, "/v1/dead-letters/" + mark, "/v1/dead-letters?cause=%00" + mark,
		"/v1/requests?id=%20" + mark, "/v1//" + mark, "/problems/" + mark, "/v1/transactions/" + fakeID.String() + "?wait=" + mark,
	} {
		replies = append(replies, w.get(path))
	}
	for _, h := range [][]string{
		{"Idempotency-Key", mark + " " + mark},
		{"Content-Type", mark},
		{"Host", mark + ".example"},
		{"Content-Encoding", mark},
		{"Origin", "https://" + mark + ".example"},
		{"X-Request-Id", mark + `"`},
	} {
		replies = append(replies, w.call("POST", "/v1/transactions", "{}", h...))
	}
	replies = append(replies, w.call("POST", "/v1/dead-letters/"+uuid.NewString()+"/replay", `{"reason":"x"}`, "If-Match", mark))
	for i, r := range replies {
		if r.status < 400 || r.status >= 500 {
			t.Errorf("request %d: HTTP %d %s", i, r.status, r.body)
		}
		if strings.Contains(string(r.body), mark) || strings.Contains(fmt.Sprint(r.header), mark) {
			t.Errorf("request %d is echoed: %v %s", i, r.header, r.body)
		}
		r.problem(r.status, decode[api.Problem](r).Code)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	f := &fake{submit: func(context.Context, coordinator.SubmitParams) (coordinator.Submitted, error) { panic("secret") }}
	logs := &logBuffer{}
	s := serveFake(t, f, func(c *api.Config) { c.Log = logTo(logs) })
	r := call(t, s, "POST", "/v1/transactions", `{}`, "X-Request-Id", "find-me").problem(500, "internal")
	if strings.Contains(string(r.body), "secret") || strings.Contains(string(r.body), "goroutine") {
		t.Errorf("the answer is %s", r.body)
	}
	if log := logs.String(); !strings.Contains(log, "goroutine") || !strings.Contains(log, `"http_request":"find-me"`) {
		t.Errorf("the log is %s", log)
	}
	call(t, s, http.MethodGet, "/healthz", "").expect(200)
}

// Without its database the coordinator says so, and the caller may try again.
func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "host="+t.TempDir()+" port=1 pool_max_conns=8")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	quiet := slog.New(slog.DiscardHandler)
	b, err := bus.New(testdb.NATS(t), bus.Config{Prefix: testdb.Prefix(t), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, Publisher: b, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := coordinator.New(coordinator.Config{Pool: pool, Bus: b, Relay: relay, Log: quiet, Lanes: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.New(api.Config{Coordinator: engine, Authenticate: api.Loopback(), Log: quiet}))
	for _, e := range every {
		body := e.body
		if e.path == "/v1/transactions" && body != "" {
			body = submission("d")
		}
		call(t, s, e.method, e.path, body, "If-Match", `"1"`).problem(503, "unavailable")
	}
	call(t, s, "GET", "/healthz", "").expect(200)
}
