package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/saga"
)

func logTo(b *logBuffer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// A web page whose host name points to 127.0.0.1 is kept out.
func TestLoopbackRefusesOtherHosts(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{})
	for _, host := range []string{"evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[fe80::1]:80", "localhost.", "0.0.0.0", "[::]:1"} {
		for _, e := range every {
			call(t, s, e.method, e.path, e.body, "Host", host, "If-Match", `"1"`).problem(403, "forbidden")
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:8080", "127.0.0.1", "127.1.2.3:99", "[::1]:8080", "[::1]"} {
		call(t, s, "GET", "/v1/transactions", "", "Host", host).expect(200)
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"} {
		call(t, s, "GET", "/v1/transactions", "", name, "127.0.0.1").problem(401, "unauthenticated")
	}
}

func TestLoopbackRefusesOtherMachines(t *testing.T) {
	t.Parallel()
	h := api.New(api.Config{Coordinator: &fake{}, Admin: &fake{}, Authenticate: api.Loopback(), Log: slog.New(slog.DiscardHandler)})
	for addr, status := range map[string]int{"10.0.0.1:99": 401, "@": 401, "": 401, "[2001:db8::1]:99": 401, "[::ffff:10.0.0.1]:1": 401, "127.0.0.1:99": 200, "[::1]:99": 200} {
		r := httptest.NewRequest("GET", "http://localhost/v1/transactions", nil)
		r.RemoteAddr = addr
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status || status == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("from %q: HTTP %d %v", addr, w.Code, w.Header())
		}
	}
}

func TestNobodyIsLetInByDefault(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{}, func(c *api.Config) { c.Authenticate = nil })
	for _, e := range every {
		call(t, s, e.method, e.path, e.body).problem(401, "unauthenticated")
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/problems/key_reused"} {
		call(t, s, "GET", path, "").expect(200)
	}
}

// I1: who calls comes from the credential.
func TestIdentityComesFromTheCredential(t *testing.T) {
	t.Parallel()
	var got coordinator.SubmitParams
	f := &fake{submit: func(_ context.Context, p coordinator.SubmitParams) (coordinator.Submitted, error) {
		got = p
		return coordinator.Submitted{ID: fakeID, Answer: []byte(`{}`)}, nil
	}}
	s := serveFake(t, f, func(c *api.Config) {
		c.Authenticate = func(r *http.Request) (api.Identity, error) {
			if r.Header.Get("Authorization") != "Bearer t" {
				return api.Identity{}, errors.Join(api.ErrUnauthenticated, errors.New("secret"))
			}
			return api.Identity{Tenant: "acme", Client: "shop", Roles: token.Client}, nil
		}
	})
	call(t, s, "POST", "/v1/transactions", `{"tenant":"evil","client":"evil"}`, "Authorization", "Bearer t", "Idempotency-Key", "k").expect(202)
	if got.Caller != (coordinator.Caller{Tenant: "acme", Client: "shop"}) || got.RequestID != "k" {
		t.Errorf("got %+v", got)
	}
	call(t, s, "POST", "/v1/transactions", `{}`, "Authorization", "Bearer x").problem(401, "unauthenticated")
	call(t, s, "GET", "/v1/dead-letters", "", "Authorization", "Bearer t").problem(403, "forbidden")
}

func TestCrossOriginWritesAreRefused(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{})
	for _, h := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		call(t, s, "POST", "/v1/transactions", `{}`, h...).problem(403, "cross_origin")
		call(t, s, "GET", "/v1/transactions", "", h...).expect(200)
	}
	call(t, s, "POST", "/v1/transactions", `{}`, "Sec-Fetch-Site", "same-origin").expect(202)
	call(t, s, "POST", "/v1/transactions", `{}`, "Origin", s.URL).expect(202)
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{})
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/nothing", "/v2/transactions", "/v1/transactions//cancel", "/v1/x/../transactions", "//v1/transactions", "/v1/transactions/a/b/c"} {
		call(t, s, "GET", path, "").problem(404, "no_such_route")
	}
	for path, allow := range map[string]string{"/v1/transactions": "GET, POST", "/v1/requests": "GET", "/v1/transactions/x/cancel": "POST", "/healthz": "GET"} {
		for _, method := range []string{"DELETE", "PUT", "PATCH", "OPTIONS", "BREW"} {
			if got := call(t, s, method, path, "").problem(405, "method_not_allowed").header.Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got, allow)
			}
		}
	}
	call(t, s, "HEAD", "/v1/transactions", "").expect(200)
}

