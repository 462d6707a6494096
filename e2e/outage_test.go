package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/outage"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// strategy is a way to retry, with or without what protects the participant.
type strategy struct {
	name, retries string
	protected     bool
	options       []saga.StepOption
}

var strategies = []strategy{
	{"default", "exponential with jitter (default)", true, nil},
	{"immediate", "immediate", false, []saga.StepOption{saga.RetryBackoff(saga.StrategyImmediate, time.Second, time.Second)}},
	{"fixed", "fixed, 1 s", false, []saga.StepOption{saga.RetryBackoff(saga.StrategyFixed, time.Second, time.Second)}},
	{"exponential", "exponential with jitter", false, nil},
	{"dead_letter", "straight to the dead letters", false, []saga.StepOption{saga.StraightToDeadLetters()}},
}

// outagePlan says how large the experiment is.
type outagePlan struct {
	before, outage, after time.Duration // of steady load; after: at least
	limit                 time.Duration // for what is due after the outage
	attemptTimeout        time.Duration
	deadline              time.Duration
	workMS                int // of the participant, for one command
	perSecond             int // zero: half of the capacity
	capacity              int // zero: to be measured
	coordinators          int
	retryFloor            int
}

// A participant is killed under steady load and comes back. With what is there by default all its transactions commit,
// nothing is a dead letter, and it gets few commands more than there are transactions: the outage is no bigger for being
// retried (R4, X5).
func TestOutage(t *testing.T) {
	plan := outagePlan{
		before: time.Second, outage: 3 * time.Second, limit: 3 * time.Minute, attemptTimeout: 500 * time.Millisecond, deadline: 10 * time.Minute,
		workMS: 1, perSecond: 40, capacity: 80, coordinators: 1, retryFloor: 5,
	}
	r := runOutage(t, &plan, strategies[0])
	sent := 0
	for _, n := range r.Sent {
		sent += n
	}
	if r.Committed != r.Submitted || r.Exhausted+r.Cancelled+r.DeadLetters+r.Unfinished > 0 {
		t.Errorf("not all are committed: %+v", r)
	}
	// What the budget allows, and the probes of the breaker. Without protection each that waits is sent again all the time.
	if most := r.Submitted*110/100 + plan.retryFloor*(len(r.Sent)+1) + 10*flow.DefaultProbes; sent > most {
		t.Errorf("%d commands for %d transactions, want at most %d", sent, r.Submitted, most)
	}
	t.Logf("%d commands for %d transactions", sent, r.Submitted)
}

// All strategies one after the other, for the table and the plot of the docs: make outage.
func TestOutageOfEachStrategy(t *testing.T) {
	dir := os.Getenv("E2E_OUTAGE_DIR")
	if dir == "" {
		return // TestOutage shows what has to hold; this is to be looked at
	}
	plan := outagePlan{
		before: 8 * time.Second, outage: time.Duration(fromEnv(t, "E2E_OUTAGE_SECONDS", 20)) * time.Second, after: 10 * time.Second,
		limit: time.Minute, attemptTimeout: 2 * time.Second, deadline: 10 * time.Minute, workMS: fromEnv(t, "E2E_OUTAGE_WORK_MS", 10),
		perSecond: fromEnv(t, "E2E_OUTAGE_RATE", 0), coordinators: fromEnv(t, "E2E_OUTAGE_COORDINATORS", 1), retryFloor: flow.DefaultRetryFloor,
	}
	report := outage.Report{
		Cores: runtime.NumCPU(), Coordinators: plan.coordinators, OutageS: int(plan.outage.Seconds()),
		AttemptTimeoutS: int(plan.attemptTimeout.Seconds()), DeadlineS: int(plan.deadline.Seconds()),
	}
	chosen := os.Getenv("E2E_OUTAGE_STRATEGIES")
	for _, s := range strategies {
		if chosen != "" && !slices.Contains(strings.Split(chosen, ","), s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			r := runOutage(t, &plan, s)
			report.Runs = append(report.Runs, r)
			if s.protected {
				for _, broken := range r.Broken() {
					t.Error(broken)
				}
			}
		})
	}
	report.CapacityPerS, report.RatePerS = plan.capacity, plan.perSecond
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"outage.json": append(data, '\n'), "outage.md": []byte(report.Conditions() + "\n\n" + report.Markdown()), "outage.svg": report.SVG(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// outageRun is the experiment with one strategy.
type outageRun struct {
	plan  *outagePlan
	w     *world
	load  *outageLoad
	meter *outageMeter
	out   outage.Run
}

// runOutage runs the experiment with a strategy in a world of its own. It measures the capacity if the plan lacks it.
func runOutage(t *testing.T, plan *outagePlan, s strategy) outage.Run {
	w := newWorld(t)
	w.coordinators[0].kill()
	for _, bank := range w.bank {
		bank.kill()
	}
	pool := w.database(t, stockName)
	if err := participant.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), stockSchema); err != nil {
		t.Fatal(err)
	}
	coordinators := startOutageCoordinators(t, w, plan, s.protected)
	options := append([]saga.StepOption{saga.AttemptTimeout(plan.attemptTimeout)}, s.options...)
	def := saga.Define("outage-"+strings.ReplaceAll(s.name, "_", "-")).Timeout(plan.deadline).Saga("take", stockName, "take", options...).MustBuild()
	r := &outageRun{plan: plan, w: w, load: newOutageLoad(t, coordinators[0].url, def, plan.perSecond), out: outage.Run{Name: s.name, Retries: s.retries, Protected: s.protected}}
	stock := startStock(t, w, plan.workMS)
	if plan.capacity == 0 {
		plan.capacity = r.load.measureCapacity(t, 8*stockConcurrency, 2*time.Second, 6*time.Second)
		t.Logf("capacity: %d transactions per second", plan.capacity)
	}
	plan.perSecond = cmp.Or(plan.perSecond, plan.capacity/2)
	r.load.perSecond = plan.perSecond
	r.meter = startMeter(t, w, coordinators)
	if s.protected {
		r.meter.watchCeiling(t, r.load.client)
	}
	r.run(t, stock)
	r.count(t)
	doubles := countOf(t, pool, `SELECT count(*) - count(DISTINCT transaction_id) FROM taken`)
	if doubles != 0 {
		t.Errorf("%d effects too many (I-3)", doubles)
	}
	return r.out
}

