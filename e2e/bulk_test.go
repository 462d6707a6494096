package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// 1,000 dead letters of three causes are three groups. One of them is replayed as a job: dry run, canary of 5, 50 per
// second, paused, its coordinator killed, resumed. Each operation is sent once more and settled; whoever clicks twice, or
// second, is told so (D1, D2, D5).
func TestBulkReplay(t *testing.T) {
	t.Setenv("SAGACITY_AUTO_PAUSE", "0") // a hundred dead letters a minute would pause the action
	w := newWorld(t)
	operators := []*client.Client{w.operator(t, "ann"), w.operator(t, "bob")}
	letters := fromEnv(t, "E2E_BULK_LETTERS", 1000)
	causes := []bulkCause{
		{bank.ActionPayout, bank.Wish{FailWhile: "down"}, letters / 4},
		{bank.ActionPayout, bank.Wish{PanicWhile: "panicking"}, letters / 4},
		{bank.ActionDeposit, bank.Wish{Fault: "no such thing"}, letters / 2},
	}
	for _, name := range []string{"down", "panicking"} {
		if err := bank.Switch(t.Context(), w.banks[bankA], name, true); err != nil {
			t.Fatal(err)
		}
	}
	total := w.bury(t, causes)
	page, err := w.client.Groups(t.Context(), client.GroupFilter{Status: saga.DeadLetterOpen})
	if err != nil || len(page.Groups) != len(causes) {
		t.Fatalf("%d groups of %d dead letters, want %d: %+v, %v", len(page.Groups), total, len(causes), page.Groups, err)
	}
	group := page.Groups[0]
	for _, g := range page.Groups {
		if g.Cause == saga.DeadLetterExhausted {
			group = g
		}
	}
	n := causes[0].count
	if group.Counts[saga.DeadLetterOpen] != n {
		t.Errorf("the group has %v, want %d open", group.Counts, n)
	}

	job := w.planBulk(t, group.Fingerprint)
	if job.Predicted[saga.ReplayGoesForward] != n || job.Items[saga.JobItemPending] != n {
		t.Errorf("the dry run says %v of %v", job.Predicted, job.Items)
	}
	if again := countOf(t, w.pool, `SELECT count(*) FROM operations WHERE attempt > 1`); again != 0 {
		t.Errorf("the dry run has sent %d operations again", again)
	}
	if err := bank.Switch(t.Context(), w.banks[bankA], "down", false); err != nil {
		t.Fatal(err)
	}
	clickAtOnce(t, "start", operators, func(c *client.Client) error { _, err := c.StartJob(t.Context(), job, "fixed"); return err })
	job = w.jobWhen(t, job, "the canary is through", func(j *client.Job) bool { return j.Items[saga.JobItemVerified] > 5 })
	command := func(what saga.JobCommand) {
		clickAtOnce(t, string(what), operators, func(c *client.Client) error {
			_, err := c.CommandJob(t.Context(), job.ID, job.Version, what, "look")
			return err
		})
	}
	command(saga.JobCommandPause)
	job = w.killWhilePaused(t, job)
	command(saga.JobCommandResume)
	job = w.jobWhen(t, job, "it has finished", func(j *client.Job) bool { return j.State == saga.JobFinished })
	if job.Items[saga.JobItemVerified] != n {
		t.Errorf("finished with %v, want %d verified", job.Items, n)
	}
	w.checkBulk(t, group, job, n)
	w.clickReplay(t, operators)
}

// operator calls as an operator of all tenants with a name of its own.
func (w *world) operator(t *testing.T, name string) *client.Client {
	t.Helper()
	_, secret, err := token.New(w.pool).Create(t.Context(), token.CreateParams{By: "test", Tenant: token.AllTenants, Actor: name, Roles: token.Operator})
	if err != nil {
		t.Fatal(err)
	}
	return newClientOf(t, &w.addresses, secret)
}

