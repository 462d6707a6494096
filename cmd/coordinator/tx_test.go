package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestTxOfACommittedTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := submission(t, withdraw, map[string]any{"account": "alice", "cents": 5})

	r := w.run("tx", "start", "-f", file, "--request-id", "order-1", "--wait=20s").want(t, exitOK, "started (request id order-1)")
	equal(t, "tx start --wait", r.stdout, `ID          <id-------------------------------->
Status      committed
Result      succeeded
Definition  withdraw version 1
Tenant      default
Client      anonymous
Request     order-1
Created     <time------------------>
Deadline    <time------------------>
Decided     <time------------------>
Finished    <time------------------>

STEP  KIND  PARTICIPANT  ACTION    PHASE  STATE  ATTEMPT  OUTCOME  CODE  REASON
take  saga  bank-a       withdraw  try    done   1        done
`)
	id := strings.Fields(r.stdout)[1]

	again := w.run("tx", "start", "-f", file, "--request-id", "order-1", "-o", "json").want(t, exitOK, "was started before")
	if got := memberOf(t, again.stdout, "id"); got != id || memberOf(t, again.stdout, "replayed") != "true" {
		t.Errorf("a repetition gave %s, want transaction %s again", again.stdout, id)
	}
	if found := w.run("tx", "get", "--request-id", "order-1", "-o", "json").want(t, exitOK); memberOf(t, found.stdout, "id") != id {
		t.Errorf("tx get --request-id gave %s, want %s", found.stdout, id)
	}
	w.run("tx", "wait", id).want(t, exitOK)
	w.run("tx", "cancel", id, "--reason", "too late", "--yes").want(t, exitFailed, "cancel transaction "+id, "too late to cancel", "not_cancellable, HTTP 409")

	equal(t, "tx list", w.run("tx", "list").want(t, exitOK).stdout,
		`ID                                    STATUS     RESULT     DEFINITION  CREATED                   FINISHED
<id-------------------------------->  committed  succeeded  withdraw    <time------------------>  <time------------------>
`)
	equal(t, "tx list as JSON", w.run("tx", "list", "--status", "committed", "-o", "json").want(t, exitOK).stdout, `[
  {
    "id": "<id-------------------------------->",
    "version": <n>,
    "status": "committed",
    "result": "succeeded",
    "suspended": false,
    "tenant": "default",
    "client": "anonymous",
    "request_id": "order-1",
    "definition": {
      "name": "withdraw"
    },
    "created_at": "<time>",
    "deadline": "<time>",
    "decided_at": "<time>",
    "finished_at": "<time>",
    "links": {
      "attempts": "/v1/transactions/<id-------------------------------->/attempts",
      "events": "/v1/transactions/<id-------------------------------->/events",
      "self": "/v1/transactions/<id-------------------------------->"
    }
  }
]
`)
	for _, args := range [][]string{{"--status", "running"}, {"--definition", "other"}, {"--suspended"}} {
		if r := w.run(append([]string{"tx", "list", "-o", "json"}, args...)...).want(t, exitOK); r.stdout != "[]\n" {
			t.Errorf("tx list %v: %s, want []", args, r.stdout)
		}
	}
	if r := w.run("tx", "attempts", id, "-o", "json").want(t, exitOK); r.stdout != "[]\n" {
		t.Errorf("tx attempts: %s, want []", r.stdout)
	}
	completed := command(t, nil, "__complete", "tx", "get", "--server", w.url, "")
	if !strings.Contains(completed.stdout, id+"\twithdraw committed") {
		t.Errorf("completion of an id:\n%s", completed.stdout)
	}
}

func TestTxOfARefusedTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := submission(t, withdraw, map[string]any{"account": "nobody", "cents": 5})

	r := w.run("tx", "start", "-f", file, "--wait").want(t, exitFailed, "was cancelled: refused at step take: no_account", "no effect of it remains")
	id := strings.Fields(r.stdout)[1]
	w.run("tx", "wait", id, "--for", "0").want(t, exitFailed, "was cancelled")
	watched := w.run("tx", "watch", id).want(t, exitFailed, "was cancelled")
	if !strings.Contains(watched.stdout, "take try") || !strings.Contains(watched.stdout, "attempt 1, refused, no_account") {
		t.Errorf("tx watch:\n%s", watched.stdout)
	}
	watched = w.run("tx", "watch", id, "-o", "json").want(t, exitFailed)
	if strings.Count(watched.stdout, "\n") != 1 || memberOf(t, watched.stdout, "status") != "cancelled" {
		t.Errorf("tx watch as JSON is not one line per change:\n%s", watched.stdout)
	}

	var fromYAML, fromJSON any
	if err := yaml.Unmarshal([]byte(w.run("tx", "get", id, "-o", "yaml").want(t, exitOK).stdout), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(w.run("tx", "get", id, "-o", "json").want(t, exitOK).stdout), &fromJSON); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(fromYAML)
	b, _ := json.Marshal(fromJSON)
	if !bytes.Equal(a, b) {
		t.Errorf("as YAML\n%s\nas JSON\n%s", a, b)
	}
}

func TestTxWaitCancelAndAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := bank.Switch(t.Context(), w.bank, "slow", true); err != nil {
		t.Fatal(err)
	}
	def := saga.Define("slow").Saga("take", "bank-a", bank.ActionWithdraw,
		saga.RetryBackoff(saga.StrategyFixed, 50*time.Millisecond, time.Second), saga.Attempts(1000)).MustBuild()
	id := w.start(def, map[string]any{"account": "alice", "cents": 5, "wish": bank.Wish{FailWhile: "slow"}})

	w.run("tx", "wait", id, "--for", "300ms").want(t, exitWaitTimeout, "has not ended, it is running", `wait again with "coordinator tx wait `+id)
	again := submission(t, def, map[string]any{"account": "alice", "cents": 5, "wish": bank.Wish{FailWhile: "slow"}})
	w.run("tx", "start", "-f", again, "--wait=200ms").want(t, exitWaitTimeout, "has not ended")

	attempts := w.run("tx", "attempts", id).want(t, exitOK)
	if !strings.HasPrefix(attempts.stdout, "STEP  PHASE  ATTEMPT") || !strings.Contains(attempts.stdout, "take  try    1") {
		t.Errorf("tx attempts:\n%s", attempts.stdout)
	}

	w.run("tx", "cancel", id).want(t, exitUsage, "--reason")
	w.run("tx", "cancel", id, "--reason", "test").want(t, exitUsage, "there is no terminal to ask on", "--yes")
	if status := memberOf(t, w.run("tx", "get", id, "-o", "json").stdout, "status"); status != "running" {
		t.Errorf("the transaction is %s after a cancel that was not confirmed, want running", status)
	}
	w.run("tx", "cancel", id, "--reason", "test", "--yes").want(t, exitOK)
	if err := bank.Switch(t.Context(), w.bank, "slow", false); err != nil {
		t.Fatal(err)
	}
	w.run("tx", "wait", id).want(t, exitFailed, "was cancelled: client: test")
}

func TestTxListPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.start(withdraw, map[string]any{"account": "alice", "cents": 1})
	}
	count := func(r result) int {
		var list []any
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
			t.Errorf("not a JSON array: %v\n%s", err, r.stdout)
		}
		return len(list)
	}
	if n := count(w.run("tx", "list", "--limit", "2", "-o", "json").want(t, exitOK, "only the newest 2 are shown")); n != 2 {
		t.Errorf("%d shown, want 2", n)
	}
	all := w.run("tx", "list", "--all", "-o", "json").want(t, exitOK)
	if n := count(all); n != 3 || all.stderr != "" {
		t.Errorf("%d shown, want 3 and no message, got %q", n, all.stderr)
	}
	exact := w.run("tx", "list", "--limit", "3", "-o", "json").want(t, exitOK)
	if n := count(exact); n != 3 || exact.stderr != "" {
		t.Errorf("%d shown, want 3 and no message, got %q", n, exact.stderr)
	}
}

// signalWriter tells when something was written.
type signalWriter struct {
	bytes.Buffer
	written chan struct{}
}

func (s *signalWriter) Write(b []byte) (int, error) {
	n, err := s.Buffer.Write(b)
	select {
	case s.written <- struct{}{}:
	default:
	}
	return n, err
}

func TestListWatchEndsWhenItIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &signalWriter{written: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"tx", "list", "--watch", "--server", w.url}, out, os.Stderr) }()
	<-out.written
	cancel()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d, want %d", c, exitOK)
	}
	if !strings.HasPrefix(out.String(), "ID ") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("got %q, want a table without control characters", out.String())
	}
}

func TestSubmissionIsSentByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := "\n {\"input\" :{\"account\":\"alice\", \"cents\":1 },\t\"definition\": " + string(withdraw.JSON()) + "}\r\n"
	first := command(t, strings.NewReader(body), "tx", "start", "-f", "-", "--request-id", "same", "--server", w.url).want(t, exitOK)
	again := command(t, strings.NewReader(body), "tx", "start", "-f", "-", "--request-id", "same", "--server", w.url).want(t, exitOK, "was started before")
	if first.stdout != again.stdout {
		t.Errorf("the repetition gave %s, want %s", again.stdout, first.stdout)
	}
	other := strings.Replace(body, `"cents":1 `, `"cents":2 `, 1)
	command(t, strings.NewReader(other), "tx", "start", "-f", "-", "--request-id", "same", "--server", w.url).want(t, exitFailed, "key_reused")
	command(t, strings.NewReader(`{"definition":{}}`), "tx", "start", "-f", "-", "--server", w.url).want(t, exitFailed, "start the transaction of -", "HTTP 400")
}
