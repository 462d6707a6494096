package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// The size of TestCrashOfEverything unless E2E_TRANSACTIONS and E2E_CLIENTS say otherwise. make crash does.
const (
	everythingOrders  = 200
	everythingClients = 16
)

// handlerTimeout is short, so that the lease of an external effect is over soon after its process died.
const handlerTimeout = 3 * time.Second

// roundsOf is how many rounds of faults a run of so many orders has.
func roundsOf(orders int) int { return max(1, orders/1000) }

// Transactions of every mixture of kinds, with refusals, cancels, deadlines, delays, failures and repairs, on two
// coordinators, with effects inside and outside of the local transaction, one bank of which carries out commands in groups, while everything is killed, paused, stopped and wiped by a seeded schedule: every rule holds at the
// end (M1 to M4, I-1 to I-12, I-15). The same seed gives the same orders and the same schedule.
func TestCrashOfEverything(t *testing.T) {
	total, clients := sizeFromEnv(t, "E2E_TRANSACTIONS", everythingOrders*long()), sizeFromEnv(t, "E2E_CLIENTS", everythingClients)
	rnd := random(t)
	orderSource, faultSource := rand.New(rand.NewPCG(rnd.Uint64(), 1)), rand.New(rand.NewPCG(rnd.Uint64(), 2))
	orders := drawOrders(orderSource, drawBlueprints(orderSource, 5), plenty(total))
	blows := drawBlows(faultSource, roundsOf(total), total)
	t.Logf("%d orders or more of %d clients, %d blows; the number above is SEED of make crash", total, clients, len(blows))

	grouped := map[string][]string{bankB: {"--group-max", "16"}}
	w := newWorldOf(t, grouped, "--handler-timeout", handlerTimeout.String())
	w.startCoordinator(t, 1)
	w.register(t, orders)
	l := startLoad(t, w.client, orders, clients)
	stop := l.progress(t)
	defer stop()
	var n nemesis
	n.run(t, w, l, blows)
	l.endAfter(total)
	quiet := time.Now()
	l.wait(t, w, endLimit)
	stop()
	t.Logf("all have ended %s after the last fault", time.Since(quiet).Round(time.Millisecond))
	w.inspect(t, l, 100)
	w.doctor(t)
	w.report(t, l, &n)
}

// sizeFromEnv reads a size from the environment.
func sizeFromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	given := os.Getenv(name)
	if given == "" {
		return otherwise
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number from 1", name, given)
	}
	return n
}

// register makes the definitions known that orders call by name.
func (w *world) register(t *testing.T, orders []*order) {
	t.Helper()
	done := make(map[string]bool)
	for _, o := range orders {
		if !o.registered || done[o.def.Name] {
			continue
		}
		if _, err := w.client.RegisterDefinition(t.Context(), o.def.JSON()); err != nil {
			t.Fatal(err)
		}
		done[o.def.Name] = true
	}
}

// report prints what happened, and complains if too little did.
func (w *world) report(t *testing.T, l *load, n *nemesis) {
	t.Helper()
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\ttimes")
	for _, k := range faultKinds {
		fmt.Fprintf(table, "%s\t%d\n", k.kind, n.counts[k.kind])
		if n.counts[k.kind] == 0 {
			t.Errorf("the run shows too little: nothing did %q", k.kind)
		}
	}
	_ = table.Flush() // to a strings.Builder
	b.WriteByte('\n')
	columns := []string{string(saga.StatusCommitted), "refused", "client", "deadline", "exhausted"}
	tally := func(title string, of func(*result) string) {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		rows := make(map[string]map[string]int)
		for i := range l.results {
			r := &l.results[i]
			row := of(r)
			if rows[row] == nil {
				rows[row] = make(map[string]int)
			}
			rows[row][outcomeOf(r)]++
		}
		fmt.Fprintf(table, "%s\ttransactions\t%s\t\n", title, strings.Join(columns, "\t"))
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			fmt.Fprintf(table, "%s\t%d", name, sum(rows[name]))
			for _, column := range columns {
				fmt.Fprintf(table, "\t%d", rows[name][column])
			}
			fmt.Fprint(table, "\t\n")
		}
		_ = table.Flush() // to a strings.Builder
		b.WriteByte('\n')
	}
	tally("kinds of steps", func(r *result) string { return r.mixture })
	tally("made so that", func(r *result) string { return string(r.fate) })
	tally("all", func(*result) string { return "" })
	w.reportDatabase(t, &b, len(l.results) >= 1000)
	t.Logf("%s after the start\n\n%s", time.Since(l.started).Round(time.Second), b.String())
}

func outcomeOf(r *result) string {
	if r.ended.Cause != nil {
		return string(r.ended.Cause.Why)
	}
	return string(r.ended.Status)
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// reportDatabase prints what the coordinators' database knows about the run. In a long one all of it has to happen.
func (w *world) reportDatabase(t *testing.T, b *strings.Builder, all bool) {
	t.Helper()
	for _, count := range []struct{ what, sql string }{
		{"operations", `SELECT count(*) FROM operations`},
		{"operations sent more than once", `SELECT count(*) FROM operations WHERE attempt > 1`},
		{"pivots fenced", `SELECT count(*) FROM operations WHERE phase = 'cancel' AND step LIKE 'pivot-%'`},
		{"pivots fenced that had executed", `SELECT count(*) FROM operations o JOIN transactions t ON t.id = o.transaction_id
		   WHERE o.phase = 'cancel' AND o.step LIKE 'pivot-%' AND t.status = 'committed'`},
		{"cancels of tries whose outcome was open", `SELECT count(*) FROM operations c JOIN operations t USING (transaction_id, step)
		   WHERE c.phase = 'cancel' AND c.step NOT LIKE 'pivot-%' AND t.phase = 'try' AND t.state = 'closed'`},
		{"operations outside of the local transaction", `SELECT count(*) FROM operations o JOIN transactions t ON t.id = o.transaction_id
		   JOIN definitions d ON d.sha256 = t.definition
		   JOIN LATERAL jsonb_array_elements(convert_from(d.body, 'UTF8')::jsonb -> 'steps') s ON s ->> 'name' = o.step
		  WHERE s ->> 'action' LIKE 'external-%'`},
		{"dead letters replayed", `SELECT count(*) FROM dead_letters WHERE status = 'closed'`},
	} {
		var n int
		if err := w.pool.QueryRow(t.Context(), count.sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "%7d %s\n", n, count.what)
		if n == 0 && all {
			t.Errorf("the run shows too little: no %s", count.what)
		}
	}
}
