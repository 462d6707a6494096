package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// slowWork is what a participant that is slower than the attempt timeout is asked for.
type slowWork struct {
	name      string
	build     func(b *saga.Builder, o saga.StepOption) *saga.Builder
	wish      bank.Wish
	timeout   time.Duration // of the transaction; zero: it has time enough
	committed string        // what every step has to have done if it is committed
}

// A participant that is slower than the attempt timeout is asked again while it works, and executes no operation twice:
// its effects are counted in its own database. Its transactions commit; those whose deadline passes meanwhile end
// cancelled, with what they did undone (I-3, T1, U3).
//
// `make slow` runs it with more transactions.
func TestSlowParticipant(t *testing.T) {
	total := fromEnv(t, "E2E_SLOW_TRANSACTIONS", 6)
	const attempt, takes = 200 * time.Millisecond, 500
	works := []slowWork{
		{"slow-saga", func(b *saga.Builder, o saga.StepOption) *saga.Builder {
			return b.Saga("take", bankA, bank.ActionWithdraw, o)
		}, bank.Wish{SleepMs: takes}, 0, "try"},
		{"slow-tcc", func(b *saga.Builder, o saga.StepOption) *saga.Builder {
			return b.TCC("take", bankA, bank.ActionDebit, o)
		}, bank.Wish{SleepMs: takes}, 0, "confirm,try"},
		{"slow-confirm", func(b *saga.Builder, o saga.StepOption) *saga.Builder {
			return b.TCC("take", bankA, bank.ActionDebit, o)
		}, bank.Wish{Phase: saga.PhaseConfirm, SleepMs: takes}, 0, "confirm,try"},
		{"slow-pivot", func(b *saga.Builder, o saga.StepOption) *saga.Builder {
			return b.Pivot("take", bankA, bank.ActionCharge, o)
		}, bank.Wish{SleepMs: takes}, 0, "try"},
		{"slow-retriable", func(b *saga.Builder, o saga.StepOption) *saga.Builder {
			return b.Retriable("take", bankA, bank.ActionCollect, o)
		}, bank.Wish{SleepMs: takes}, 0, "try"},
		{"late-saga", func(b *saga.Builder, o saga.StepOption) *saga.Builder {
			return b.Saga("take", bankA, bank.ActionWithdraw, o)
		}, bank.Wish{SleepMs: takes}, takes * time.Millisecond / 2, ""},
		{"late-tcc", func(b *saga.Builder, o saga.StepOption) *saga.Builder {
			return b.TCC("take", bankA, bank.ActionDebit, o)
		}, bank.Wish{SleepMs: takes}, takes * time.Millisecond / 2, ""},
	}
	w := newWorld(t)
	s := w.serve(t, "--retry-floor", "1000") // it is asked again as often as it may be
	for i := range works {
		k := &works[i]
		b := k.build(saga.Define(k.name), saga.AttemptTimeout(attempt))
		if k.timeout > 0 {
			b = b.Timeout(k.timeout)
		}
		body := submission(b.MustBuild(), map[string]bank.Move{"take": {Account: account(3), Cents: 1, Wish: k.wish}})
		submitEvenly(t, s.url, k.name, body, total, time.Second)
	}
	eventually(t, 5*time.Minute, "all have ended", func() bool { n, err := w.unfinished(t.Context()); return err == nil && n == 0 })
	v := &verdicts{t: t}
	for _, k := range works {
		w.judgeSlow(t, v, k, total)
	}
	again := countOf(t, w.pool, `SELECT count(*) FROM attempts WHERE code = 'timeout'`)
	v.add(again > 0, "attempts that timed out while it worked", "some", "%d", again)
	letters := countOf(t, w.pool, `SELECT (SELECT count(*) FROM dead_letters) + (SELECT count(*) FROM incidents)`)
	v.add(letters == 0, "dead letters and incidents", "0", "%d", letters)
	v.print()
}

// judgeSlow compares the ends of transactions with what their participant has done.
func (w *world) judgeSlow(t *testing.T, v *verdicts, k slowWork, total int) {
	t.Helper()
	status := map[[16]byte]string{}
	rows, err := w.pool.Query(t.Context(), `SELECT id, status FROM transactions WHERE definition_name = $1`, k.name)
	if err != nil {
		t.Fatal(err)
	}
	ids, ends := [][16]byte{}, map[string]int{}
	for rows.Next() {
		var id [16]byte
		var end string
		if err := rows.Scan(&id, &end); err != nil {
			t.Fatal(err)
		}
		ids, status[id] = append(ids, id), end
		ends[end]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	did := map[[16]byte]string{}
	rows, err = w.banks[bankA].Query(t.Context(), `SELECT transaction_id, string_agg(phase, ',' ORDER BY phase) FROM bank.effects WHERE transaction_id = ANY($1) GROUP BY 1`, ids)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id [16]byte
		var phases string
		if err := rows.Scan(&id, &phases); err != nil {
			t.Fatal(err)
		}
		did[id] = phases
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	right, undone := 0, 0
	for id, end := range status {
		switch {
		case end == "committed" && k.committed != "" && did[id] == k.committed:
			right++
		case end == "cancelled" && k.committed == "" && (did[id] == "" || did[id] == "cancel,try"):
			right++
			undone += len(did[id])
		default:
			t.Errorf("a transaction of %s is %s and its participant did %q", k.name, end, did[id])
		}
	}
	want := "committed, once each"
	if k.committed == "" {
		want = "cancelled, undone"
	}
	v.add(right == total, k.name, want, "%d of %d %v, %d undone", right, total, fmt.Sprint(ends), undone/len("cancel,try"))
}