// killWhilePaused kills the coordinator of a paused job. The one that is started after it looks after jobs, and leaves
// this one where it was.
func (w *world) killWhilePaused(t *testing.T, job client.Job) client.Job {
	t.Helper()
	job = w.jobWhen(t, job, "it is paused, and what was sent is answered", func(j *client.Job) bool {
		return j.State == saga.JobPaused && j.Items[saga.JobItemDispatched] == countOf(t, w.pool, `SELECT count(*) FROM dead_letters WHERE status = 'closed'`)-j.Items[saga.JobItemVerified]
	})
	if job.Items[saga.JobItemPending] == 0 {
		t.Error("it was paused too late to show anything")
	}
	w.coordinators[0].kill()
	w.startCoordinator(t, 0)
	page, err := w.client.DeadLetters(t.Context(), client.DeadLetterFilter{Status: saga.DeadLetterOpen, Cause: saga.DeadLetterPanic, Limit: 1})
	if err != nil || len(page.DeadLetters) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	other, err := w.client.CreateJob(t.Context(), client.JobForm{
		Selection: client.Selection{Transaction: page.DeadLetters[0].TransactionID.String()}, Rate: 50, Reason: "to see that jobs are looked after",
	})
	if err != nil {
		t.Fatal(err)
	}
	other = w.jobWhen(t, other, "another job is planned", func(j *client.Job) bool { return j.State == saga.JobPlanned })
	if _, err := w.client.CommandJob(t.Context(), other.ID, other.Version, saga.JobCommandAbort, "seen"); err != nil {
		t.Error(err)
	}
	after, err := w.client.Job(t.Context(), job.ID)
	if err != nil || after.State != saga.JobPaused || after.Version != job.Version || after.Items[saga.JobItemPending] != job.Items[saga.JobItemPending] {
		t.Errorf("over the kill it went from %s with %v to %s with %v (%v)", job.State, job.Items, after.State, after.Items, err)
	}
	return after
}

// bulkCause is one of the causes: what is asked of the bank, and how often.
type bulkCause struct {
	action string
	wish   bank.Wish
	count  int
}

// bury makes the dead letters of all causes, and returns how many.
func (w *world) bury(t *testing.T, causes []bulkCause) (total int) {
	t.Helper()
	var all sync.WaitGroup
	places := make(chan struct{}, 64)
	for _, c := range causes {
		def := saga.Define("pay").Retriable("pay", bankA, c.action, saga.PhaseTwoAttempts(1)).MustBuild()
		if c.action == bank.ActionDeposit {
			def = saga.Define("give").Timeout(time.Hour).Saga("pay", bankA, c.action).MustBuild()
		}
		total += c.count
		for i := range c.count {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				_, err := w.client.Submit(t.Context(), client.Submission{
					Definition: def, Inputs: map[string]any{"pay": bank.Move{Account: account(i % accounts), Cents: 1, Wish: c.wish}},
				}, client.SubmitOptions{})
				if err != nil {
					t.Errorf("submit: %v", err)
				}
			})
		}
	}
	all.Wait()
	eventually(t, time.Minute, "all are dead letters", func() bool {
		return countOf(t, w.pool, `SELECT count(*) FROM dead_letters WHERE status = 'open'`) == total
	})
	return total
}

