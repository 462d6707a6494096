package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// deadLetter starts a transaction whose operation is set aside, and returns the ids of both.
func (w *world) deadLetter() (transaction, letter string) {
	w.t.Helper()
	if err := bank.Switch(w.t.Context(), w.bank, "down", true); err != nil {
		w.t.Fatal(err)
	}
	transaction = w.start(payout, map[string]any{"account": "alice", "cents": 5, "wish": bank.Wish{FailWhile: "down"}})
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for {
		r := w.run("dlq", "list", "--transaction", transaction, "--status", "open", "-o", "json").want(w.t, exitOK)
		var list []struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
			w.t.Fatalf("%v\n%s", err, r.stdout)
		}
		if len(list) == 1 {
			return transaction, list[0].ID
		}
		if !pause(ctx, 20*time.Millisecond) {
			w.t.Fatal("no dead letter after 30 s")
		}
	}
}

func TestDLQ(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	transaction, letter := w.deadLetter()

	equal(t, "dlq list", w.run("dlq", "list", "--participant", "bank-a", "--cause", "exhausted").want(t, exitOK).stdout,
		`ID                                    STATUS  CAUSE      PARTICIPANT  ACTION  STEP  PHASE  TRANSACTION                           UPDATED                   REASON
<id-------------------------------->  open    exhausted  bank-a       payout  pay   try    <id-------------------------------->  <time------------------>  attempt 1 of payout: the input asked for it
`)
	if r := w.run("dlq", "list", "--participant", "other", "-o", "json").want(t, exitOK); r.stdout != "[]\n" {
		t.Errorf("dlq list of another participant: %s, want []", r.stdout)
	}
	w.run("tx", "wait", transaction, "--for", "200ms").want(t, exitWaitTimeout, "(suspended)", "tx explain "+transaction, "dlq list --transaction "+transaction)

	shown := w.run("dlq", "show", letter).want(t, exitOK)
	for _, text := range []string{"Cause        exhausted", "confirming (suspended)", `"cents":5`, "STEP  PHASE  ATTEMPT"} {
		if !strings.Contains(shown.stdout, text) {
			t.Errorf("dlq show does not have %q:\n%s", text, shown.stdout)
		}
	}
	if got := memberOf(t, w.run("dlq", "show", letter, "-o", "json").want(t, exitOK).stdout, "transaction_id"); got != transaction {
		t.Errorf("transaction_id is %s, want %s", got, transaction)
	}

	w.groups(letter)
	w.run("dlq", "replay", letter).want(t, exitUsage, "no reason")
	w.run("dlq", "replay", letter, "--reason", strings.Repeat("x", 1025), "--yes").want(t, exitUsage, "use at most 1024")
	w.run("dlq", "replay", letter, "--reason", "test").want(t, exitUsage, "there is no terminal to ask on", "--yes")
	if err := bank.Switch(t.Context(), w.bank, "down", false); err != nil {
		t.Fatal(err)
	}
	replayed := w.run("dlq", "replay", letter, "--reason", "bank is back", "--yes", "-o", "json").
		want(t, exitOK, "try of step pay, attempt 1 so far", "bank-a, action payout", "goes_forward: the participant has it as absent", "is replayed")
	if got := memberOf(t, replayed.stdout, "transaction_id"); got != transaction {
		t.Errorf("replayed transaction %s, want %s", got, transaction)
	}
	w.run("tx", "wait", transaction).want(t, exitOK)
	if shown = w.run("dlq", "show", letter).want(t, exitOK); !strings.Contains(shown.stdout, "replay   true     bank is back") {
		t.Errorf("the audit is not shown:\n%s", shown.stdout)
	}
	w.run("dlq", "replay", letter, "--reason", "again", "--yes").want(t, exitFailed, "obsolete, HTTP 409")
	audit := w.run("audit", "list", "--object", letter, "--since", "1h").want(t, exitOK)
	for _, text := range []string{"replay   <object>  true     bank is back", "replay   <object>  false    again", "inquire  <object>  true"} {
		if !strings.Contains(strings.ReplaceAll(audit.stdout, letter, "<object>"), text) {
			t.Errorf("audit list does not have %q:\n%s", text, audit.stdout)
		}
	}
	w.run("audit", "list", "--since", "yesterday").want(t, exitUsage, "--since is")
	w.run("dlq", "show", "00000000-0000-4000-8000-000000000000").want(t, exitFailed, "not_found")
}

