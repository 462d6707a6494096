package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/saga"
)

// I1, I2: the answer of a key is repeated byte for byte, and other content is refused.
func TestSubmitRepeatsTheStoredAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := submission("transfer")
	first := w.call("POST", "/v1/transactions", body, "Idempotency-Key", "order-1").expect(202)
	again := w.call("POST", "/v1/transactions", body, "Idempotency-Key", "order-1").expect(202)
	if !bytes.Equal(first.body, again.body) || first.header.Get("Location") != again.header.Get("Location") {
		t.Errorf("got %s %q, then %s %q", first.body, first.header.Get("Location"), again.body, again.header.Get("Location"))
	}
	if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replayed: %v, then %v", first.header, again.header)
	}
	accepted := decode[api.Accepted](first)
	if want := "/v1/transactions/" + accepted.ID; first.header.Get("Location") != want || accepted.Links["self"] != want {
		t.Errorf("location %q, body %s", first.header.Get("Location"), first.body)
	}
	w.call("POST", "/v1/transactions", body+" ", "Idempotency-Key", "order-1").problem(422, "key_reused")
	found := w.get("/v1/requests?id=order-1").expect(200)
	tx := found.transaction()
	if want := fmt.Sprintf("%q", fmt.Sprint(tx.Version)); found.header.Get("ETag") != want {
		t.Errorf("the ETag is %s, want %s", found.header.Get("ETag"), want)
	}
	if tx.ID != accepted.ID || tx.RequestID != "order-1" || tx.Result != "running" || tx.Tenant != "default" || tx.Client != "anonymous" {
		t.Errorf("found %+v", tx)
	}
	if n := w.count(`SELECT count(*) FROM transactions`); n != 1 {
		t.Errorf("%d transactions", n)
	}
}

// X2: without a key every submission is a transaction.
func TestSubmitWithoutKeyIsUnprotected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a, b := w.submit(submission("transfer")), w.submit(submission("transfer")); a == b {
		t.Errorf("both are %s", a)
	}
}

// I3: of many at one time one executes, and all get its answer.
func TestSubmitConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, n := range []int{12, 200} {
		key := fmt.Sprintf("burst-%d", n)
		answers := make([]reply, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				var err error
				answers[i], err = try(t.Context(), w.server, "POST", "/v1/transactions", submission(key), "Idempotency-Key", key)
				if err != nil {
					t.Errorf("submission %d: %v", i, err)
				}
			})
		}
		all.Wait()
		fresh := 0
		for _, a := range answers {
			if a.status != 202 || !bytes.Equal(a.body, answers[0].body) {
				t.Fatalf("got HTTP %d %s beside %s", a.status, a.body, answers[0].body)
			}
			if a.header.Get("Idempotent-Replayed") == "" {
				fresh++
			}
		}
		if rows := w.count(`SELECT count(*) FROM transactions WHERE definition_name = $1`, key); rows != 1 || fresh != 1 {
			t.Errorf("%d submissions at one time: %d transactions, %d answers that are not replayed", n, rows, fresh)
		}
	}
}

// T1 and I7: what is at a limit is taken, what is one past it is refused with 413.
func TestSubmitLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pad := func(size int) string {
		b := submission("big")
		return b + strings.Repeat(" ", size-len(b))
	}
	input := func(size int) string { return submission("big", `"input":"`+strings.Repeat("x", size-2)+`"`) }
	w.call("POST", "/v1/transactions", pad(saga.SubmissionBytesMax)).expect(202)
	w.call("POST", "/v1/transactions", pad(saga.SubmissionBytesMax+1)).problem(413, "too_large")
	w.call("POST", "/v1/transactions", input(saga.InputBytesMax)).expect(202)
	w.call("POST", "/v1/transactions", input(saga.InputBytesMax+1)).problem(413, "too_large")
	key := strings.Repeat("k", saga.RequestIDBytesMax)
	w.call("POST", "/v1/transactions", submission("key"), "Idempotency-Key", key).expect(202)
	w.call("POST", "/v1/transactions", submission("key"), "Idempotency-Key", key+"k").problem(400, "invalid_request_id")

	// without Content-Length
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.server.URL+"/v1/transactions",
		struct{ *strings.Reader }{strings.NewReader(pad(saga.SubmissionBytesMax + 1))})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	resp, err := w.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("a chunked body past the limit: HTTP %d", resp.StatusCode)
	}
}

func TestSubmitRefusesBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	step := func(members string) string {
		return `{"definition":{"name":"d","steps":[{"name":"a","participant":"p","action":"x"` + members + `}]}}`
	}
	taken := "01890000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		name, body, code, field string
		headers                 []string
	}{
		{"no body", ``, "invalid_json", "submission", nil},
		{"no JSON", `{`, "invalid_json", "submission", nil},
		{"an array", `[]`, "invalid_json", "submission", nil},
		{"two values", submission("d") + `{}`, "invalid_json", "submission", nil},
		{"a raw NUL", submission("d", "\"input\":\"\x00\""), "invalid_json", "submission", nil},
		{"no UTF-8", submission("d", "\"input\":\"\xff\""), "invalid_utf8", "submission", nil},
		{"unknown member", submission("d", `"colour":"red"`), "invalid_json", "submission", nil},
		{"a member twice", submission("d", `"input":1,"input":2`), "duplicate_member", "submission.input", nil},
		{"no definition", `{"input":1}`, "missing_definition", "submission.definition", nil},
		{"old id", submission("d", `"id":"`+taken+`"`), "invalid_id", "submission.id", nil},
		{"bad name", step(`,"retry":{"base":"fast"}`), "invalid_duration", "", nil},
		{"bad kind", step(`,"kind":"maybe"`), "invalid_value", "steps[0].kind", nil},
		{"unknown after", step(`,"after":["z"]`), "unknown_step", "steps[0].after", nil},
		{"input of no step", submission("d", `"inputs":{"secret":1}`), "unknown_step", "submission.inputs", nil},
		{"member of inputs twice", submission("d", `"inputs":{"a":1,"a":2}`), "duplicate_member", "submission.inputs.*", nil},
		{"both limits", submission("d", `"timeout":"1s","deadline":"2999-01-01T00:00:00Z"`), "invalid_deadline", "submission.deadline", nil},
		{"past deadline", submission("d", `"deadline":"2001-01-01T00:00:00Z"`), "invalid_deadline", "submission.deadline", nil},
		{"float version", `{"definition":{"name":"d","version":1.5,"steps":[]}}`, "invalid_json", "", nil},
		{"empty key", submission("d"), "invalid_request_id", "Idempotency-Key", []string{"Idempotency-Key", ""}},
		{"key with a blank", submission("d"), "invalid_request_id", "Idempotency-Key", []string{"Idempotency-Key", "a b"}},
		{"key that is no ASCII", submission("d"), "invalid_request_id", "Idempotency-Key", []string{"Idempotency-Key", "\xff\xfe"}},
		{"two keys", submission("d"), "duplicate_header", "Idempotency-Key", []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}},
		{"two types", submission("d"), "duplicate_header", "Content-Type", []string{"Content-Type", "application/json", "Content-Type", "text/plain"}},
		{"a query", submission("d"), "invalid_query", "query", nil},
	} {
		path := "/v1/transactions"
		if c.name == "a query" {
			path += "?dry=1"
		}
		r := w.call("POST", path, c.body, c.headers...)
		if r.status != 400 {
			t.Errorf("%s: HTTP %d %s", c.name, r.status, r.body)
			continue
		}
		r.problem(400, c.code)
		if got := decode[api.Problem](r).Field; c.field != "" && got != c.field {
			t.Errorf("%s: field %q, want %q", c.name, got, c.field)
		}
	}
	for body, want := range map[string]string{
		submission("d", `"colour":"red"`): `submission has a member "colour", which is not known; send the documented members only`,
		"{\n\"input\": 1,\n}":             "submission is not JSON at line 3, column 1, looking for beginning of object key string; send valid JSON",
	} {
		if got := decode[api.Problem](w.call("POST", "/v1/transactions", body).problem(400, "invalid_json")).Detail; got != want {
			t.Errorf("%s: detail %q, want %q", body, got, want)
		}
	}
	for _, headers := range [][]string{
		{"Content-Type", "text/plain"}, {"Content-Type", "application/json; charset=latin1"}, {"Content-Type", ";"}, {"Content-Encoding", "gzip"},
	} {
		w.call("POST", "/v1/transactions", submission("d"), headers...).problem(415, "unsupported_media_type")
	}
	w.call("POST", "/v1/transactions", submission("d"), "Content-Type", "application/json; charset=UTF-8", "Content-Encoding", "identity").expect(202)
	if n := w.count(`SELECT count(*) FROM transactions`); n != 1 {
		t.Errorf("%d transactions", n)
	}
}

// S1.2: an id that is taken answers 409, and its own repetition the first answer.
func TestSubmitWithOwnID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.Must(uuid.NewV7()).String()
	body := submission("own", `"id":"`+id+`"`)
	if got := w.submit(body, "Idempotency-Key", "own"); got != "/v1/transactions/"+id {
		t.Errorf("location %q", got)
	}
	w.call("POST", "/v1/transactions", body, "Idempotency-Key", "own").expect(202)
	w.call("POST", "/v1/transactions", submission("other", `"id":"`+id+`"`), "Idempotency-Key", "second").problem(409, "id_taken")
}

