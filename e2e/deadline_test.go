package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// Deadlines are met by the database's clock: what is not decided by then begins to cancel, never before and soon after,
// whatever else there is to do; and its cancels, which have no deadline, run when their participant is back (T1, S2.7).
//
// `make deadlines` runs it with 200 transactions, idle and beside a load, and judges how late the decisions are.
func TestDeadlines(t *testing.T) {
	const seconds = 2
	total := fromEnv(t, "E2E_DEADLINE_TRANSACTIONS", 0)
	judged := total > 0
	if !judged {
		total = 40
	}
	w := newWorld(t)
	s := w.serve(t)
	v := &verdicts{t: t}
	for _, load := range []int{0, 8} {
		w.bank[bankA].kill()
		beside := w.beside(t, s.url, load)
		name := fmt.Sprintf("deadline-%d", load)
		def := saga.Define(name).Saga("take", bankB, bank.ActionWithdraw).
			Saga("give", bankA, bank.ActionDeposit, saga.AttemptTimeout(500*time.Millisecond)).
			Timeout(seconds * time.Second).MustBuild()
		body := submission(def, map[string]bank.Move{"take": {Account: account(1), Cents: 1}, "give": {Account: account(1), Cents: 1}})
		submitEvenly(t, s.url, name, body, total, seconds*time.Second)
		eventually(t, time.Minute, "all are decided", func() bool {
			return countOf(t, w.pool, `SELECT count(*) FROM transactions WHERE definition_name = '`+name+`' AND decided_at IS NOT NULL`) == total
		})
		others := beside()
		w.startBank(t, bankA)
		eventually(t, 3*time.Minute, "all have ended", func() bool { n, err := w.unfinished(t.Context()); return err == nil && n == 0 })
		w.judgeDeadlines(t, v, name, total, fmt.Sprintf("beside %d clients (%d transactions)", load, others), judged)
	}
	v.print()
}

func (w *world) judgeDeadlines(t *testing.T, v *verdicts, name string, total int, beside string, judged bool) {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), `
SELECT extract(epoch FROM decided_at - deadline) * 1000 FROM transactions
 WHERE definition_name = $1 AND why = 'deadline' AND status = 'cancelled' ORDER BY 1`, name)
	if err != nil {
		t.Fatal(err)
	}
	var late []float64
	for rows.Next() {
		var ms float64
		if err := rows.Scan(&ms); err != nil {
			t.Fatal(err)
		}
		late = append(late, ms)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	v.add(len(late) == total, "cancelled because of the deadline, "+beside, fmt.Sprint(total), "%d", len(late))
	if len(late) == 0 {
		return
	}
	at := func(percent int) float64 { return late[min(len(late)*percent/100, len(late)-1)] }
	ok := late[0] >= 0 && (!judged || late[len(late)-1] <= 250)
	v.add(ok, "decided after the deadline, "+beside, "0 to 250 ms", "least %.0f, median %.0f, 90 %% %.0f, 99 %% %.0f, most %.0f ms",
		late[0], at(50), at(90), at(99), late[len(late)-1])
	balanced := countOf(t, w.banks[bankB], `
SELECT count(*) FROM (
    SELECT transaction_id FROM bank.effects WHERE account = '`+account(1)+`'
     GROUP BY transaction_id HAVING count(*) FILTER (WHERE phase = 'try') = 1 AND count(*) FILTER (WHERE phase = 'cancel') = 1 AND count(*) = 2
) AS undone`)
	all := countOf(t, w.banks[bankB], `SELECT count(DISTINCT transaction_id) FROM bank.effects WHERE account = '`+account(1)+`'`)
	v.add(balanced == all && (all > 0 || !judged), "taken once and given back once, so far", fmt.Sprint(all), "%d", balanced)
	left := countOf(t, w.banks[bankA], `
SELECT count(*) FROM (
    SELECT transaction_id FROM bank.effects WHERE account = '`+account(1)+`'
     GROUP BY transaction_id HAVING count(*) FILTER (WHERE phase = 'try') <> count(*) FILTER (WHERE phase = 'cancel')
) AS kept`)
	v.add(left == 0, "effects that remain where it was down", "0", "%d", left)
}

// submission is the body of one.
func submission(def *saga.Definition, moves map[string]bank.Move) []byte {
	body, err := json.Marshal(map[string]any{"definition": json.RawMessage(def.JSON()), "inputs": moves})
	if err != nil {
		panic(err)
	}
	return body
}

// submitEvenly submits the same, evenly over a time, under request ids of its own.
func submitEvenly(t *testing.T, url, name string, body []byte, total int, over time.Duration) {
	t.Helper()
	client, done := newHTTP(total)
	defer done()
	ticker := time.NewTicker(max(over/time.Duration(total), time.Millisecond))
	defer ticker.Stop()
	var work sync.WaitGroup
	for n := range total {
		<-ticker.C
		work.Go(func() {
			if err := submitPersistently(t.Context(), client, url, body, fmt.Sprint(name, "-", n), 0); err != nil {
				t.Errorf("submission %d: %v", n, err)
			}
		})
	}
	work.Wait()
}

// beside lets clients submit transactions of bank B, each the next when one has ended, until stop, which returns how many
// have ended.
func (w *world) beside(t *testing.T, url string, clients int) (stop func() int) {
	t.Helper()
	def := saga.Define("beside").Saga("give", bankB, bank.ActionDeposit).MustBuild()
	body := submission(def, map[string]bank.Move{"give": {Account: account(2), Cents: 1}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	client, done := newHTTP(clients)
	var ended atomic.Int64
	var work sync.WaitGroup
	run := besideRuns.Add(1)
	for n := range clients {
		work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				err := submitPersistently(ctx, client, url, body, fmt.Sprintf("beside-%d-%d-%d", run, n, i), time.Minute)
				if err != nil && ctx.Err() == nil {
					t.Errorf("beside: %v", err)
					return
				}
				if err == nil {
					ended.Add(1)
				}
			}
		})
	}
	stop = sync.OnceValue(func() int { n := int(ended.Load()); cancel(); work.Wait(); done(); return n })
	t.Cleanup(func() { stop() })
	return stop
}

var besideRuns atomic.Int64

func newHTTP(connections int) (client *http.Client, done func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: max(connections, 1)}
	return &http.Client{Timeout: 2 * time.Minute, Transport: transport}, transport.CloseIdleConnections
}

// median returns the middle of the values, the upper one of two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