// O1: one id goes from the request to the answer and the log.
func TestRequestID(t *testing.T) {
	t.Parallel()
	logs := &logBuffer{}
	s := serveFake(t, &fake{}, func(c *api.Config) { c.Log = logTo(logs) })
	if got := call(t, s, "GET", "/v1/transactions", "", "X-Request-Id", "abc-1.2").header.Get("X-Request-Id"); got != "abc-1.2" {
		t.Errorf("got %q", got)
	}
	for _, h := range [][]string{{}, {"X-Request-Id", ""}, {"X-Request-Id", "a b"}, {"X-Request-Id", "\xff"}, {"X-Request-Id", strings.Repeat("a", 129)}, {"X-Request-Id", "a", "X-Request-Id", "b"}} {
		if got := call(t, s, "GET", "/v1/transactions", "", h...).header.Get("X-Request-Id"); len(got) != 36 {
			t.Errorf("%q: got %q", h, got)
		}
	}
	if log := logs.String(); !strings.Contains(log, `"level":"DEBUG","msg":"request","http_request":"abc-1.2","status":200`) ||
		!strings.Contains(log, `"route":"GET /v1/transactions","tenant":"default","client":"anonymous"`) {
		t.Errorf("the log is %s", log)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var ready error
	s := serveFake(t, &fake{err: errors.New("down")}, func(c *api.Config) {
		c.Ready = func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("the readiness check has no deadline")
			}
			return ready
		}
	})
	call(t, s, "GET", "/healthz?probe=1", "", "Host", "pod-7.example").expect(200)
	call(t, s, "GET", "/readyz", "").expect(200)
	ready = errors.New("secret: NATS is away")
	if r := call(t, s, "GET", "/readyz", "").problem(503, "not_ready"); strings.Contains(string(r.body), "secret") {
		t.Errorf("got %s", r.body)
	}
	call(t, s, "GET", "/healthz", "").expect(200)
}

// T2: a long poll may last longer than the server's timeouts; a slow body may not.
func TestLongPollOutlivesTimeouts(t *testing.T) {
	t.Parallel()
	f := &fake{wait: func(ctx context.Context) (coordinator.View, error) {
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("the wait ended by %v", context.Cause(ctx))
		}
		return coordinator.View{ID: fakeID, Status: saga.StatusRunning}, nil
	}}
	h := api.New(api.Config{Coordinator: f, Authenticate: api.Loopback(), Log: slog.New(slog.DiscardHandler)})
	s := httptest.NewUnstartedServer(h)
	s.Config = api.Server("", h, slog.New(slog.DiscardHandler))
	s.Config.ReadTimeout, s.Config.WriteTimeout, s.Config.ReadHeaderTimeout = 100*time.Millisecond, 300*time.Millisecond, 100*time.Millisecond
	s.Start()
	t.Cleanup(s.Close)
	for range 2 { // on one connection
		call(t, s, "GET", "/v1/transactions/"+fakeID.String()+"?wait=600ms", "").expect(200)
		call(t, s, "POST", "/v1/transactions", "{}", "Prefer", "wait=1").expect(202)
	}
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 408 {
		t.Errorf("a slow body: HTTP %d", resp.StatusCode)
	}
}

// Shutting down ends long polls at once, with the transaction as it is.
func TestShutdownEndsWaits(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{})
	f := &fake{wait: func(ctx context.Context) (coordinator.View, error) {
		close(waiting)
		<-ctx.Done()
		return coordinator.View{ID: fakeID, Status: saga.StatusRunning}, nil
	}}
	s := serveFake(t, f)
	got := make(chan reply, 1)
	go func() {
		r, err := try(context.Background(), s, "GET", "/v1/transactions/"+fakeID.String()+"?wait=60s", "")
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	<-waiting
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Config.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-got
	r.t = t
	r.expect(200)
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{})
	if r := call(t, s, "GET", "/v1/transactions", "", "X-Big", strings.Repeat("x", 64<<10)); r.status != 431 {
		t.Errorf("HTTP %d", r.status)
	}
}

// A body that ends early is the caller's fault, or nobody's.
func TestBodyThatEndsEarly(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{submit: func(context.Context, coordinator.SubmitParams) (coordinator.Submitted, error) {
		t.Error("half a body was submitted")
		return coordinator.Submitted{}, nil
	}})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{}")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("HTTP %d", resp.StatusCode)
	}
}
