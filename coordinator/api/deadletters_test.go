package api_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// letters is a world with a participant that answers with a fault until it is repaired.
type letters struct {
	*world
	repaired atomic.Bool
}

func newLetters(t *testing.T, options ...func(*api.Config)) *letters {
	l := &letters{world: newWorld(t, options...)}
	l.participant("ill", func(saga.Command) saga.Reply {
		if l.repaired.Load() {
			return saga.Reply{Outcome: saga.OutcomeDone}
		}
		return saga.Reply{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: `cannot read "amount" of order 17`}
	})
	return l
}

// bury makes a dead letter and returns its id.
func (l *letters) bury() (id, transaction string) {
	l.t.Helper()
	transaction = l.submit(`{"definition":{"name":"ill","steps":[{"name":"a","participant":"ill","action":"work"}]},"input":{"n":"\u0000é"}}`)
	l.until("a dead letter", func() bool {
		page := decode[api.DeadLetters](l.get("/v1/dead-letters?transaction=" + transaction[len("/v1/transactions/"):]).expect(200))
		if len(page.DeadLetters) == 0 {
			return false
		}
		id = page.DeadLetters[0].ID
		return true
	})
	return id, transaction
}

// D1, D2: a dead letter is found, read, replayed once and closed by the reply.
func TestDeadLetterReplay(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	id, transaction := l.bury()
	if tx := l.get(transaction).transaction(); !tx.Suspended || tx.Result != "unknown" {
		t.Errorf("the transaction is %+v", tx)
	}
	path := "/v1/dead-letters/" + id
	r := l.get(path).expect(200)
	d := decode[api.DeadLetterDetail](r)
	etag := r.header.Get("ETag")
	if etag != fmt.Sprintf(`"%d"`, d.Version) || d.Status != "open" || d.Cause != "handler_fault" || d.Participant != "ill" ||
		d.Transaction == nil || d.Links["transaction"] != transaction || d.Links["replay"] != path+"/replay" || d.Reason == "" {
		t.Errorf("ETag %s, body %s", etag, r.body)
	}
	if want := `{"input":{"n":"\u0000é"},"results":{}}`; string(d.Message.BodyBase64) != want && !bytes.Contains(d.Message.BodyBase64, []byte(`{"n":"\u0000é"}`)) {
		t.Errorf("the message is %s, want %s", d.Message.BodyBase64, want)
	}
	if d.Message.BodyText == nil || *d.Message.BodyText != string(d.Message.BodyBase64) || d.Message.Headers["Saga-Step"][0] != "a" {
		t.Errorf("the message is %+v", d.Message)
	}

	l.call("POST", path+"/replay", `{"reason":"fixed"}`).problem(428, "precondition_required")
	for _, stale := range []string{`"99"`, `W/` + etag, `"abc"`, `"0"`, `"-1"`, `"0` + strings.Trim(etag, `"`) + `"`, `"+` + strings.Trim(etag, `"`) + `"`} {
		l.call("POST", path+"/replay", `{"reason":"fixed"}`, "If-Match", stale).problem(412, "stale")
	}
	for _, bad := range []string{"*", "1", `""`, `"1", "2"`, `"`, ""} {
		l.call("POST", path+"/replay", `{"reason":"fixed"}`, "If-Match", bad).problem(400, "invalid_if_match")
	}
	l.call("POST", path+"/replay", `{"reason":"fixed"}`, "If-Match", etag, "If-Match", etag).problem(400, "duplicate_header")
	for _, body := range []string{``, `{}`, `{"reason":""}`, `{"reason":" \n"}`} {
		l.call("POST", path+"/replay", body, "If-Match", etag).problem(400, "missing_reason")
	}
	l.call("POST", path+"/replay", `{"why":"x"}`, "If-Match", etag).problem(400, "invalid_json")

	l.repaired.Store(true)
	l.call("POST", path+"/replay", `{"reason":"fixed the handler"}`, "If-Match", etag).expect(202)
	if tx := l.get(transaction + "?wait=30s").transaction(); tx.Status != "committed" || tx.Suspended {
		t.Errorf("the transaction is %+v", tx)
	}
	r = l.get(path).expect(200)
	d = decode[api.DeadLetterDetail](r)
	if d.Status != "closed" || d.Links["replay"] != "" {
		t.Errorf("it is %s", r.body)
	}
	var replays int
	for _, e := range d.Audit {
		if e.Allowed && e.Action == "replay" && e.Actor == "anonymous" && e.Reason == "fixed the handler" {
			replays++
		}
	}
	if replays != 1 {
		t.Errorf("%d replays in the audit: %s", replays, r.body)
	}
	l.call("POST", path+"/replay", `{"reason":"again"}`, "If-Match", etag).problem(412, "stale")
	// the transaction has ended
	l.call("POST", path+"/replay", `{"reason":"again"}`, "If-Match", r.header.Get("ETag")).problem(409, "obsolete")
}

