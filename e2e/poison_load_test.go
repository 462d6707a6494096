package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// The set-up of the poison tests: one coordinator; one participant in two processes, each with the default
// configuration and a supervisor that starts it again; clients that submit, wait for the end, and submit the next.
const (
	poisonProcesses = 2
	poisonClients   = 300 // more than the two processes have in hand: there is always something behind
	poisonLimit     = 3 * time.Minute
)

// The inputs of the poisoned transactions, which have to be in their dead letters byte for byte.
const (
	harmlessInput = `{ "number":"\u0031 is no number",	"exact": 1.50e+02, "ü":"\u00fc" }`
	killerInput   = `{ "number":0 ,	"kill":true, "exact": 12345678901234567890.0010, "ü":"\u00fc" }`
)

// One command that its participant cannot decode and one that kills its process, each time it is handled, among
// 1,000: all others are committed, once, and none is a dead letter; the two are, with their exact bytes (M6).
//
// `make poison` runs it with 10,000, in turns with and without the killer, and prints how much the killer costs
// the others.
func TestPoisonUnderLoad(t *testing.T) {
	total, pairs := fromEnv(t, "E2E_POISON_TRANSACTIONS", 1000), fromEnv(t, "E2E_POISON_PAIRS", 0)
	timeout := time.Duration(fromEnv(t, "E2E_POISON_ATTEMPT_MS", 1000)) * time.Millisecond
	if pairs == 0 {
		runPoison(t, total, timeout, true)
		return
	}
	var ratios []float64
	for n := range pairs {
		var beside [2]poisonRun
		for i := range beside {
			killer := (i+n)%2 == 1 // in turns, so that neither is always the first
			t.Run(fmt.Sprintf("%d-killer-%v", n+1, killer), func(t *testing.T) {
				beside[map[bool]int{false: 0, true: 1}[killer]] = runPoison(t, total, timeout, killer)
			})
		}
		if t.Failed() {
			return
		}
		without, with := beside[0], beside[1]
		ratios = append(ratios, with.speed()/without.speed())
		t.Logf("pair %d: %.0f/s beside a harmless poison, %.0f/s beside a killer too: %.1f %%", n+1, without.speed(), with.speed(), 100*ratios[n])
	}
	slices.Sort(ratios)
	t.Logf("median of %d pairs: %.1f %% of the speed (target 90 %%)", pairs, 100*ratios[len(ratios)/2])
}

func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	given := os.Getenv(name)
	if given == "" {
		return otherwise
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q, not a number", name, given)
	}
	return n
}

// poisonRun is the work of the transactions that are not poisoned.
type poisonRun struct {
	others int
	took   time.Duration // from the first submission to the last end
	most   time.Duration // to the end of 99 percent
}

func (r poisonRun) speed() float64 { return float64(r.others) / r.took.Seconds() }

// poisoned is a transaction that becomes a dead letter.
type poisoned struct {
	requestID, input, code string
}

