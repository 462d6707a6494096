package main

import (
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/bank"
)

// Approvals from the command line. Everybody on a loopback address is one person, so that one's own approval is refused and
// only the broken glass helps (D4, E3).
func TestApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	transaction, letter := w.deadLetter()
	approve := func(reason string) string {
		t.Helper()
		r := w.run("dlq", "approve", letter, "--reason", reason, "--expires-in", "1h", "--yes", "-o", "json").
			want(t, exitOK, "try of step pay, attempt 1 so far", "coordinator dlq replay "+letter+" --approval ")
		return memberOf(t, r.stdout, "id")
	}
	first, second := approve("looked at it"), approve("me too")
	w.run("dlq", "replay", letter, "--reason", "go", "--approval", first, "--yes").want(t, exitFailed, "approval_own, HTTP 409")
	w.run("approval", "revoke", second, "--reason", "one is enough", "--yes").want(t, exitOK)
	w.run("approval", "revoke", second, "--reason", "again", "--yes").want(t, exitFailed, "approval_revoked, HTTP 409")
	equal(t, "approval list", w.run("approval", "list", "--dead-letter", letter).want(t, exitOK).stdout,
		`ID                                    STATUS   DEAD LETTER                           VERSION  APPROVER   EXPIRES                   USED BY  REASON
<id-------------------------------->  revoked  <id-------------------------------->  1        anonymous  <time------------------>           me too
<id-------------------------------->  open     <id-------------------------------->  1        anonymous  <time------------------>           looked at it
`)
	command(t, strings.NewReader(`{"account":"bob","cents":5}`), "dlq", "edit", letter, "--input", "-", "--reason", "another account", "--yes", "--server", w.url).
		want(t, exitFailed, "edit_disabled, HTTP 409", "New input")
	if err := bank.Switch(t.Context(), w.bank, "down", false); err != nil {
		t.Fatal(err)
	}
	w.run("dlq", "replay", letter, "--break-glass", "--reason", "alone on call, and the bank is back", "--yes").want(t, exitOK, "is replayed")
	w.run("tx", "wait", transaction).want(t, exitOK)
	for _, text := range []string{"used, break-glass", "anonymous"} {
		if r := w.run("approval", "list", "--status", "used").want(t, exitOK); !strings.Contains(r.stdout, text) {
			t.Errorf("approval list does not have %q:\n%s", text, r.stdout)
		}
	}
	if r := w.run("dlq", "show", letter).want(t, exitOK); !strings.Contains(r.stdout, "break_glass") {
		t.Errorf("the audit does not have the broken glass:\n%s", r.stdout)
	}
}