// startOutageCoordinators starts so many, whose inside can be looked at.
func startOutageCoordinators(t *testing.T, w *world, plan *outagePlan, protected bool) (coordinators []*served) {
	t.Helper()
	args := []string{"serve", "--anonymous", "--listen", "127.0.0.1:0", "--pprof-listen", "127.0.0.1:0", "--retry-floor", strconv.Itoa(plan.retryFloor)}
	if !protected {
		args = append(args, "--unprotected", "--participant-in-flight", "1000000", "--auto-pause", "0")
	}
	for i := range plan.coordinators {
		p := startProcess(t, spec{name: fmt.Sprint("coordinator serve outage ", i), args: args, env: w.env("coordinator"), ready: "API on "})
		address, err := addressIn(p.announced)
		if err != nil {
			t.Fatal(err)
		}
		coordinators = append(coordinators, &served{process: p, url: "http://" + address})
	}
	return coordinators
}

// run lets the load run, stops the participant and starts it again, and waits until nothing is to be expected any more.
func (r *outageRun) run(t *testing.T, stock *process) {
	ctx, endLoad := context.WithCancel(t.Context())
	defer endLoad()
	loaded := make(chan struct{})
	go func() { defer close(loaded); r.load.run(ctx, t) }()
	pause(ctx, r.plan.before)
	r.meter.begin()
	stock.kill()
	r.out.StoppedS = r.meter.now()
	pause(ctx, r.plan.outage)
	startStock(t, r.w, r.plan.workMS)
	r.out.BackS = r.meter.now()
	var back time.Time
	if err := r.w.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&back); err != nil {
		t.Fatal(err)
	}
	r.drain(ctx, t, back)
	pause(ctx, r.plan.after-time.Duration((r.meter.now()-r.out.BackS)*float64(time.Second)))
	endLoad()
	<-loaded
	r.ended(t.Context(), t, time.Now().Add(time.Hour)) // what is left is counted
	r.meter.read(&r.out)
}

// drain waits until the transactions from before an instant of the database's clock have ended, or wait for a person.
func (r *outageRun) drain(ctx context.Context, t *testing.T, back time.Time) {
	if !r.ended(ctx, t, back) {
		return
	}
	var last time.Time
	if err := r.w.pool.QueryRow(ctx, `SELECT coalesce(max(finished_at), $1) FROM transactions WHERE created_at < $1`, back).Scan(&last); err != nil {
		t.Fatal(err)
	}
	seconds := math.Round(10*max(0, last.Sub(back).Seconds())) / 10
	r.out.DrainedS = &seconds
}

// ended waits until no transaction from before an instant goes on by itself any more, as long as the plan allows.
func (r *outageRun) ended(ctx context.Context, t *testing.T, before time.Time) bool {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, r.plan.limit)
	defer cancel()
	for {
		var waiting int
		err := r.w.pool.QueryRow(t.Context(), `SELECT count(*) FROM transactions WHERE wake_at IS NOT NULL AND NOT suspended AND created_at < $1`,
			before).Scan(&waiting)
		switch {
		case err != nil:
			t.Fatal(err)
		case waiting == 0:
			return true
		case limited.Err() != nil:
			return false
		}
		pause(limited, meterInterval)
	}
}

// count counts what became of the transactions that were submitted while the meter ran.
func (r *outageRun) count(t *testing.T) {
	t.Helper()
	err := r.w.pool.QueryRow(t.Context(), `
SELECT count(*), count(*) FILTER (WHERE status = 'committed'), count(*) FILTER (WHERE status = 'cancelled' AND why = 'exhausted'),
       count(*) FILTER (WHERE status = 'cancelled' AND why <> 'exhausted'), count(*) FILTER (WHERE finished_at IS NULL AND NOT suspended)
  FROM transactions t
 WHERE EXISTS (SELECT FROM requests r WHERE r.transaction_id = t.id AND r.request_id LIKE 'outage-%')`).Scan(
		&r.out.Submitted, &r.out.Committed, &r.out.Exhausted, &r.out.Cancelled, &r.out.Unfinished)
	if err != nil {
		t.Fatal(err)
	}
	r.out.DeadLetters = countOf(t, r.w.pool, `SELECT count(*) FROM dead_letters`)
	if missed := r.load.missed.Load(); missed > 0 {
		t.Logf("%d submissions were not taken in time", missed)
	}
}
