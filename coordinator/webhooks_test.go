package coordinator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// told is what a webhook gets.
type told struct {
	Type string `json:"type"`
	Data struct {
		Kind, Code, Tenant, Summary string
		Count                       int
		Links                       map[string]string
	} `json:"data"`
}

// webhook registers a target, and returns what it is told.
func (w *world) webhook(c *coordinator.Coordinator, kinds ...notify.Kind) <-chan told {
	w.t.Helper()
	got := make(chan told, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var one told
		if err == nil {
			err = json.Unmarshal(body, &one)
		}
		if err != nil {
			w.t.Errorf("%v in %s", err, body)
		}
		got <- one
	}))
	w.t.Cleanup(s.Close)
	_, secret, err := c.Admin().CreateWebhook(w.ctx(10*time.Second), coordinator.WebhookParams{Actor: "ann", URL: s.URL, Kinds: kinds, Reason: "to know"})
	if err != nil || !strings.HasPrefix(secret, "whsec_") {
		w.t.Fatalf("the secret has %d bytes, %v", len(secret), err)
	}
	return got
}

func (w *world) told(got <-chan told) told {
	w.t.Helper()
	select {
	case one := <-got:
		return one
	case <-time.After(30 * time.Second):
		w.t.Fatal("nobody was told")
		return told{}
	}
}

func allowPrivate(c *coordinator.Config) {
	c.Webhooks = notify.Config{AllowPrivate: true, Interval: 20 * time.Millisecond, Links: notify.Links{API: "https://saga.example"}}
}

// People are told of dead letters, of transactions that wait for them, of pauses, and of participants that are silent
// (E5): with links to it and to the runbook.
func TestNotices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers, allowPrivate)
	letters, suspended := w.webhook(c, notify.KindDeadLetter), w.webhook(c, notify.KindSuspended)
	others := w.webhook(c, notify.KindPaused, notify.KindBreakerOpen)
	id, letter := w.stuck(c, 1)
	one := w.told(letters)
	if one.Data.Kind != "dead_letter" || one.Data.Code != letter.Cause || one.Data.Count != 1 || one.Data.Tenant != "acme" ||
		one.Data.Links["object"] != "https://saga.example/v1/dead-letters?fingerprint="+letter.Fingerprint ||
		one.Data.Links["runbook"] != notify.DefaultRunbook+letter.Cause {
		t.Errorf("told %+v", one)
	}
	if one := w.told(suspended); one.Type != "sagacity.notification.suspended" || one.Data.Links["object"] != "https://saga.example/v1/transactions/"+id.String() {
		t.Errorf("told %+v", one)
	}
	what := flow.Pause{Scope: flow.ScopeParticipant, Participant: "stock"}
	if _, _, err := c.Admin().Pause(w.ctx(10*time.Second), coordinator.PauseParams{Actor: "ann", What: what, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if one := w.told(others); one.Data.Kind != "paused" || !strings.Contains(one.Data.Summary, "ann") {
		t.Errorf("told %+v", one)
	}
	if n := w.count(`SELECT count(*) FROM audit WHERE action = 'webhook_create' AND reason = 'to know'`); n != 3 {
		t.Errorf("%d entries in the audit", n)
	}
}

// Many dead letters of one cause are told together.
func TestNoticesOfABurst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers, allowPrivate, func(c *coordinator.Config) { c.AutoPause = -1 })
	const n = 200
	for range n {
		w.deliver(c, fault(done(w.submit(c, define(saga.KindSaga, 1), ""), "s1", saga.PhaseTry), saga.FaultHandler))
	}
	// Without webhooks nothing is kept; so one is registered while the notices of a second burst wait.
	w.until("the notices that nobody wants are gone", func() bool { return w.count(`SELECT count(*) FROM notices`) == 0 })
	letters := w.webhook(c, notify.KindDeadLetter)
	for range n {
		w.deliver(c, fault(done(w.submit(c, define(saga.KindSaga, 1), ""), "s1", saga.PhaseTry), saga.FaultHandler))
	}
	first := w.told(letters)
	rest := w.count(`SELECT COALESCE(sum(count), 0) FROM notices WHERE kind = 'dead_letter'`)
	if first.Data.Count < 1 || first.Data.Count+rest != n || w.count(`SELECT count(*) FROM webhook_deliveries`) != 1 {
		t.Errorf("%d are told, %d wait for the next minute; want %d together", first.Data.Count, rest, n)
	}
}