// runPoison makes a world with so many transactions, and checks what became of them.
func runPoison(t *testing.T, total int, timeout time.Duration, killer bool) poisonRun {
	poisons := []poisoned{{"harmless", harmlessInput, saga.FaultUndecodable}}
	if killer {
		poisons = append(poisons, poisoned{"killer", killerInput, saga.FaultPoison})
	}
	w := newWorld(t)
	pool := w.database(t, worksName)
	if err := participant.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), worksSchema); err != nil {
		t.Fatal(err)
	}
	superviseWorks(t, w, poisonProcesses)
	heard := listen(t, w)
	def := saga.Define("work").Saga("work", worksName, "work", saga.AttemptTimeout(timeout)).MustBuild()

	l := &poisonLoad{client: w.client, def: def, total: total - len(poisons), begin: make(chan struct{})}
	ids := make(map[string]saga.ID)
	l.run(t, func(ctx context.Context) { // the poison, when everything is in motion
		for _, p := range poisons {
			body := fmt.Sprintf(`{"definition":%s,"input":%s}`, def.JSON(), p.input)
			s, err := w.client.SubmitBytes(ctx, []byte(body), client.SubmitOptions{RequestID: p.requestID})
			if err != nil {
				t.Error(err)
			}
			ids[p.requestID] = s.ID
		}
	})
	result := poisonRun{others: l.total, took: l.took, most: l.most}
	t.Logf("%d others ended after %s, 99 %% of them after %s", result.others, result.took.Round(time.Millisecond), result.most.Round(time.Millisecond))
	eventually(t, poisonLimit, "the poison is set aside", func() bool { return countOf(t, w.pool, `SELECT count(*) FROM dead_letters`) >= len(poisons) })
	for _, p := range poisons {
		checkPoison(t, w, heard, ids[p.requestID], p)
	}
	for what, c := range map[string]struct{ got, want int }{
		"dead letters":                    {countOf(t, w.pool, `SELECT count(*) FROM dead_letters`), len(poisons)},
		"incidents":                       {countOf(t, w.pool, `SELECT count(*) FROM incidents`), 0},
		"others committed":                {countOf(t, w.pool, `SELECT count(*) FROM transactions WHERE status = 'committed'`), l.total},
		"others that took effect":         {countOf(t, pool, `SELECT count(DISTINCT transaction_id) FROM works`), l.total},
		"effects of others":               {countOf(t, pool, `SELECT count(*) FROM works`), l.total},
		"suspects that may run again":     {countOf(t, pool, `SELECT count(*) FROM saga.barrier_suspect LEFT JOIN saga.barrier USING (transaction_id, step, tenant) WHERE state IS DISTINCT FROM 'tried'`), 0},
		"tries that the barrier knows of": {countOf(t, pool, `SELECT count(*) FROM saga.barrier WHERE state = 'tried'`), l.total},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", what, c.got, c.want)
		}
	}
	deaths := countOf(t, pool, `SELECT count(*) FROM deaths`)
	if most := participant.DefaultDeliveriesMax + 1; deaths > most || killer == (deaths == 0) {
		t.Errorf("%d processes died, want at most %d, and some if there is a killer (%v)", deaths, most, killer)
	}
	t.Logf("%d processes died", deaths)
	return result
}

func countOf(t *testing.T, pool queryer, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// poisonLoad is the clients at work.
type poisonLoad struct {
	client     *client.Client
	def        *saga.Definition
	total      int
	begin      chan struct{} // closed when the poison is due
	took, most time.Duration
}

// run returns when all transactions are committed. poison is called when one in twenty is.
func (l *poisonLoad) run(t *testing.T, poison func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), poisonLimit)
	defer cancel()
	var next, ended atomic.Int64
	var work sync.WaitGroup
	began := time.Now()
	for range poisonClients {
		work.Go(func() {
			for {
				n := int(next.Add(1))
				if n > l.total {
					return
				}
				if err := l.one(ctx, n); err != nil {
					t.Errorf("transaction %d: %v", n, err)
					return
				}
				switch done := int(ended.Add(1)); done {
				case l.total / 20:
					close(l.begin)
				case l.total - l.total/100:
					l.most = time.Since(began)
				}
			}
		})
	}
	select {
	case <-l.begin:
		poison(ctx)
	case <-ctx.Done():
	}
	work.Wait()
	l.took = time.Since(began)
	if t.Failed() {
		t.FailNow()
	}
}

func (l *poisonLoad) one(ctx context.Context, n int) error {
	var s client.Submitted
	err := persist(ctx, func() (err error) {
		s, err = l.client.Submit(ctx, client.Submission{Definition: l.def, Input: workInput{Number: n}},
			client.SubmitOptions{RequestID: fmt.Sprint("work-", n), Wait: time.Minute})
		return err
	})
	if err != nil {
		return err
	}
	if tx := s.Transaction; tx == nil || tx.Status != saga.StatusCommitted {
		return fmt.Errorf("%s is not committed: %s", s.ID, s.Answer)
	}
	return nil
}