// S1.6: what a user sent is stored as sent; big numbers and escapes are not touched.
func TestSubmitKeepsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	odd := `{ "n":123456789012345678901234567890, "f":1.10e+2, "e":"\u0000\u00e9é<>\u2028", "dup":1, "dup":2 }`
	got := make(chan []byte, 1)
	w.participant("echo", func(c saga.Command) saga.Reply {
		select {
		case got <- c.Body:
		default:
		}
		return saga.Reply{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: []byte(odd)}}
	})
	body := `{"definition":{"name":"echo","steps":[{"name":"a","kind":"retriable","participant":"echo","action":"x"}]},"input":` + odd + `}`
	r := w.call("POST", "/v1/transactions", body, "Prefer", "wait=30").expect(200)
	if !bytes.Contains(r.body, []byte(`"result":`+odd)) {
		t.Errorf("the result is not verbatim: %s", r.body)
	}
	if tx := r.transaction(); tx.Status != "committed" || tx.Result != "succeeded" {
		t.Errorf("ended %s %s", tx.Status, tx.Result)
	}
	if sent := <-got; !bytes.Contains(sent, []byte(odd)) {
		t.Errorf("the command is %s", sent)
	}
	if r.header.Get("Preference-Applied") != "wait=30" || r.header.Get("Location") == "" {
		t.Errorf("headers %v", r.header)
	}
}

func TestSubmitResultThatIsNotJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("proto", func(saga.Command) saga.Reply {
		return saga.Reply{Outcome: saga.OutcomeDone, Result: saga.Payload{Type: "application/x-protobuf", Data: []byte{0, 0xff}}}
	})
	body := `{"definition":{"name":"proto","steps":[{"name":"a","kind":"retriable","participant":"proto","action":"x"}]}}`
	tx := w.call("POST", "/v1/transactions", body, "Prefer", `respond-async, wait="30"; x=1`).expect(200).transaction()
	op := tx.Steps[0].Operations[0]
	if op.Result != nil || op.ResultBase64 == nil || op.ResultBase64.Type != "application/x-protobuf" || !bytes.Equal(op.ResultBase64.Data, []byte{0, 0xff}) {
		t.Errorf("got %+v", op)
	}
}

// With return=minimal the transaction comes without its steps, whatever stands beside it; without wait it means nothing.
func TestSubmitMinimal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.participant("echo", func(saga.Command) saga.Reply { return saga.Reply{Outcome: saga.OutcomeDone} })
	body := `{"definition":{"name":"echo","steps":[{"name":"a","kind":"retriable","participant":"echo","action":"x"}]}}`
	for prefer, want := range map[string]struct {
		applied string
		steps   int
	}{
		"wait=30, return=minimal":                        {"wait=30, return=minimal", 0},
		`Return="Minimal" ; x=1 , WAIT=30`:               {"wait=30, return=minimal", 0},
		"wait=30, return=representation":                 {"wait=30", 1},
		"wait=30, return=representation, return=minimal": {"wait=30", 1},
		"wait=30, minimal":                               {"wait=30", 1},
		`foo="a, return=minimal\", b", wait=30`:          {"wait=30", 1},
		`wait=30, return="minimal`:                       {"wait=30", 1},
	} {
		r := w.call("POST", "/v1/transactions", body, "Prefer", prefer).expect(200)
		tx := r.transaction()
		if got := r.header.Get("Preference-Applied"); got != want.applied || tx.Status != "committed" || len(tx.Steps) != want.steps {
			t.Errorf("Prefer: %s: applied %q, %s", prefer, got, r.body)
		}
	}
	if r := w.call("POST", "/v1/transactions", body, "Prefer", "return=minimal").expect(202); r.header.Get("Preference-Applied") != "" {
		t.Errorf("without wait: %v", r.header)
	}
}

func TestSubmitWaitsOnlyAsLongAsPreferred(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	r := w.call("POST", "/v1/transactions", submission("slow"), "Prefer", "wait=1").expect(202)
	if tx := r.transaction(); tx.Status != "running" || tx.Links["cancel"] == "" || time.Since(began) < time.Second {
		t.Errorf("after %s: %s", time.Since(began), r.body)
	}
	r = w.call("POST", "/v1/transactions", submission("slow"), "Prefer", "wait=soon").expect(202)
	if r.header.Get("Preference-Applied") != "" {
		t.Errorf("headers %v", r.header)
	}
}

// O1: trace context goes in and is shown; what is not valid is dropped.
func TestSubmitTakesTraceContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct{ given, want string }{
		{valid, valid},
		{"cc" + valid[2:] + "-what-the-future-brings", valid},
		{strings.ToUpper(valid), ""},
		{valid + "-x", ""},
		{"ff" + valid[2:], ""},
		{"00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
		{"\xff", ""},
	} {
		path := w.submit(submission("traced"), "Traceparent", c.given, "Tracestate", "rojo=1")
		if got := w.get(path).transaction().Traceparent; got != c.want {
			t.Errorf("%q is shown as %q", c.given, got)
		}
	}
	w.submit(submission("traced"), "Traceparent", valid, "Tracestate", "\xff\xfe")
	if n := w.count(`SELECT count(*) FROM transactions WHERE tracestate IS NOT NULL AND traceparent IS NULL`); n != 0 {
		t.Errorf("%d have a tracestate without a traceparent", n)
	}
	if !strings.Contains(w.logs.String(), `"trace":"4bf92f3577b34da6a3ce929d0e0e4736"`) {
		t.Error("the log does not have the trace id")
	}
}
