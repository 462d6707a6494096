package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/bank"
)

// Bulk replays from the command line: a dry run, an abort, a canary that fails, resume, and how they end (D5).
func TestJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var letter string
	for range 3 {
		_, letter = w.deadLetter()
	}
	fingerprint := memberOf(t, w.run("dlq", "show", letter, "-o", "json").want(t, exitOK).stdout, "fingerprint")
	w.refusedJobs(letter, fingerprint)

	planned := w.run("dlq", "replay", "--group", fingerprint, "--canary", "1", "--rate", "100", "--dry-run", "--reason", "bank is back", "-o", "json").
		want(t, exitOK, "nothing was replayed; start it with \"coordinator job start ")
	if got := memberOf(t, planned.stdout, "state") + memberOf(t, planned.stdout, "predicted") + memberOf(t, planned.stdout, "items"); got != "plannedmap[goes_forward:3]map[pending:3]" {
		t.Errorf("the dry run says %s", got)
	}
	job := memberOf(t, planned.stdout, "id")
	equal(t, "job list", w.run("job", "list", "--state", "planned").want(t, exitOK).stdout,
		`ID                                    STATE    CREATED                   BY         SELECTION                     CANARY  RATE  REASON
<id-------------------------------->  planned  <time------------------>  anonymous  fingerprint <16 digits>  1       100   bank is back
`)
	equal(t, "job show", w.run("job", "show", job).want(t, exitOK).stdout, `Job           <id-------------------------------->
State         planned
Selection     fingerprint <16 digits>
Canary        1
Rate          100 per second
Plan          <sha256>
Predicted     3 goes_forward
Dead letters  3 pending
Made          <time------------------> by anonymous
Reason        bank is back
`)
	equal(t, "job show --items", w.run("job", "show", job, "--items", "--limit", "1").want(t, exitOK, "only the first 1 are shown").stdout,
		`NUMBER  DEAD LETTER                           STATE    CODE  PREDICTED     REPLAYED  ENDED
1       <id-------------------------------->  pending        goes_forward
`)
	w.run("job", "pause", job, "--reason", "x", "--yes").want(t, exitFailed, "pause is not possible: the job is planned", "job_state, HTTP 409")
	w.run("job", "abort", job, "--reason", "x").want(t, exitUsage, "there is no terminal to ask on", "--yes")
	aborted := w.run("job", "abort", job, "--reason", "another way", "--yes", "-o", "json").want(t, exitOK)
	if aborted.stderr != "" {
		t.Errorf("job abort --yes shows the job that nobody is asked about: %s", aborted.stderr)
	}
	if got := memberOf(t, aborted.stdout, "state") + memberOf(t, aborted.stdout, "items"); got != "abortedmap[skipped:3]" {
		t.Errorf("after the abort it is %s", got)
	}
	w.run("job", "abort", job, "--reason", "again", "--yes").want(t, exitFailed, "job_state, HTTP 409")
	w.run("job", "watch", job).want(t, exitOK)

	// The bank is down still: the canary fails, and the rest waits for a person.
	job = memberOf(t, w.run("dlq", "replay", "--action", "payout", "--canary", "1", "--reason", "hope", "--yes", "-o", "json").
		want(t, exitOK, "follow it with \"coordinator job watch ").stdout, "id")
	w.run("job", "watch", job).want(t, exitPartial, "the job is paused: ")
	if err := bank.Switch(t.Context(), w.bank, "down", false); err != nil {
		t.Fatal(err)
	}
	if r := w.run("job", "resume", job, "--reason", "now it is up", "--yes").want(t, exitOK); strings.Count(r.stdout+r.stderr, "1 failed_again") != 1 {
		t.Errorf("job resume --yes shows the job not once:\n%s%s", r.stderr, r.stdout)
	}
	watched := w.run("job", "watch", job, "-o", "json").want(t, exitPartial, "1 were not replayed with success", "job show "+job+" --items")
	lines := strings.Split(strings.TrimSpace(watched.stdout), "\n")
	if last := lines[len(lines)-1]; memberOf(t, last, "state")+memberOf(t, last, "items") != "finishedmap[failed_again:1 verified:2]" {
		t.Errorf("it ended as %s", last)
	}

	// What failed again is a dead letter again, and goes now.
	job = memberOf(t, w.run("dlq", "replay", "--participant", "bank-a", "--cause", "exhausted", "--reason", "the rest", "--yes", "-o", "json").want(t, exitOK).stdout, "id")
	if end := w.run("job", "watch", job).want(t, exitOK); !strings.HasSuffix(end.stdout, "finished: 1 verified\n") {
		t.Errorf("job watch ends with %s", end.stdout)
	}
	var items []struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(w.run("job", "show", job, "--items", "-o", "json").want(t, exitOK).stdout), &items); err != nil || len(items) != 1 || items[0].State != "verified" {
		t.Errorf("its items are %+v, %v", items, err)
	}
	if r := w.run("job", "list", "--state", "finished", "-o", "yaml").want(t, exitOK); strings.Count(r.stdout, "state: finished") != 2 {
		t.Errorf("the finished jobs are %s", r.stdout)
	}
}

// refusedJobs are those that nothing is made of.
func (w *world) refusedJobs(letter, fingerprint string) {
	w.t.Helper()
	w.run("dlq", "replay", "--reason", "x", "--yes").want(w.t, exitUsage, "needs the ID of one dead letter")
	w.run("dlq", "replay", letter, "--group", fingerprint, "--reason", "x", "--yes").want(w.t, exitUsage, "not both")
	w.run("dlq", "replay", "--group", fingerprint, "--yes").want(w.t, exitUsage, "no reason")
	w.run("dlq", "replay", "--group", fingerprint, "--rate", "0", "--reason", "x", "--yes").want(w.t, exitUsage, "--rate is 0; use 1 to 1000")
	w.run("dlq", "replay", "--participant", "other", "--reason", "x", "--yes").want(w.t, exitFailed, "nothing_selected, HTTP 409")
	w.run("job", "show").want(w.t, exitUsage, "needs the ID of one job")
	w.run("job", "show", someID).want(w.t, exitFailed, "not_found")
	w.run("job", "start", someID).want(w.t, exitUsage, "no reason")
	w.run("job", "start", someID, "--reason", "x", "--yes").want(w.t, exitFailed, "not_found")
	w.run("job", "list", "--state", "lost").want(w.t, exitUsage)
	if r := w.run("job", "list", "-o", "json").want(w.t, exitOK); r.stdout != "[]\n" {
		w.t.Errorf("job list without a job: %s, want []", r.stdout)
	}
}
