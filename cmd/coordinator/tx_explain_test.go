package main

import (
	"regexp"
	"strings"
	"testing"
)

var relative = regexp.MustCompile(`(in )?[0-9.]+(ms|s|h|h\d+m)( ago)? \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\)`)

func TestTxExplain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	transaction, letter := w.deadLetter()
	r := w.run("tx", "explain", transaction).want(t, exitOK)
	got := relative.ReplaceAllString(strings.ReplaceAll(r.stdout, letter, "LETTER"), "<when>")
	equal(t, "tx explain", got, `TRANSACTION <id-------------------------------->
- The transaction is confirming: it was decided to commit <when>. Confirms and retriable tries done: 0 of 1.
- It is suspended: 1 dead letter waits for a person. Until then its result is unknown to the client.

WHY IT WAITS
- The try of step pay is a dead letter: attempt 1 at participant bank-a (action payout), sent <when>, ended with retry (code "error", "attempt 1 of payout: the input asked for it"). It is not sent again by itself; a late reply would still count.

WHAT HAPPENS NEXT
- When everything is done, it is committed.
- No timer runs: it waits for a person, or for a late reply.

WHAT CAN BE DONE
- The dead letter of the try of step pay can be replayed: the same operation is sent again. Do so once the cause is gone. Command: coordinator dlq replay LETTER --reason TEXT
- Discarding it gives the try of step pay up: the transaction ends as resolved, and whether that effect happened is not known. Command: coordinator dlq discard LETTER --reason TEXT
- Resolving gives up all dead letters and ends the transaction; what was given up may or may not have taken effect. Command: coordinator tx resolve <id--------------------------------> --reason TEXT
- It cannot be cancelled: the decision to commit has been made, and never changes.
`)
	if got := memberOf(t, w.run("tx", "explain", transaction, "-o", "json").want(t, exitOK).stdout, "suspended"); got != "true" {
		t.Errorf("suspended is %s", got)
	}
	w.run("tx", "explain", someID).want(t, exitFailed, "explain transaction "+someID, "not_found")
	w.run("tx", "explain").want(t, exitUsage, "needs the ID of one transaction")
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"one two three four five six", 20, "one two three four|five six"},
		{"one two", 0, "one two"},
		{"äöü äöü äöü äöü äöü äöü", 21, "äöü äöü äöü äöü äöü|äöü"},
		{strings.Repeat("x", 30) + " y", 20, strings.Repeat("x", 30) + "|y"},
	} {
		if got := strings.Join(wrap(c.text, c.columns), "|"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}
