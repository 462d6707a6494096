package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

const (
	bystanderClients = 32
	// victimsPerSecond are submissions that need the other participant.
	victimsPerSecond = 50
)

// While a participant is down, and transactions that need it gather, those that do not need it go on as before. In turns the
// same load runs with that participant up and down.
//
// `make bystander` runs pairs of ten seconds and prints the medians; the target is 90 % of the throughput.
func TestBystanders(t *testing.T) {
	pairs := fromEnv(t, "E2E_BYSTANDER_PAIRS", 1)
	lasts := time.Duration(fromEnv(t, "E2E_BYSTANDER_SECONDS", 1)) * time.Second
	measured := lasts > time.Second
	w := newWorld(t)
	s := w.serve(t)
	w.bystanders(t, s, lasts/2, false) // to warm up
	var up, down, ratios []float64
	for n := range pairs {
		var beside [2]float64 // with the participant up, down
		for i := range beside {
			isDown := (i+n)%2 == 1 // in turns, so that neither is always the first
			beside[map[bool]int{false: 0, true: 1}[isDown]] = w.bystanders(t, s, lasts, isDown)
		}
		up, down, ratios = append(up, beside[0]), append(down, beside[1]), append(ratios, beside[1]/beside[0])
		t.Logf("pair %d: %.0f/s with the other participant up, %.0f/s with it down: %.1f %%", n+1, beside[0], beside[1], 100*ratios[n])
	}
	v := &verdicts{t: t}
	v.add(!measured || median(ratios) >= 0.9, fmt.Sprintf("throughput of bystanders, median of %d pairs", pairs), "≥ 90 %", "%.1f %% (%.0f/s up, %.0f/s down)",
		100*median(ratios), median(up), median(down))
	var all, committed int
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE status = 'committed') FROM transactions`).Scan(&all, &committed); err != nil {
		t.Fatal(err)
	}
	v.add(committed == all, "committed in the end", fmt.Sprint(all), "%d", committed)
	effects := countOf(t, w.banks[bankA], `SELECT count(*) FROM bank.effects`) + countOf(t, w.banks[bankB], `SELECT count(*) FROM bank.effects`)
	v.add(effects == all, "effects", "one each", "%d", effects)
	v.print()
}

var bystanderRun int

// bystanders returns how many transactions per second end that do not need bank A, which is down or up.
func (w *world) bystanders(t *testing.T, s *served, lasts time.Duration, down bool) float64 {
	t.Helper()
	bystanderRun++
	if down {
		w.bank[bankA].kill()
	}
	def := saga.Define("victim").Saga("give", bankA, bank.ActionDeposit, saga.AttemptTimeout(time.Second)).MustBuild()
	body := submission(def, map[string]bank.Move{"give": {Account: account(4), Cents: 1}})
	stop := w.beside(t, s.url, bystanderClients)
	began := time.Now()
	submitEvenly(t, s.url, fmt.Sprint("victim-", bystanderRun), body, int(lasts.Seconds()*victimsPerSecond), lasts)
	took := time.Since(began)
	ended := stop()
	if down {
		w.startBank(t, bankA)
	}
	eventually(t, 3*time.Minute, "all have ended", func() bool { n, err := w.unfinished(t.Context()); return err == nil && n == 0 })
	return float64(ended) / took.Seconds()
}