// D2: the second of two clicks is refused.
func TestDeadLetterSecondClick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	silent := make(chan struct{})
	var asked atomic.Int32
	w.participant("ill", func(saga.Command) saga.Reply {
		if asked.Add(1) > 1 {
			<-silent
		}
		return saga.Reply{Outcome: saga.OutcomeFault, Code: saga.FaultHandler}
	})
	t.Cleanup(func() { close(silent) }) // before the participant stops
	l := &letters{world: w}
	id, _ := l.bury()
	path := "/v1/dead-letters/" + id
	etag := w.get(path).header.Get("ETag")
	w.call("POST", path+"/replay", `{"reason":"first"}`, "If-Match", etag).expect(202)
	w.call("POST", path+"/replay", `{"reason":"second"}`, "If-Match", etag).problem(412, "stale")
	r := w.get(path)
	if d := decode[api.DeadLetterDetail](r); d.Status != "replaying" {
		t.Errorf("it is %s", d.Status)
	}
	w.call("POST", path+"/replay", `{"reason":"third"}`, "If-Match", r.header.Get("ETag")).problem(409, "not_a_dead_letter")
}

// D3: after the decision a try's dead letter is obsolete.
func TestDeadLetterObsolete(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	id, transaction := l.bury()
	l.call("POST", transaction+"/cancel", "").expect(200)
	r := l.get("/v1/dead-letters/" + id).expect(200)
	if d := decode[api.DeadLetterDetail](r); d.Status != "obsolete" {
		t.Errorf("it is %s", d.Status)
	}
	l.call("POST", "/v1/dead-letters/"+id+"/replay", `{"reason":"x"}`, "If-Match", r.header.Get("ETag")).problem(409, "obsolete")
}

// C5: bytes that nobody understood are shown as they came, and cannot be replayed.
func TestDeadLetterOfMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	raw := []byte("\x00\xff<script>")
	m := wire.Message{Subject: w.prefix + ".reply.x.0", Header: wire.Header{"Odd": {"\xff"}}, Data: raw}
	if err := dlq.BuryMessage(t.Context(), w.pool, m, "x", "undecodable", "no header"); err != nil {
		t.Fatal(err)
	}
	page := decode[api.DeadLetters](w.get("/v1/dead-letters?cause=undecodable&participant=x&status=open").expect(200))
	if len(page.DeadLetters) != 1 {
		t.Fatalf("got %+v", page)
	}
	path := page.DeadLetters[0].Links["self"]
	r := w.get(path).expect(200)
	d := decode[api.DeadLetterDetail](r)
	if d.Kind != "message" || !bytes.Equal(d.Message.BodyBase64, raw) || d.Message.BodyText != nil || d.Transaction != nil || d.Links["replay"] != "" {
		t.Errorf("got %s", r.body)
	}
	w.call("POST", path+"/replay", `{"reason":"x"}`, "If-Match", r.header.Get("ETag")).problem(409, "not_a_dead_letter")
}