// A silent participant is told of, once.
func TestNoticeOfABreaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(allowPrivate, func(c *coordinator.Config) { c.Flow.BreakerTimeouts = 3 })
	got := w.webhook(c, notify.KindBreakerOpen)
	for range 6 {
		w.submit(c, define(saga.KindSaga, 1, quick...), "")
	}
	if one := w.told(got); one.Data.Code != "breaker_open" || !strings.Contains(one.Data.Summary, "stock") {
		t.Errorf("told %+v", one)
	}
}

// Everybody is told of a broken glass (E3), in the database transaction of the replay: nobody is told of one that was
// rolled back.
func TestNoticeOfABrokenGlass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers, allowPrivate)
	got := w.webhook(c, notify.KindBreakGlass)
	_, letter := w.stuck(c, 1)
	replay := coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, BreakGlass: true, Reason: "alone on call; the log shows that it never came"}
	allow := w.refuseCommits("approvals")
	if err := c.Admin().Replay(w.ctx(20*time.Second), replay); err == nil {
		t.Error("what cannot be committed was carried out")
	}
	w.nobodyTold(notify.KindBreakGlass)
	allow()
	if err := c.Admin().Replay(w.ctx(20*time.Second), replay); err != nil {
		t.Fatal(err)
	}
	one := w.told(got)
	if one.Data.Kind != "break_glass" || one.Data.Count != 1 || one.Data.Tenant != "acme" || !strings.Contains(one.Data.Summary, "ann has replayed") ||
		one.Data.Links["object"] != "https://saga.example/v1/audit?object="+letter.ID.String() || one.Data.Links["runbook"] != notify.DefaultRunbook+"break_glass" {
		t.Errorf("told %+v", one)
	}
}

// People are told when a bulk replay ends, in the database transaction that ends it.
func TestNoticesOfJobs(t *testing.T) {
	t.Parallel()
	const n = 4
	w := newJobWorld(t, n, allowPrivate)
	got, halted := w.webhook(w.c, notify.KindJobEnded), w.webhook(w.c, notify.KindPaused)
	aborted := w.plan(0)
	allow := w.refuseCommits("jobs")
	if _, err := w.command(aborted, saga.JobCommandAbort); err == nil {
		t.Error("what cannot be committed was carried out")
	}
	w.nobodyTold(notify.KindJobEnded)
	allow()
	w.must(aborted, saga.JobCommandAbort)
	doomed := w.must(w.plan(1), saga.JobCommandStart)
	if one := w.told(halted); one.Data.Kind != "paused" || one.Data.Links["object"] != "https://saga.example/v1/jobs/"+doomed.ID.String() || !strings.Contains(one.Data.Summary, "has paused itself: ") {
		t.Errorf("told %+v", one)
	}
	if one := w.told(got); one.Data.Links["object"] != "https://saga.example/v1/jobs/"+aborted.ID.String() || !strings.Contains(one.Data.Summary, "is aborted: 0 verified, 0 failed again, 0 refused, 4 skipped") {
		t.Errorf("told %+v", one)
	}
	w.must(w.state(doomed, saga.JobPaused), saga.JobCommandAbort)
	if one := w.told(got); !strings.Contains(one.Data.Summary, "is aborted: 0 verified, 1 failed again, 0 refused, 3 skipped") {
		t.Errorf("told %+v", one)
	}
	w.repaired.Store(true)
	finished := w.must(w.plan(0), saga.JobCommandStart)
	if one := w.told(got); one.Data.Links["object"] != "https://saga.example/v1/jobs/"+finished.ID.String() || !strings.Contains(one.Data.Summary, "is finished: 4 verified, 0 failed again") {
		t.Errorf("told %+v", one)
	}
}

// refuseCommits makes every database transaction that writes the table fail when it commits, until allow is called.
func (w *world) refuseCommits(table string) (allow func()) {
	w.t.Helper()
	exec := func(sql string) {
		w.t.Helper()
		if _, err := w.pool.Exec(w.ctx(10*time.Second), sql); err != nil {
			w.t.Fatal(err)
		}
	}
	exec(`CREATE FUNCTION refuse_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$`)
	exec(`CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT OR UPDATE ON ` + table + ` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_commit()`)
	return func() { w.t.Helper(); exec(`DROP TRIGGER refuse_commit ON ` + table) }
}

// nobodyTold checks that nothing of a kind was told, or is going to be.
func (w *world) nobodyTold(kind notify.Kind) {
	w.t.Helper()
	if n := w.count(`SELECT (SELECT count(*) FROM notices WHERE kind = $1) + (SELECT count(*) FROM webhook_deliveries WHERE kind = $1)`, string(kind)); n != 0 {
		w.t.Errorf("%d notices of what did not happen", n)
	}
}
