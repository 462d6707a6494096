package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/saga"
)

// judgement is what became of the races.
type judgement struct {
	fenced, byClients int
	classes           map[raceClass]int // of the fenced ones
	wrong             []string
}

// list returns the first findings.
func (j judgement) list(most int) []string {
	if more := len(j.wrong) - most; more > 0 {
		return append(slices.Clone(j.wrong[:most]), fmt.Sprintf("and %d more", more))
	}
	return j.wrong
}

// raceClass says who was first.
type raceClass string

const (
	tryFirst    raceClass = "committed: the try ended before its fence came"
	metDone     raceClass = "committed: the fence waited in the database for the try's commit"
	metUndone   raceClass = "cancelled: the fence waited in the database, and the try was rolled back or refused"
	fenceFirst  raceClass = "cancelled: the fence came first, the try found its tombstone"
	fenceMet    raceClass = "cancelled: the fence came first, the try waited in the database for its commit"
	refusedTry  raceClass = "cancelled: the try was refused before its fence came"
	rolledBack  raceClass = "cancelled: the try was rolled back before its fence came"
	racesOfKind           = 6 // races that a class must have, so that it was tested
)

// show prints who was first.
func (j judgement) show(t *testing.T) {
	t.Helper()
	t.Logf("%d pivots were fenced, %d because their client cancelled and the others because of their deadline:", j.fenced, j.byClients)
	for _, class := range slices.Sorted(maps.Keys(j.classes)) {
		t.Logf("%5d %s", j.classes[class], class)
	}
}

// missing tells of what there were too few races: every class, and every cause, has to have its share.
func (j judgement) missing() (list []string) {
	for _, class := range []raceClass{tryFirst, metDone, metUndone, fenceFirst, fenceMet, refusedTry} {
		if n := j.classes[class]; n < racesOfKind {
			list = append(list, fmt.Sprintf("%d races are %q, want %d at least", n, class, racesOfKind))
		}
	}
	if n := min(j.byClients, j.fenced-j.byClients); n < 5*racesOfKind {
		list = append(list, fmt.Sprintf("%d of %d fences are because of clients, want %d of each cause at least", j.byClients, j.fenced, 5*racesOfKind))
	}
	return list
}

// facts are what the shop's database says about a transaction.
type facts struct {
	runs     map[string]int // of handlers, by step/phase
	charge   string         // the state of the pivot's barrier row
	fenceMet bool           // a try waited in the database for the fence's commit
}

func (s *shop) facts(t *testing.T) map[saga.ID]*facts {
	t.Helper()
	all := make(map[saga.ID]*facts)
	of := func(id pgtype.UUID) *facts {
		if all[id.Bytes] == nil {
			all[id.Bytes] = &facts{runs: make(map[string]int), charge: "no row"}
		}
		return all[id.Bytes]
	}
	for _, q := range []struct {
		sql  string
		note func(f *facts, text string, n int)
	}{
		{`SELECT transaction_id, step || '/' || phase, count(*) FROM shop.effects GROUP BY 1, 2`, func(f *facts, text string, n int) { f.runs[text] = n }},
		{`SELECT transaction_id, state, 1 FROM saga.barrier WHERE step = 'charge'`, func(f *facts, text string, _ int) { f.charge = text }},
		{`SELECT transaction_id, '', count(*) FROM shop.fences_met GROUP BY 1`, func(f *facts, _ string, _ int) { f.fenceMet = true }},
	} {
		rows, err := s.pool.Query(t.Context(), q.sql)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id pgtype.UUID
			var text string
			var n int
			if err := rows.Scan(&id, &text, &n); err != nil {
				t.Fatal(err)
			}
			q.note(of(id), text, n)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// judge compares what clients were told with what the database holds.
func (s *shop) judge(t *testing.T) judgement {
	t.Helper()
	j := judgement{classes: make(map[raceClass]int)}
	all := s.facts(t)
	for _, r := range s.races {
		if r.err != nil {
			j.wrong = append(j.wrong, fmt.Sprintf("%s: %v", r, r.err))
			continue
		}
		f := all[r.id]
		if f == nil {
			f = &facts{charge: "no row"}
		}
		for _, problem := range r.problems(f) {
			j.wrong = append(j.wrong, fmt.Sprintf("%s is %s: %s; the pivot's barrier says %s, handlers ran %v", r, r.ended.Status, problem, f.charge, f.runs))
		}
		if r.fences.Load() > 0 {
			j.fenced++
			if r.byClient {
				j.byClients++
			}
			j.classes[r.class(f)]++
		}
	}
	for what, sql := range map[string]string{
		"an incident":                `SELECT count(*) FROM incidents i JOIN transactions t ON t.id = i.transaction_id WHERE t.definition_name = $1`,
		"an open dead letter (I-15)": `SELECT count(*) FROM dead_letters d JOIN transactions t ON t.id = d.transaction_id WHERE t.definition_name = $1`,
	} {
		var n int
		if err := s.w.pool.QueryRow(t.Context(), sql, s.name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			j.wrong = append(j.wrong, fmt.Sprintf("%d transactions have %s", n, what))
		}
	}
	return j
}

// problems are what is wrong with how a race ended.
func (r *race) problems(f *facts) (list []string) {
	want := func(status saga.Status, runs map[string]int) {
		for _, op := range []string{"hold/try", "hold/confirm", "hold/cancel", "ship/try"} {
			if f.runs[op] != runs[op] {
				list = append(list, fmt.Sprintf("%s, but %s ran %d times, want %d (I-2)", status, op, f.runs[op], runs[op]))
			}
		}
	}
	switch charged := f.runs["charge/try"]; r.ended.Status {
	case saga.StatusCommitted:
		if charged != 1 {
			list = append(list, fmt.Sprintf("committed with the pivot's effect %d times (I-2, I-3)", charged))
		}
		if f.charge != "tried" {
			list = append(list, "committed, but the barrier does not say tried (M2)")
		}
		want(saga.StatusCommitted, map[string]int{"hold/try": 1, "hold/confirm": 1, "ship/try": 1})
	case saga.StatusCancelled:
		if charged != 0 {
			list = append(list, "cancelled with the pivot's effect (I-2, I-6)")
		}
		if f.charge == "tried" {
			list = append(list, "cancelled, but the barrier says tried (M2)")
		}
		want(saga.StatusCancelled, map[string]int{"hold/try": f.runs["hold/try"], "hold/cancel": f.runs["hold/try"]})
		if r.tooLate {
			list = append(list, "its client was told that it is too late to cancel (S2.9)")
		}
	default:
		list = append(list, "it ended as neither")
	}
	return list
}

// class says who was first.
func (r *race) class(f *facts) raceClass {
	met := r.met.Load()
	switch {
	case r.ended.Status == saga.StatusCommitted && met:
		return metDone
	case r.ended.Status == saga.StatusCommitted:
		return tryFirst
	case met:
		return metUndone
	case f.charge == "refused":
		return refusedTry
	case r.ran.Load():
		return rolledBack
	case f.fenceMet:
		return fenceMet
	}
	return fenceFirst
}
