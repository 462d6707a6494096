package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/sabotage"
	"github.com/sagacity-tx/sagacity/participant"
)

// pivotWorkers is how many races run at the same time.
const pivotWorkers = 100

// Hundreds of pivots whose outcome is open when the deadline passes or the client cancels, so that each is fenced while
// its try is on the road, in its handler, or just done. Whoever is first: never a cancelled transaction with the
// pivot's effect, never a committed one without (S2.6, I-2, I-6, table B). Effects are counted in the participant's
// database, after the last copy of the last try has come.
func TestPivotRace(t *testing.T) {
	const roundsMax = 5
	round := 300 * long()
	rnd := random(t)
	s := newShop(t, newWorld(t), "shop", nil)
	var j judgement
	for n := 1; n == 1 || n <= roundsMax && len(j.missing()) > 0; n++ { // who is first depends on the machine too
		s.runRaces(t, rnd, n*round)
		j = s.judge(t)
	}
	for _, finding := range j.list(10) {
		t.Error(finding)
	}
	j.show(t)
	for _, what := range j.missing() {
		t.Errorf("the test shows too little: %s", what)
	}
}

// The judgement above is worth something: it notices a fence that leaves no tombstone, and one that answers like any other cancel.
func TestPivotRaceNoticesSabotage(t *testing.T) {
	const fences = 100
	rnd := random(t)
	w := newWorld(t)
	for _, c := range []struct {
		name, finding string
		alter         func(string) (string, error)
	}{
		{"shop-no-tombstone", "cancelled with the pivot's effect", func(sql string) (string, error) { return sabotage.Barrier(sql, sabotage.Tombstone) }},
		{"shop-plain-cancel", "cancelled with the pivot's effect", plainFence},
	} {
		s := newShop(t, w, c.name, c.alter)
		s.runRaces(t, rnd, fences)
		if found := s.judge(t).list(1000); !strings.Contains(strings.Join(found, "\n"), c.finding) {
			t.Errorf("%s: nobody noticed; want a finding %q, there are %q", c.name, c.finding, found)
		} else {
			t.Logf("%s: %d findings, the first: %s", c.name, len(found), found[0])
		}
	}
}

// plainFence makes the fence of an executed pivot succeed.
func plainFence(sql string) (string, error) {
	const safe, harm = `'fault', 'contradicts', 'the pivot has executed'`, `'done', NULL, NULL`
	if n := strings.Count(sql, safe); n != 1 {
		return "", fmt.Errorf("the barrier's SQL holds %q %d times, want once", safe, n)
	}
	return strings.Replace(sql, safe, harm, 1), nil
}

// installBarrier installs the barrier, altered if alter is given.
func (s *shop) installBarrier(t *testing.T, alter func(string) (string, error)) {
	t.Helper()
	if alter == nil {
		if err := participant.Migrate(t.Context(), s.pool); err != nil {
			t.Fatal(err)
		}
		return
	}
	sql, err := alter(participant.SchemaSQL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// runRaces runs races until so many pivots were fenced.
func (s *shop) runRaces(t *testing.T, rnd *rand.Rand, fences int) {
	t.Helper()
	most := 4 * fences // those that no fence came for are no races
	s.inParallel(t, pivotWorkers, func() *race {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fenced >= fences || len(s.races) >= most {
			return nil
		}
		r := newRace(rnd, len(s.races))
		s.races = append(s.races, r)
		return r
	})
	s.settle(t)
}