// groups looks at the group of a dead letter.
func (w *world) groups(letter string) {
	w.t.Helper()
	fingerprint := memberOf(w.t, w.run("dlq", "show", letter, "-o", "json").want(w.t, exitOK).stdout, "fingerprint")
	for _, text := range []string{fingerprint, "1     ", "payout"} {
		if r := w.run("dlq", "groups", "--status", "open").want(w.t, exitOK); !strings.Contains(r.stdout, text) {
			w.t.Errorf("dlq groups does not have %q:\n%s", text, r.stdout)
		}
	}
	w.run("dlq", "note", fingerprint, "the bank is down on Mondays").want(w.t, exitOK, "is kept")
	w.run("dlq", "note", "nonsense", "x").want(w.t, exitUsage, "needs the FINGERPRINT")
	shown := w.run("dlq", "show", fingerprint, "--inquire").want(w.t, exitOK)
	for _, text := range []string{"the bank is down on Mondays", "1 goes_forward", letter} {
		if !strings.Contains(shown.stdout, text) {
			w.t.Errorf("dlq show of a group does not have %q:\n%s", text, shown.stdout)
		}
	}
}

// TestReplaySendsTheVersionThatWasShown uses a server of its own: a real one cannot be made to change a dead
// letter between the two requests.
func TestReplaySendsTheVersionThatWasShown(t *testing.T) {
	t.Parallel()
	var match string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = rw.Write([]byte(`{"id":"11111111-2222-4333-8444-555555555555","version":7,"status":"open",` +
				`"reason":"\u001b[2J\u202eevil","message":{"subject":"s","headers":{},"body_base64":"e30="}}`))
			return
		}
		match = r.Header.Get("If-Match")
		rw.WriteHeader(http.StatusPreconditionFailed)
		_, _ = rw.Write([]byte(`{"code":"stale","title":"The dead letter has changed since it was read.","detail":"Read it again."}`))
	}))
	t.Cleanup(server.Close)
	r := command(t, nil, "dlq", "replay", "11111111-2222-4333-8444-555555555555", "--reason", "x", "--yes", "--server", server.URL).
		want(t, exitFailed, "stale, HTTP 412", `\x1b[2J\u202eevil`)
	if match != `"7"` {
		t.Errorf("If-Match was %q, want that of the version that was shown", match)
	}
	if strings.ContainsAny(r.stderr, "\x1b\u202e") {
		t.Errorf("a reason reaches the terminal unescaped: %q", r.stderr)
	}
}

