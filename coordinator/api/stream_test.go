package api_test

import (
	"bufio"
	"context"
	"encoding/json"
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

// events is an open stream.
type events struct {
	t     *testing.T
	lines *bufio.Scanner
}

type event struct {
	id, kind string
	tx       api.Transaction
}

func watch(t *testing.T, s *httptest.Server, path, after string) *events {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("HTTP %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return &events{t, bufio.NewScanner(resp.Body)}
}

// line waits for the next line that is not empty; "" at the end of the stream.
func (e *events) line() string {
	e.t.Helper()
	for e.lines.Scan() {
		if e.lines.Text() != "" {
			return e.lines.Text()
		}
	}
	return ""
}

// next waits for the next event; the zero event at the end of the stream.
func (e *events) next() (got event) {
	e.t.Helper()
	var data []string
	for e.lines.Scan() {
		name, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch {
		case name == "id":
			got.id = value
		case name == "event":
			got.kind = value
		case name == "data":
			data = append(data, value)
		case name == "" && data != nil:
			if err := json.Unmarshal([]byte(strings.Join(data, "\n")), &got.tx); err != nil {
				e.t.Fatal(err)
			}
			return got
		}
	}
	return event{}
}

// A stream begins with the transaction as it is, has each change, and ends with the end. It begins again where it was.
func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.submit(submission("order"))
	stream := watch(t, w.server, path, "")
	first := stream.next()
	if first.id != "1" || first.kind != "changed" || first.tx.Status != "running" || first.tx.Version != 1 {
		t.Fatalf("the first event is %+v", first)
	}
	other := watch(t, w.server, path, "1") // has seen the first
	w.call("POST", path+"/cancel", "").expect(200)
	for _, s := range []*events{stream, other} {
		if e := s.next(); e.id != "2" || e.kind != "changed" || e.tx.Status != "cancelling" {
			t.Errorf("the second event is %+v", e)
		}
	}
	w.participant("nobody", func(saga.Command) saga.Reply { return saga.Reply{Outcome: saga.OutcomeDone} })
	last := stream.next()
	for last.kind == "changed" {
		last = stream.next()
	}
	if last.kind != "ended" || last.tx.Status != "cancelled" || stream.next().kind != "" {
		t.Errorf("the last event is %+v, and then the stream does not end", last)
	}
	if e := watch(t, w.server, path, "1").next(); e.kind != "ended" || e.id != last.id {
		t.Errorf("who comes back gets %+v", e)
	}
	w.call("GET", path+"/events", "", "Last-Event-ID", last.id).expect(http.StatusNoContent)
	w.call("GET", path+"/events", "", "Last-Event-ID", "x").problem(400, "invalid_value")
	w.get("/v1/transactions/"+fakeID.String()+"/events").problem(404, "not_found")
}

// Transactions of others are not there.
func TestStreamOfAnotherClient(t *testing.T) {
	t.Parallel()
	var as coordinator.Caller
	w := newWorld(t, func(c *api.Config) {
		c.Authenticate = func(*http.Request) (api.Identity, error) {
			return api.Identity{Tenant: as.Tenant, Client: as.Client, Roles: token.Client}, nil
		}
	})
	as = coordinator.Caller{Tenant: "acme", Client: "a"}
	path := w.submit(submission("order"))
	as = coordinator.Caller{Tenant: "acme", Client: "b"}
	w.get(path+"/events").problem(404, "not_found")
}

// What a write of another coordinator changes is seen too.
func TestStreamSeesOtherCoordinators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.submit(submission("order"))
	stream := watch(t, w.server, path, "1")
	if _, err := w.pool.Exec(t.Context(), `UPDATE transactions SET version = 7 WHERE id = $1`, strings.TrimPrefix(path, "/v1/transactions/")); err != nil {
		t.Fatal(err)
	}
	if e := stream.next(); e.id != "7" {
		t.Errorf("the event is %+v", e)
	}
}

// Streams are few, show that they are alive, and end when the server stops.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	var h *api.Handler
	w := newWorld(t, func(c *api.Config) { c.StreamsMax, c.Heartbeat = 1, time.Millisecond })
	h = w.server.Config.Handler.(*api.Handler)
	path := w.submit(submission("order"))
	stream := watch(t, w.server, path, "1")
	if l := stream.line(); l != "retry: 1000" {
		t.Errorf("it begins with %q", l)
	}
	if l := stream.line(); l != ":" {
		t.Errorf("the heartbeat is %q", l)
	}
	w.get(path+"/events").problem(429, "overloaded")
	h.StopWaiting()
	for stream.line() != "" {
	}
	w.until("its place is free", func() bool { return w.get(path+"/events").status == 503 }) // it is stopping
}

// Who does not read is dropped: nobody waits for it.
func TestStreamDropsSlowReaders(t *testing.T) {
	t.Parallel()
	large := saga.Payload{Data: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)}
	f := &flood{view: coordinator.View{ID: fakeID, Status: saga.StatusRunning, Steps: []coordinator.StepView{
		{Name: "a", Operations: []saga.Operation{{Phase: saga.PhaseTry, State: saga.OperationDone, Result: large}}},
	}}, closed: make(chan struct{})}
	s := serve(t, api.New(api.Config{Coordinator: f, Authenticate: api.Loopback(), StreamWriteTimeout: 50 * time.Millisecond}))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("GET /v1/transactions/" + fakeID.String() + "/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.closed:
	case <-time.After(30 * time.Second):
		t.Error("it is still served")
	}
}

// flood is a coordinator whose transaction changes all the time.
type flood struct {
	fake
	view   coordinator.View
	closed chan struct{}
}

func (f *flood) Watch(coordinator.Caller, saga.ID) coordinator.Watcher { return f }

func (f *flood) Next(ctx context.Context) (coordinator.View, error) {
	f.view.Version++
	return f.view, ctx.Err()
}

func (f *flood) Close() { close(f.closed) }