func TestDeadLettersPagesAndFilters(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	var want []string
	for range 3 {
		id, _ := l.bury()
		want = append([]string{id}, want...)
	}
	var got []string
	query := "?limit=2"
	for query != "" {
		page := decode[api.DeadLetters](l.get("/v1/dead-letters" + query).expect(200))
		for _, d := range page.DeadLetters {
			got = append(got, d.ID)
		}
		if query = ""; page.NextCursor != "" {
			query = "?limit=2&cursor=" + page.NextCursor
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", got, want)
	}
	first := decode[api.DeadLetters](l.get("/v1/dead-letters?limit=1")).DeadLetters[0]
	for query, n := range map[string]int{
		"fingerprint=" + first.Fingerprint: 3, "fingerprint=0000000000000000": 0, "status=open": 3, "status=closed": 0,
		"participant=ill": 3, "participant=well": 0, "cause=handler_fault": 3, "transaction=" + first.TransactionID: 1,
	} {
		if page := decode[api.DeadLetters](l.get("/v1/dead-letters?" + query).expect(200)); len(page.DeadLetters) != n {
			t.Errorf("%s selects %d, want %d", query, len(page.DeadLetters), n)
		}
	}
	for _, query := range []string{"status=new", "participant=%00", "cause=a.b", "transaction=1", "fingerprint=xyz", "limit=0", "tenant=a"} {
		l.get("/v1/dead-letters?"+query).problem(400, "invalid_query")
	}
	l.get("/v1/dead-letters?cursor=" + decode[api.DeadLetters](l.get("/v1/dead-letters?limit=1")).NextCursor).expect(200)
	for _, id := range []string{"x", "%00", "urn:uuid:" + uuid.NewString(), strings.ReplaceAll(uuid.NewString(), "-", "")} {
		l.get("/v1/dead-letters/"+id).problem(400, "invalid_id")
	}
	none := "/v1/dead-letters/" + uuid.NewString()
	l.get(none).problem(404, "not_found")
	l.call("POST", none+"/replay", `{"reason":"x"}`, "If-Match", `"1"`).problem(404, "not_found")
}

// cancelled makes a transaction that is being cancelled and whose cancel is a dead letter; returns its path and the
// dead letter's.
func (l *letters) cancelled() (letter, transaction string) {
	l.t.Helper()
	_, transaction = l.bury()
	l.call("POST", transaction+"/cancel", "").expect(200)
	l.until("a dead letter of the cancel", func() bool {
		page := decode[api.DeadLetters](l.get("/v1/dead-letters?status=open&transaction=" + transaction[len("/v1/transactions/"):]).expect(200))
		if len(page.DeadLetters) == 0 {
			return false
		}
		letter = page.DeadLetters[0].Links["self"]
		return page.DeadLetters[0].Phase == "cancel"
	})
	return letter, transaction
}

// needsDecision checks what every action of an operator needs.
func (l *letters) needsDecision(path, etag string) {
	l.t.Helper()
	l.call("POST", path, `{"reason":"x"}`).problem(428, "precondition_required")
	l.call("POST", path, `{"reason":"x"}`, "If-Match", `"99"`).problem(412, "stale")
	l.call("POST", path, `{"reason":"x"}`, "If-Match", "*").problem(400, "invalid_if_match")
	l.call("POST", path, `{"reason":"x"}`, "If-Match", etag, "If-Match", etag).problem(400, "duplicate_header")
	l.call("POST", path, `{}`, "If-Match", etag).problem(400, "missing_reason")
	l.call("POST", path, `{"reason":"`+strings.Repeat("x", 1025)+`"}`, "If-Match", etag).problem(400, "invalid_reason")
	l.call("POST", path, `{"why":"x"}`, "If-Match", etag).problem(400, "invalid_json")
	l.call("POST", path, `{"reason":"x"}`, "If-Match", etag, "Content-Type", "text/plain").problem(415, "unsupported_media_type")
	l.call("POST", path, strings.Repeat(" ", 9<<10), "If-Match", etag).problem(413, "too_large")
	l.call("GET", path, "").problem(405, "method_not_allowed")
}

// S2.13: a cancel that is given up leaves its transaction resolved.
func TestDeadLetterDiscard(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	letter, transaction := l.cancelled()
	r := l.get(letter).expect(200)
	etag := r.header.Get("ETag")
	if d := decode[api.DeadLetterDetail](r); d.Links["discard"] != letter+"/discard" {
		t.Errorf("links %v", d.Links)
	}
	l.needsDecision(letter+"/discard", etag)
	r = l.call("POST", letter+"/discard", `{"reason":"the account is gone"}`, "If-Match", etag).expect(200)
	d := decode[api.Discarded](r)
	if d.Transaction == nil || d.Transaction.Status != "resolved" || d.Transaction.Result != "unknown" ||
		d.Links["transaction"] != transaction || d.Transaction.Steps[0].Operations[1].State != "given_up" {
		t.Errorf("got %s", r.body)
	}
	l.call("POST", letter+"/discard", `{"reason":"again"}`, "If-Match", etag).problem(412, "stale")
	r = l.get(letter)
	if d := decode[api.DeadLetterDetail](r); d.Status != "discarded" || d.Links["discard"] != "" || !strings.Contains(string(r.body), "effect not known: a/cancel") {
		t.Errorf("got %s", r.body)
	}
	l.call("POST", letter+"/discard", `{"reason":"again"}`, "If-Match", r.header.Get("ETag")).problem(409, "obsolete")
	l.call("POST", letter+"/replay", `{"reason":"again"}`, "If-Match", r.header.Get("ETag")).problem(409, "obsolete")
	l.call("POST", "/v1/dead-letters/x/discard", `{"reason":"x"}`, "If-Match", `"1"`).problem(400, "invalid_id")
	l.call("POST", "/v1/dead-letters/"+uuid.NewString()+"/discard", `{"reason":"x"}`, "If-Match", `"1"`).problem(404, "not_found")
}

// S2.13: a try that is given up cancels, a fence cannot be given up.
func TestDeadLetterDiscardBeforeTheDecision(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	id, _ := l.bury()
	path := "/v1/dead-letters/" + id
	r := l.call("POST", path+"/discard", `{"reason":"x"}`, "If-Match", l.get(path).header.Get("ETag")).expect(200)
	if d := decode[api.Discarded](r); d.Transaction == nil || d.Transaction.Status != "cancelling" || d.Transaction.Cause.Code != "discarded" {
		t.Errorf("got %s", r.body)
	}
	transaction := l.submit(`{"definition":{"name":"p","steps":[{"name":"a","kind":"pivot","participant":"ill","action":"work"}]}}`)
	open := func(phase string) (path, etag string) {
		l.until("a dead letter of the "+phase, func() bool {
			page := decode[api.DeadLetters](l.get("/v1/dead-letters?status=open&transaction=" + transaction[len("/v1/transactions/"):]).expect(200))
			for _, d := range page.DeadLetters {
				if d.Phase == phase {
					path, etag = d.Links["self"], fmt.Sprintf(`"%d"`, d.Version)
				}
			}
			return path != ""
		})
		return path, etag
	}
	try, etag := open("try")
	l.call("POST", try+"/discard", `{"reason":"x"}`, "If-Match", etag).expect(200)
	fence, etag := open("cancel")
	l.call("POST", fence+"/discard", `{"reason":"x"}`, "If-Match", etag).problem(409, "fence")
	l.call("POST", transaction+"/resolve", `{"reason":"x"}`, "If-Match", l.get(transaction).header.Get("ETag")).problem(409, "outstanding")
}

func TestDiscardOfMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := dlq.BuryMessage(t.Context(), w.pool, wire.Message{Subject: "odd", Data: []byte{0xff}}, "x", "undecodable", ""); err != nil {
		t.Fatal(err)
	}
	path := decode[api.DeadLetters](w.get("/v1/dead-letters").expect(200)).DeadLetters[0].Links["self"]
	etag := w.get(path).header.Get("ETag")
	r := w.call("POST", path+"/discard", `{"reason":"noise"}`, "If-Match", etag).expect(200)
	if d := decode[api.Discarded](r); d.Transaction != nil {
		t.Errorf("got %s", r.body)
	}
	w.call("POST", path+"/discard", `{"reason":"noise"}`, "If-Match", etag).problem(412, "stale")
	w.call("POST", path+"/discard", `{"reason":"noise"}`, "If-Match", w.get(path).header.Get("ETag")).problem(409, "not_a_dead_letter")
}

