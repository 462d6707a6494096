package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// storiesMax bounds how many wrong transactions a failed test prints.
const storiesMax = 5

// effect is one run of a handler that a bank has committed.
type effect struct {
	bank, step, phase, action, account string
	cents                              int64
	at                                 time.Time
}

// inspection compares what clients were told, what the coordinator has stored and what the banks have done.
type inspection struct {
	w       *world
	load    *load
	effects map[saga.ID][]effect
	orders  map[saga.ID]*result
	wrong   map[saga.ID][]string // of single transactions
	general []string
	counts  map[string]int
}

// inspect checks all that must hold at rest, whatever was killed before. At least so many percent of the orders
// that nothing refuses have to be committed.
func (w *world) inspect(t *testing.T, l *load, committedPercentMin int) {
	t.Helper()
	for _, finding := range w.findings(t, l, committedPercentMin) {
		t.Error(finding)
	}
}

// findings are what is wrong.
func (w *world) findings(t *testing.T, l *load, committedPercentMin int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	i := &inspection{
		w: w, load: l, effects: make(map[saga.ID][]effect), orders: make(map[saga.ID]*result, len(l.results)),
		wrong: make(map[saga.ID][]string), counts: make(map[string]int),
	}
	for _, name := range bankNames {
		i.readEffects(ctx, t, name)
	}
	for n := range l.results {
		i.checkOrder(&l.results[n])
		i.orders[l.results[n].submitted.ID] = &l.results[n]
	}
	for id := range i.effects {
		if i.orders[id] == nil {
			i.blame(id, "has effects, and nobody was told its id (I3, I-9)")
		}
	}
	i.checkBarriers(ctx, t)
	i.checkFound(ctx)
	i.checkStore(ctx, t)
	i.checkMoney(ctx, t)
	i.checkLogs(t)
	i.checkCounts(t, committedPercentMin)
	return append(i.general, i.stories(ctx)...)
}

// blame notes what is wrong with a transaction.
func (i *inspection) blame(id saga.ID, format string, args ...any) {
	i.wrong[id] = append(i.wrong[id], fmt.Sprintf(format, args...))
}

// complain notes what is wrong with all of it.
func (i *inspection) complain(format string, args ...any) {
	i.general = append(i.general, fmt.Sprintf(format, args...))
}