// planBulk makes a job and waits for its dry run.
func (w *world) planBulk(t *testing.T, fingerprint string) client.Job {
	t.Helper()
	if _, err := w.client.CreateJob(t.Context(), client.JobForm{Reason: "all"}); problemStatus(err) != http.StatusBadRequest {
		t.Errorf("an empty selection: %v", err)
	}
	job, err := w.client.CreateJob(t.Context(), client.JobForm{
		Selection: client.Selection{Fingerprint: fingerprint}, Canary: 5, Rate: 50, Reason: "deployed the fix",
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.jobWhen(t, job, "it is planned", func(j *client.Job) bool { return j.State == saga.JobPlanned })
}

func (w *world) jobWhen(t *testing.T, job client.Job, what string, ok func(*client.Job) bool) client.Job {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond) // counting costs more than waiting
	defer ticker.Stop()
	eventually(t, 2*time.Minute, what, func() bool {
		<-ticker.C
		now, err := w.client.Job(t.Context(), job.ID)
		if err == nil {
			job = now
		}
		return err == nil && ok(&job)
	})
	return job
}

func problemStatus(err error) int {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}

// clickAtOnce does the same five times as each of the operators: once it is done, and the rest is told that it was too
// late.
func clickAtOnce(t *testing.T, what string, operators []*client.Client, click func(*client.Client) error) {
	t.Helper()
	const clicks = 5
	var done atomic.Int32
	var all sync.WaitGroup
	for _, c := range slices.Repeat(operators, clicks) {
		all.Go(func() {
			err := click(c)
			switch status := problemStatus(err); {
			case err == nil:
				done.Add(1)
			case status != http.StatusConflict && status != http.StatusPreconditionFailed:
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 {
		t.Errorf("%s was done %d times", what, done.Load())
	}
}

// checkBulk looks whether each operation of the group was sent once more, took effect once and was answered.
func (w *world) checkBulk(t *testing.T, group client.Group, job client.Job, n int) {
	t.Helper()
	for what, check := range map[string]struct {
		sql  string
		want int
	}{
		"replayed and committed": {`SELECT count(*) FROM dead_letters d JOIN operations o USING (transaction_id, step, phase) JOIN transactions t ON t.id = d.transaction_id
			WHERE d.fingerprint = '` + group.Fingerprint + `' AND d.status = 'closed' AND o.attempt = 2 AND t.status = 'committed'`, n},
		"others were sent again": {`SELECT count(*) FROM dead_letters d JOIN operations o USING (transaction_id, step, phase)
			WHERE d.fingerprint <> '` + group.Fingerprint + `' AND (o.attempt > 1 OR d.status <> 'open')`, 0},
		"went before the canary was through": {`SELECT count(*) FROM job_items WHERE job_id = '` + job.ID.String() + `' AND seq > 5
			AND dispatched_at < (SELECT max(ended_at) FROM job_items WHERE job_id = '` + job.ID.String() + `' AND seq <= 5)`, 0},
		"replays in the audit": {`SELECT count(*) FROM audit WHERE action = 'replay' AND allowed`, n},
	} {
		if got := countOf(t, w.pool, check.sql); got != check.want {
			t.Errorf("%s: %d, want %d", what, got, check.want)
		}
	}
	const slack = 25 // slots are given out at the rate, and used a moment later
	if most := countOf(t, w.pool, `SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY dispatched_at RANGE BETWEEN CURRENT ROW AND '1 second' FOLLOWING) AS n
		FROM job_items WHERE job_id = '`+job.ID.String()+`') AS seconds`); most > 50+slack {
		t.Errorf("%d were sent within a second", most)
	} else {
		t.Logf("%d replayed, at most %d within a second", n, most)
	}
	if effects := countOf(t, w.banks[bankA], `SELECT count(*) FROM bank.effects`); effects != n {
		t.Errorf("%d effects of %d operations (I-3)", effects, n)
	}
	if twice := effectsTwice(t.Context(), t, w.banks[bankA]); twice != 0 {
		t.Errorf("%d operations took effect twice (I-3)", twice)
	}
}

func effectsTwice(ctx context.Context, t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	err := pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM bank.effects GROUP BY tenant, transaction_id, step, phase HAVING count(*) > 1) AS twice`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// clickReplay lets two operators replay one dead letter five times each.
func (w *world) clickReplay(t *testing.T, operators []*client.Client) {
	t.Helper()
	if err := bank.Switch(t.Context(), w.banks[bankA], "panicking", false); err != nil {
		t.Fatal(err)
	}
	page, err := w.client.DeadLetters(t.Context(), client.DeadLetterFilter{Status: saga.DeadLetterOpen, Cause: saga.DeadLetterPanic, Limit: 1})
	if err != nil || len(page.DeadLetters) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	letter := page.DeadLetters[0]
	clickAtOnce(t, "replay", operators, func(c *client.Client) error { return c.Replay(t.Context(), letter.ID, letter.Version, "fixed") })
	eventually(t, time.Minute, "it is closed", func() bool {
		d, err := w.client.DeadLetter(t.Context(), letter.ID)
		return err == nil && d.Status == saga.DeadLetterClosed && d.Attempt == 2
	})
	if sent := countOf(t, w.pool, `SELECT count(*) FROM operations WHERE attempt > 2`); sent != 0 {
		t.Errorf("%d operations were sent more than once again", sent)
	}
}
