package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var def = saga.Define("transfer").Saga("a", "p", "x").MustBuild()

const id = "0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f"

// script is a server that answers with the next function each time, the last one for ever, and keeps what came.
type script struct {
	*httptest.Server
	mu   sync.Mutex
	seen []seen
}

type seen struct {
	method, url string
	header      http.Header
	body        string
}

func serve(t *testing.T, answers ...http.HandlerFunc) *script {
	s := &script{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		n := len(s.seen)
		s.seen = append(s.seen, seen{r.Method, r.URL.String(), r.Header.Clone(), string(body)})
		s.mu.Unlock()
		answers[min(n, len(answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *script) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *script) client(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	o.HTTPClient = s.Client()
	c, err := client.New(s.URL+"/", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func problem(status int, code string, headers ...string) http.HandlerFunc {
	return answer(status, fmt.Sprintf(`{"status":%d,"code":%q,"title":"t","detail":"d"}`, status, code), headers...)
}

// cut ends the connection without an answer; half ends it within one.
func cut(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

func half(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"id":`)
	panic(http.ErrAbortHandler)
}

var accepted = answer(202, `{"id":"`+id+`","links":{}}`)

// X1: after lost answers and refusals for lack of capacity, the same key and bytes are sent again.
func TestSubmitRepeatsTheSameRequest(t *testing.T) {
	s := serve(t, cut, half, problem(429, "overloaded", "Retry-After", "0"), problem(503, "outcome_unknown"), answer(502, "<html>"), accepted)
	got, err := s.client(t, client.Options{}).Submit(t.Context(), client.Submission{Definition: def, Input: map[string]int{"n": 1}}, client.SubmitOptions{})
	if err != nil || got.ID.String() != id || got.RequestID == "" || string(got.Answer) != `{"id":"`+id+`","links":{}}` || got.Transaction != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	requests := s.requests()
	if len(requests) < 6 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, r := range requests {
		if r.body != requests[0].body || r.header.Get("Idempotency-Key") != got.RequestID || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("got %+v after %+v", r, requests[0])
		}
	}
	if want := `{"definition":` + string(def.JSON()) + `,"input":{"n":1}}`; requests[0].body != want {
		t.Errorf("sent %s, want %s", requests[0].body, want)
	}
}

// U1: no answer is unknown, never failed, and the request id is there to ask again.
func TestSubmitUnknown(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, s := range map[string]*script{
		"cut": serve(t, cut), "unavailable": serve(t, problem(503, "unavailable")), "internal": serve(t, problem(500, "internal")),
		"silent":  serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		"no JSON": serve(t, answer(202, "<html>")), "refused connection": {Server: closed},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		got, err := s.client(t, client.Options{}).Submit(ctx, client.Submission{Definition: def}, client.SubmitOptions{RequestID: "mine"})
		cancel()
		var unknown *client.UnknownError
		if !errors.As(err, &unknown) || unknown.RequestID != "mine" || got.RequestID != "mine" {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// T4: what cannot change is not tried again.
func TestSubmitRefused(t *testing.T) {
	for status, code := range map[int]string{422: client.CodeKeyReused, 409: client.CodeIDTaken, 400: "cycle", 413: "too_large", 401: "unauthenticated"} {
		s := serve(t, problem(status, code, "Retry-After", "7"))
		_, err := s.client(t, client.Options{}).Submit(t.Context(), client.Submission{Definition: def}, client.SubmitOptions{})
		var p *client.Problem
		if !errors.As(err, &p) || p.Code != code || p.Status != status || p.Detail != "d" || p.RetryAfter != 7*time.Second {
			t.Errorf("got %+v", err)
		}
		var unknown *client.UnknownError
		if errors.As(err, &unknown) || len(s.requests()) != 1 {
			t.Errorf("%s: %v after %d requests", code, err, len(s.requests()))
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	s := serve(t, problem(429, "overloaded", "Retry-After", "1"), accepted)
	began := time.Now()
	if _, err := s.client(t, client.Options{}).Submit(t.Context(), client.Submission{Definition: def}, client.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("tried again after %s", took)
	}
	// longer than the caller has: no use in waiting
	s = serve(t, problem(429, "overloaded", "Retry-After", "50"))
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	began = time.Now()
	_, err := s.client(t, client.Options{}).Submit(ctx, client.Submission{Definition: def}, client.SubmitOptions{})
	var p *client.Problem
	if !errors.As(err, &p) || time.Since(began) > 30*time.Second {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}

func TestRetryTimeBoundsACall(t *testing.T) {
	for _, limit := range []time.Duration{-1, 300 * time.Millisecond} {
		s := serve(t, problem(503, "unavailable"))
		began := time.Now()
		_, err := s.client(t, client.Options{RetryTime: limit}).Get(t.Context(), saga.ID{})
		var p *client.Problem
		if !errors.As(err, &p) || p.Code != "unavailable" || time.Since(began) > time.Minute {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		if n := len(s.requests()); limit < 0 && n != 1 || n < 1 {
			t.Errorf("limit %s: %d requests", limit, n)
		}
	}
}

// S1.6: a json.RawMessage is sent, and a result read, byte for byte.
func TestBytesAreVerbatim(t *testing.T) {
	odd := `{ "n":123456789012345678901234567890 , "f":1.10e+2,"e":"\u0000<é" }`
	s := serve(t, answer(200, `{"id":"`+id+`","status":"committed","result":"succeeded","steps":[{"name":"a","operations":[{"phase":"try","result":`+odd+`}]}]}`))
	got, err := s.client(t, client.Options{Token: "secret"}).Submit(t.Context(), client.Submission{
		Definition: def, Inputs: map[string]any{"b": 1, "a": json.RawMessage(odd)}, InputsBinary: map[string]client.Binary{"c": {Type: "x/y", Data: []byte{0, 255}}},
		Timeout: 90 * time.Second, StartAt: time.Unix(1, 0),
	}, client.SubmitOptions{Wait: 5 * time.Second, Traceparent: "00-x", Tracestate: "bad\n"})
	if err != nil || got.Transaction == nil || got.Transaction.Status != saga.StatusCommitted || got.Transaction.Result != saga.ResultSucceeded {
		t.Fatalf("got %+v, %v", got, err)
	}
	if r := got.Transaction.Steps[0].Operations[0].Result; string(r) != odd {
		t.Errorf("the result is %s", r)
	}
	r := s.requests()[0]
	want := `{"definition":` + string(def.JSON()) + `,"inputs":{"a":` + odd + `,"b":1},"inputs_base64":{"c":{"data":"AP8=","type":"x/y"}},"timeout":"1m30s","start_at":"1970-01-01T00:00:01Z"}`
	if r.body != want {
		t.Errorf("sent %s, want %s", r.body, want)
	}
	if r.header.Get("Prefer") != "wait=5" || r.header.Get("Authorization") != "Bearer secret" || r.header.Get("Traceparent") != "00-x" || r.header.Get("Tracestate") != "" {
		t.Errorf("headers %v", r.header)
	}
}

func TestSubmitMinimal(t *testing.T) {
	s := serve(t, answer(200, `{"id":"`+id+`","status":"committed","result":"succeeded"}`))
	got, err := s.client(t, client.Options{}).Submit(t.Context(), client.Submission{Definition: def}, client.SubmitOptions{Wait: 2 * time.Second, Minimal: true})
	if err != nil || got.ID.String() != id || got.Transaction == nil || got.Transaction.Status != saga.StatusCommitted {
		t.Errorf("got %+v, %v", got, err)
	}
	if prefer := s.requests()[0].header.Get("Prefer"); prefer != "wait=2, return=minimal" {
		t.Errorf("Prefer: %s", prefer)
	}
}

// An answer that cannot be understood leaves open what happened, and keeps what is known.
func TestSubmitAnswerThatCannotBeRead(t *testing.T) {
	body := `{"id":"` + id + `","status":"committed","created_at":12}`
	got, err := serve(t, answer(200, body)).client(t, client.Options{}).Submit(t.Context(), client.Submission{Definition: def}, client.SubmitOptions{RequestID: "order-1"})
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || unknown.RequestID != "order-1" || got.ID.String() != id || string(got.Answer) != body || got.Transaction != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSubmitRefusesWhatItCannotSend(t *testing.T) {
	s := serve(t, accepted)
	c := s.client(t, client.Options{})
	for name, err := range map[string]error{
		"no definition": second(c.Submit(t.Context(), client.Submission{}, client.SubmitOptions{})),
		"a channel":     second(c.Submit(t.Context(), client.Submission{Definition: def, Input: make(chan int)}, client.SubmitOptions{})),
		"half a value":  second(c.Submit(t.Context(), client.Submission{Definition: def, Inputs: map[string]any{"a": json.RawMessage(`{`)}}, client.SubmitOptions{})),
		"bad key":       second(c.Submit(t.Context(), client.Submission{Definition: def}, client.SubmitOptions{RequestID: "a b"})),
	} {
		var unknown *client.UnknownError
		if err == nil || errors.As(err, &unknown) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func second[T any](_ T, err error) error { return err }

func transaction(status string) http.HandlerFunc {
	return answer(200, `{"id":"`+id+`","status":"`+status+`","result":"running"}`)
}

func TestWaitPollsToTheEnd(t *testing.T) {
	s := serve(t, transaction("running"), cut, problem(503, "unavailable"), transaction("confirming"), transaction("committed"))
	tx, err := s.client(t, client.Options{}).Wait(t.Context(), saga.ID{})
	if err != nil || tx.Status != saga.StatusCommitted {
		t.Fatalf("got %+v, %v", tx, err)
	}
	if r := s.requests()[0]; !strings.HasSuffix(r.url, "?wait=30s") {
		t.Errorf("asked %s", r.url)
	}
}

// The end of a wait says nothing about the transaction.
func TestWaitEndsWithContext(t *testing.T) {
	s := serve(t, transaction("running"))
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	tx, err := s.client(t, client.Options{}).Wait(ctx, saga.ID{})
	if !errors.Is(err, context.DeadlineExceeded) || tx.Status != saga.StatusRunning {
		t.Errorf("got %+v, %v", tx, err)
	}
	if n := len(s.requests()); n > 20 {
		t.Errorf("%d requests: it spins", n)
	}
}

// A replay whose answer was lost is not sent again: a second one is another action.
func TestReplayIsSentOnce(t *testing.T) {
	for name, first := range map[string]http.HandlerFunc{"cut": cut, "unknown": problem(503, "outcome_unknown"), "half": half} {
		s := serve(t, first, answer(202, `{}`))
		err := s.client(t, client.Options{}).Replay(t.Context(), [16]byte{1}, 3, "fixed")
		var unknown *client.UnknownError
		if !errors.As(err, &unknown) || len(s.requests()) != 1 {
			t.Errorf("%s: got %v after %d requests", name, err, len(s.requests()))
		}
	}
	s := serve(t, problem(429, "overloaded"), answer(202, `{}`))
	if err := s.client(t, client.Options{}).Replay(t.Context(), [16]byte{1}, 3, "fixed"); err != nil {
		t.Fatal(err)
	}
	r := s.requests()[1]
	if r.header.Get("If-Match") != `"3"` || r.body != `{"reason":"fixed"}` {
		t.Errorf("sent %+v", r)
	}
}

// So are a discard and a resolve.
func TestGivingUpIsSentOnce(t *testing.T) {
	for name, first := range map[string]http.HandlerFunc{"cut": cut, "unknown": problem(503, "outcome_unknown"), "half": half} {
		for path, act := range map[string]func(*client.Client) error{
			"/v1/dead-letters/01000000-0000-0000-0000-000000000000/discard": func(c *client.Client) error {
				_, err := c.Discard(t.Context(), [16]byte{1}, 3, "gone")
				return err
			},
			"/v1/transactions/01000000-0000-0000-0000-000000000000/resolve": func(c *client.Client) error {
				_, err := c.Resolve(t.Context(), [16]byte{1}, 3, "gone")
				return err
			},
		} {
			s := serve(t, first, answer(200, `{}`))
			var unknown *client.UnknownError
			if err := act(s.client(t, client.Options{})); !errors.As(err, &unknown) || len(s.requests()) != 1 {
				t.Errorf("%s: got %v after %d requests", name, err, len(s.requests()))
			}
			s = serve(t, problem(429, "overloaded"), answer(200, `{}`))
			if err := act(s.client(t, client.Options{})); err != nil {
				t.Fatal(err)
			}
			if r := s.requests()[1]; r.url != path || r.header.Get("If-Match") != `"3"` || r.body != `{"reason":"gone"}` {
				t.Errorf("sent %+v", r)
			}
		}
	}
}

func TestListsGoThroughPages(t *testing.T) {
	s := serve(t, answer(200, `{"transactions":[{"id":"`+id+`"},{"id":"`+id+`"}],"next_cursor":"c1"}`), answer(200, `{"transactions":[{"id":"`+id+`"}]}`))
	suspended := true
	n := 0
	for _, err := range s.client(t, client.Options{}).All(t.Context(), client.Filter{Status: "running", Definition: "d", Suspended: &suspended, Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if r := s.requests(); n != 3 || len(r) != 2 || r[0].url != "/v1/transactions?definition=d&limit=2&status=running&suspended=true" ||
		r[1].url != "/v1/transactions?cursor=c1&definition=d&limit=2&status=running&suspended=true" {
		t.Errorf("%d entries from %+v", n, r)
	}
	s = serve(t, problem(403, "forbidden"))
	n = 0
	for _, err := range s.client(t, client.Options{}).AllDeadLetters(t.Context(), client.DeadLetterFilter{}) {
		var p *client.Problem
		if n++; !errors.As(err, &p) || p.Code != "forbidden" || n > 1 {
			t.Fatalf("got %v", err)
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	for _, base := range []string{"", "x", "ftp://x", "http://", "http://u:secret@x", "http://x?q", "http://x#f", "http://%zz", ":"} {
		if _, err := client.New(base, client.Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", base, err)
		}
	}
	if _, err := client.New("http://x", client.Options{Token: "a\nb"}); err == nil {
		t.Error("a token with a line break is taken")
	}
}

// The token must not follow a redirect to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := serve(t, accepted)
	s := serve(t, answer(307, "", "Location", elsewhere.URL))
	c, err := client.New(s.URL, client.Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Submit(t.Context(), client.Submission{Definition: def}, client.SubmitOptions{})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 307 || len(elsewhere.requests()) != 0 {
		t.Errorf("got %v, %d requests elsewhere", err, len(elsewhere.requests()))
	}
}

func TestAnswersAreBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		for range 40 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if _, err := s.client(t, client.Options{RetryTime: -1}).Get(t.Context(), saga.ID{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}