// S2.13: resolve gives up all dead letters, at the version that was seen.
func TestResolve(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	letter, transaction := l.cancelled()
	r := l.get(transaction).expect(200)
	etag := r.header.Get("ETag")
	if want := fmt.Sprintf(`"%d"`, r.transaction().Version); etag != want {
		t.Errorf("the ETag is %s, want %s", etag, want)
	}
	l.needsDecision(transaction+"/resolve", etag)
	r = l.call("POST", transaction+"/resolve", `{"reason":"the account is gone"}`, "If-Match", etag).expect(200)
	if tx := r.transaction(); tx.Status != "resolved" || r.header.Get("ETag") != fmt.Sprintf(`"%d"`, tx.Version) {
		t.Errorf("got %v %s", r.header, r.body)
	}
	l.call("POST", transaction+"/resolve", `{"reason":"again"}`, "If-Match", etag).problem(412, "stale")
	l.call("POST", transaction+"/resolve", `{"reason":"again"}`, "If-Match", r.header.Get("ETag")).problem(409, "obsolete")
	if d := decode[api.DeadLetterDetail](l.get(letter)); d.Status != "discarded" || d.Audit[0].Action != "resolve" {
		t.Errorf("the dead letter is %+v", d)
	}
	l.call("POST", "/v1/transactions/x/resolve", `{"reason":"x"}`, "If-Match", `"1"`).problem(400, "invalid_id")
	l.call("POST", "/v1/transactions/"+fakeID.String()+"/resolve", `{"reason":"x"}`, "If-Match", `"1"`).problem(404, "not_found")
}