// TestGivingUp discards one dead letter and resolves the transaction of another.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	transaction, letter := w.deadLetter()
	w.run("dlq", "discard", letter).want(t, exitUsage, "no reason")
	w.run("dlq", "discard").want(t, exitUsage, "needs the ID of one dead letter")
	w.run("dlq", "discard", letter, "--reason", "test").want(t, exitUsage, "there is no terminal to ask on", "--yes")
	discarded := w.run("dlq", "discard", letter, "--reason", "paid by hand", "--yes", "-o", "json").want(t, exitOK,
		"try of step pay, attempt 1", "never done, and the transaction ends as resolved",
		"Not known then  try of step pay (participant bank-a, action payout)", "is given up")
	if got := memberOf(t, discarded.stdout, "status"); got != "resolved" {
		t.Errorf("the transaction is %s", got)
	}
	w.run("dlq", "discard", letter, "--reason", "again", "--yes").want(t, exitFailed, "obsolete, HTTP 409")
	w.run("dlq", "discard", someID, "--reason", "x", "--yes").want(t, exitFailed, "not_found")
	if shown := w.run("dlq", "show", letter).want(t, exitOK); !strings.Contains(shown.stdout, "effect not known: pay/try") {
		t.Errorf("the audit is not shown:\n%s", shown.stdout)
	}
	w.run("tx", "wait", transaction).want(t, exitFailed)

	transaction, _ = w.deadLetter()
	w.run("tx", "resolve").want(t, exitUsage, "needs the ID of one transaction")
	w.run("tx", "resolve", transaction).want(t, exitUsage, "no reason")
	w.run("tx", "resolve", transaction, "--reason", "test").want(t, exitUsage, "there is no terminal to ask on", "--yes")
	resolved := w.run("tx", "resolve", transaction, "--reason", "paid by hand", "--yes", "-o", "json").
		want(t, exitOK, "Not known then  try of step pay (participant bank-a, action payout)")
	if got := memberOf(t, resolved.stdout, "status"); got != "resolved" {
		t.Errorf("the transaction is %s", got)
	}
	w.run("tx", "resolve", transaction, "--reason", "again", "--yes").want(t, exitFailed, "obsolete, HTTP 409")
	w.run("tx", "resolve", someID, "--reason", "x", "--yes").want(t, exitFailed, "not_found")

	lost := w.start(saga.Define("lost").Saga("take", "bank-z", bank.ActionWithdraw).MustBuild(), map[string]any{})
	w.run("tx", "resolve", lost, "--reason", "x", "--yes").want(t, exitFailed, "It is undecided: cancel it (coordinator tx cancel "+lost)
	w.run("tx", "cancel", lost, "--reason", "nobody is there", "--yes").want(t, exitOK)
	w.run("tx", "resolve", lost, "--reason", "x", "--yes").want(t, exitFailed, "outstanding, HTTP 409",
		"Under way: cancel of step take (participant bank-z, action withdraw)", "run one under its name that handles the action", "tx explain "+lost)
}

// TestGivingUpSendsTheVersionThatWasShown uses a server of its own, whose dead letter changes in between.
func TestGivingUpSendsTheVersionThatWasShown(t *testing.T) {
	t.Parallel()
	const shown = "11111111-2222-4333-8444-555555555555"
	var matches []string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = rw.Write([]byte(`{"id":"` + someID + `","version":7,"status":"open","phase":"cancel","step":"s","message":{"subject":"s","headers":{},"body_base64":"e30="},` +
				`"transaction":{"id":"` + someID + `","steps":[{"name":"s","kind":"pivot","operations":[{"phase":"cancel","state":"dead"}]}]}}`))
			return
		}
		matches = append(matches, r.URL.Path+" "+r.Header.Get("If-Match"))
		rw.WriteHeader(http.StatusPreconditionFailed)
		_, _ = rw.Write([]byte(`{"code":"stale","title":"It has changed since it was read.","detail":"Read it again."}`))
	}))
	t.Cleanup(server.Close)
	command(t, nil, "dlq", "discard", shown, "--reason", "x", "--yes", "--server", server.URL).want(t, exitFailed, "stale, HTTP 412", "a fence cannot be given up")
	command(t, nil, "tx", "resolve", someID, "--reason", "x", "--yes", "--server", server.URL).want(t, exitFailed, "stale, HTTP 412")
	if len(matches) != 2 || matches[0] != "/v1/dead-letters/"+shown+`/discard "7"` || matches[1] != "/v1/transactions/"+someID+`/resolve "7"` {
		t.Errorf("sent %q", matches)
	}
}

// A start that waits ends as soon as the transaction waits for a person, not when the time is over.
func TestStartWaitsForNoPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := bank.Switch(t.Context(), w.bank, "down", true); err != nil {
		t.Fatal(err)
	}
	file, began := submission(t, payout, map[string]any{"account": "alice", "cents": 5, "wish": bank.Wish{FailWhile: "down"}}), time.Now()
	w.run("tx", "start", "-f", file, "--wait=5m").want(t, exitWaitTimeout, "(suspended)", "coordinator tx explain ")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("tx start --wait waited %s for a transaction that waits for a person", took)
	}
}