func (i *inspection) readEffects(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	rows, err := i.w.banks[name].Query(ctx,
		`SELECT transaction_id, step, phase, action, account, cents, happened_at FROM bank.effects ORDER BY happened_at`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id pgtype.UUID
		e := effect{bank: name}
		if err := rows.Scan(&id, &e.step, &e.phase, &e.action, &e.account, &e.cents, &e.at); err != nil {
			t.Fatal(err)
		}
		i.effects[id.Bytes] = append(i.effects[id.Bytes], e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// checkOrder judges one transaction by its effects, which nothing but the banks' barriers keeps apart.
func (i *inspection) checkOrder(r *result) {
	id, status := r.submitted.ID, r.ended.Status
	if r.err != nil {
		if id.IsZero() {
			i.complain("%s: %v", r.requestID, r.err)
			return
		}
		i.blame(id, "its client got: %v", r.err)
		return
	}
	i.counts[string(r.fate)+": "+string(status)]++
	runs := make(map[string]int)
	var order []string
	for _, e := range i.effects[id] {
		runs[e.step+"/"+e.phase]++
		if runs[e.step+"/"+e.phase] > 1 {
			i.blame(id, "%s/%s ran %d times (I-3)", e.step, e.phase, runs[e.step+"/"+e.phase])
		}
		order = append(order, e.step+"/"+e.phase)
	}
	want := func(step saga.StepDefinition, phase saga.Phase, n int, rule string) {
		if got := runs[step.Name+"/"+string(phase)]; got != n {
			i.blame(id, "%s, but the %s of the %s step %s ran %d times, want %d (%s)", status, phase, step.Kind, step.Name, got, n, rule)
		}
	}
	for _, step := range r.def.Steps {
		tried := runs[step.Name+"/try"]
		if c := slices.Index(order, step.Name+"/confirm"); c >= 0 && !slices.Contains(order[:c], step.Name+"/try") {
			i.blame(id, "%s was confirmed before it was tried (I-4)", step.Name)
		}
		if c := slices.Index(order, step.Name+"/cancel"); c >= 0 && slices.Contains(order[c:], step.Name+"/try") {
			i.blame(id, "%s was tried after it was cancelled (I-6, M3)", step.Name)
		}
		switch status {
		case saga.StatusCommitted:
			want(step, saga.PhaseTry, 1, "I-2")
			want(step, saga.PhaseCancel, 0, "I-1, I-2")
			confirms := 0
			if step.Kind == saga.KindTCC {
				confirms = 1
			}
			want(step, saga.PhaseConfirm, confirms, "I-2")
		case saga.StatusCancelled:
			want(step, saga.PhaseConfirm, 0, "I-1, I-2")
			if step.Kind == saga.KindPivot || step.Kind == saga.KindRetriable {
				want(step, saga.PhaseTry, 0, "I-2")
			}
			want(step, saga.PhaseCancel, tried, "I-2, M4")
		default:
			i.blame(id, "ended as %q", status)
		}
	}
	i.checkFate(r)
	i.checkContent(r, i.effects[id])
	i.checkSequence(r, i.effects[id])
}

// checkFate compares how an order ended with what it was made for.
func (i *inspection) checkFate(r *result) {
	id := r.submitted.ID
	var why saga.Why
	if r.ended.Cause != nil {
		why = r.ended.Cause.Why
	}
	may := endings[r.fate]
	switch committed := r.ended.Status == saga.StatusCommitted; {
	case committed && !may.commits:
		i.blame(id, "is committed, but %s", r.fate)
	case !committed && !slices.Contains(may.cancels, why):
		i.blame(id, "is cancelled because of %q, but %s", why, r.fate)
	}
}

// checkBarriers compares each bank's barrier with its business: neither may exist without the other (M2).
func (i *inspection) checkBarriers(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, name := range bankNames {
		rows, err := i.w.banks[name].Query(ctx, `
SELECT transaction_id, step, coalesce(b.state, 'no row'), coalesce(tries, 0), coalesce(confirms, 0), coalesce(cancels, 0)
  FROM saga.barrier b
  FULL JOIN (SELECT tenant, transaction_id, step, count(*) FILTER (WHERE phase = 'try') AS tries,
                    count(*) FILTER (WHERE phase = 'confirm') AS confirms, count(*) FILTER (WHERE phase = 'cancel') AS cancels
               FROM bank.effects GROUP BY 1, 2, 3) e USING (tenant, transaction_id, step)
 WHERE (coalesce(b.state, 'no row'), coalesce(tries, 0), coalesce(confirms, 0), coalesce(cancels, 0)) NOT IN
       (('tried', 1, 0, 0), ('confirmed', 1, 1, 0), ('cancelled', 1, 0, 1), ('refused', 0, 0, 0), ('null_cancelled', 0, 0, 0))`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id pgtype.UUID
			var step, state string
			var tries, confirms, cancels int
			if err := rows.Scan(&id, &step, &state, &tries, &confirms, &cancels); err != nil {
				t.Fatal(err)
			}
			if state == "cancelled" && tries+confirms+cancels == 0 && i.external(id.Bytes, step) {
				continue // the gateway was asked, and made to refuse what it had not got
			}
			i.blame(id.Bytes, "%s at %s: the barrier says %s, the business has %d tries, %d confirms and %d cancels (M2)",
				step, name, state, tries, confirms, cancels)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// external reports whether the effect of a step is outside of the local transaction (U4).
func (i *inspection) external(id saga.ID, step string) bool {
	r := i.orders[id]
	return r != nil && slices.ContainsFunc(r.def.Steps, func(s saga.StepDefinition) bool {
		return s.Name == step && strings.HasPrefix(s.Action, bank.ExternalPrefix)
	})
}

// checkFound reads every transaction by its id and by its request id (I-9), and compares it with what its client
// was told when it ended: terminal states are absorbing (I-7).
func (i *inspection) checkFound(ctx context.Context) {
	var mu sync.Mutex
	blame := func(id saga.ID, format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		i.blame(id, format, args...)
	}
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for n := range i.load.results {
		r := &i.load.results[n]
		if r.submitted.ID.IsZero() {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			id := r.submitted.ID
			byID, err := i.load.client.Get(ctx, id)
			if err != nil {
				blame(id, "is not found by its id: %v (I-9)", err)
				return
			}
			byRequest, err := i.load.client.FindByRequest(ctx, r.requestID)
			if err != nil || byRequest.ID != id {
				blame(id, "request %s leads to %s: %v (I-9)", r.requestID, byRequest.ID, err)
			}
			if r.err == nil && (byID.Status != r.ended.Status || byID.Version != r.ended.Version) {
				blame(id, "its client was told %s (version %d), now it is %s (version %d) (I-7)", r.ended.Status, r.ended.Version, byID.Status, byID.Version)
			}
			if byID.Suspended {
				blame(id, "is suspended")
			}
		})
	}
	wg.Wait()
}

const deadLetter = "has a dead letter (I-15)"

// provoked reports whether a dead letter is one that its order was made for, and whether it is settled.
func (i *inspection) provoked(id saga.ID, detail string) bool {
	r := i.orders[id]
	return r != nil && r.fate.repaired() &&
		(strings.HasPrefix(detail, string(saga.DeadLetterClosed)) || strings.HasPrefix(detail, string(saga.DeadLetterObsolete)))
}

// checkStore looks for what must not be in the coordinator's database.
func (i *inspection) checkStore(ctx context.Context, t *testing.T) {
	t.Helper()
	var total int
	if err := i.w.pool.QueryRow(ctx, `SELECT count(*) FROM transactions`).Scan(&total); err != nil {
		t.Fatal(err)
	}
	if total != len(i.load.results) {
		i.complain("%d transactions for %d request ids (I3)", total, len(i.load.results))
	}
	for _, problem := range []struct{ what, sql string }{
		{"has not ended (I-11)", `SELECT id, status FROM transactions WHERE finished_at IS NULL OR status NOT IN ('committed', 'cancelled')`},
		{deadLetter, `SELECT coalesce(transaction_id, '00000000-0000-0000-0000-000000000000'), concat_ws(' ', status, step, phase, cause, outcome, reason) FROM dead_letters`},
		{"has an incident", `SELECT transaction_id, concat_ws(' ', step, phase, problem) FROM incidents`},
	} {
		rows, err := i.w.pool.Query(ctx, problem.sql)
		if err != nil {
			t.Fatal(err)
		}
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			var id pgtype.UUID
			var detail string
			err := row.Scan(&id, &detail)
			if problem.what != deadLetter || !i.provoked(id.Bytes, detail) {
				i.blame(id.Bytes, "%s: %s", problem.what, detail)
			}
			return struct{}{}, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkMoney compares the banks' money with what they began with (I-12).
func (i *inspection) checkMoney(ctx context.Context, t *testing.T) {
	t.Helper()
	var total, held int64
	for _, name := range bankNames {
		has, err := bank.Total(ctx, i.w.banks[name])
		if err != nil {
			t.Fatal(err)
		}
		holds, err := bank.HeldTotal(ctx, i.w.banks[name])
		if err != nil {
			t.Fatal(err)
		}
		total, held = total+has, held+holds
	}
	if want := int64(len(bankNames) * accounts * accountCents); total != want || held != 0 {
		i.complain("the banks have %d cents, want %d; %d are held, want 0 (I-12)", total, want, held)
	}
}

// checkLogs looks for what no process may ever say, and for processes that have ended by themselves.
func (i *inspection) checkLogs(t *testing.T) {
	t.Helper()
	for _, p := range append(slices.Clone(i.w.coordinators), i.w.bank[bankA], i.w.bank[bankB]) {
		if !p.runs() {
			i.complain("%s has ended by itself", p.name)
		}
	}
	if log := i.w.postgresLog(t); strings.Contains(log, "deadlock detected") {
		i.complain("PostgreSQL had a deadlock (40P01):\n%s", around(log, "deadlock detected"))
	}
	paths, err := filepath.Glob(filepath.Join(i.w.logs, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"DATA RACE", "\npanic:", "\nfatal error:", "cannot be stored", "a request panicked"} {
			if strings.Contains(string(raw), bad) {
				i.complain("%s:\n%s", filepath.Base(path), around(string(raw), bad))
			}
		}
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, "handler panicked") && !strings.Contains(line, "the input asked for it") {
				i.complain("%s:\n%s", filepath.Base(path), line)
				break
			}
		}
	}
}

// around returns the text near the first match.
func around(text, match string) string {
	at := strings.Index(text, match)
	return text[max(0, at-500):min(len(text), at+2000)]
}

// checkCounts makes sure that the load was what it is meant to be.
func (i *inspection) checkCounts(t *testing.T, committedPercentMin int) {
	t.Helper()
	t.Logf("orders: %v", i.counts)
	nobody, committed := 0, 0
	fates := make(map[fate]bool)
	for n := range i.load.results {
		r := &i.load.results[n]
		fates[r.fate] = true
		if r.fate == fateCommit {
			nobody++
			if r.ended.Status == saga.StatusCommitted {
				committed++
			}
		}
	}
	if committed*100 < nobody*committedPercentMin {
		i.complain("%d of %d orders that nothing refuses are committed, want %d %% (M1)", committed, nobody, committedPercentMin)
	}
	if fates[fateCancel] && i.counts[string(fateCancel)+": "+string(saga.StatusCancelled)] == 0 {
		i.complain("no client cancelled in time: the test shows too little")
	}
}

// stories tell of transactions that are wrong: of the first ones all that is known.
func (i *inspection) stories(ctx context.Context) (list []string) {
	ids := slices.SortedFunc(maps.Keys(i.wrong), func(a, b saga.ID) int { return bytes.Compare(a[:], b[:]) })
	for n, id := range ids {
		if n == storiesMax {
			return append(list, fmt.Sprintf("and %d more transactions, the next of them %s: %s", len(ids)-n, id, strings.Join(i.wrong[id], "; ")))
		}
		list = append(list, fmt.Sprintf("transaction %s\n  %s\n%s%s", id, strings.Join(i.wrong[id], "\n  "), i.orders[id].wanted(), i.w.story(ctx, id, i.effects[id])))
	}
	return list
}

// wanted tells what the client wanted.
func (r *result) wanted() string {
	if r == nil {
		return ""
	}
	inputs, err := json.Marshal(r.inputs)
	return fmt.Sprintf("  order %s: %s; timeout %s, start after %s, cancel after %s\n  definition: %s\n  inputs: %s %v\n",
		r.requestID, r.fate, r.timeout, r.startAfter, r.cancelAfter, r.def.JSON(), inputs, err)
}

// story is all that is known about a transaction: the coordinator's view, its attempts and what the banks did.
func (w *world) story(ctx context.Context, id saga.ID, effects []effect) string {
	var b strings.Builder
	show := func(title string, v any, err error) {
		text, encodeErr := json.MarshalIndent(v, "  ", " ")
		if err != nil || encodeErr != nil {
			text = []byte(fmt.Sprint(err, encodeErr))
		}
		fmt.Fprintf(&b, "  %s: %s\n", title, text)
	}
	tx, err := w.client.Get(ctx, id)
	show("API", tx, err)
	attempts, err := w.client.Attempts(ctx, id)
	show("attempts", attempts, err)
	page, err := w.client.DeadLetters(ctx, client.DeadLetterFilter{Transaction: id})
	show("dead letters", page.DeadLetters, err)
	rows, err := w.pool.Query(ctx, `SELECT concat(at, ' ', problem) FROM incidents WHERE transaction_id = $1`, [16]byte(id))
	var incidents []string
	if err == nil {
		incidents, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	show("incidents", incidents, err)
	for _, e := range effects {
		fmt.Fprintf(&b, "  effect at %s, %s: %s/%s %s %s %d\n", e.bank, e.at.Format(time.RFC3339Nano), e.step, e.phase, e.action, e.account, e.cents)
	}
	return b.String()
}

// showUnfinished prints the stories of transactions that have not ended.
func (w *world) showUnfinished(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	rows, err := w.pool.Query(ctx, `SELECT id FROM transactions WHERE finished_at IS NULL ORDER BY id LIMIT $1`, storiesMax)
	if err != nil {
		t.Error(err)
		return
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
	if err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		t.Logf("transaction %s\n%s", saga.ID(id.Bytes), w.story(ctx, id.Bytes, nil))
	}
}
