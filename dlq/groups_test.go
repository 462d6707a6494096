package dlq_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// Equal causes are one group, with counts by status and what operators wrote about it.
func TestGroups(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	const causes, each = 5, 6
	for i := range causes * each {
		c := buried(saga.ID(newID(t)), 1, fmt.Sprintf("order %d: %s", i, strings.Repeat("no ", i%causes)))
		if i%causes == 0 {
			c.Tenant = "other"
		}
		changes := []dlq.Change{c}
		if i < causes {
			changes = append(changes, moved(c, saga.DeadLetterClosed))
		}
		if err := queue(t, pool, changes...); err != nil {
			t.Fatal(err)
		}
	}
	var groups []dlq.Group
	f := dlq.GroupFilter{Limit: 2}
	for {
		page, err := dlq.ListGroups(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, page...)
		if len(page) < f.Limit {
			break
		}
		f.Before = page[len(page)-1].Place()
	}
	if len(groups) != causes || !slices.IsSortedFunc(groups, func(a, b dlq.Group) int { return b.FirstSeen.Compare(a.FirstSeen) }) {
		t.Fatalf("%d groups: %+v", len(groups), groups)
	}
	for _, g := range groups {
		if g.Counts[saga.DeadLetterOpen] != each-1 || g.Counts[saga.DeadLetterClosed] != 1 || g.Participant != "stock" || g.Action != "reserve" ||
			g.Phase != saga.PhaseTry || g.Cause != saga.DeadLetterExhausted || !g.LastSeen.After(g.FirstSeen) || !strings.HasPrefix(g.Reason, "order ") {
			t.Errorf("group %+v", g)
		}
	}
	count := func(f dlq.GroupFilter) int {
		t.Helper()
		list, err := dlq.ListGroups(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for what, tc := range map[string]struct {
		f    dlq.GroupFilter
		want int
	}{
		"status":      {dlq.GroupFilter{Status: saga.DeadLetterClosed}, causes},
		"no status":   {dlq.GroupFilter{Status: saga.DeadLetterObsolete}, 0},
		"tenant":      {dlq.GroupFilter{Tenant: "other"}, 1},
		"participant": {dlq.GroupFilter{Participant: "bank"}, 0},
	} {
		if got := count(tc.f); got != tc.want {
			t.Errorf("%s: %d groups, want %d", what, got, tc.want)
		}
	}
	if _, err := dlq.GetGroup(t.Context(), pool, "0123456789abcdef", ""); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("a group that is not there: %v", err)
	}
	note := func(text string) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := dlq.AddNoteTx(t.Context(), tx, dlq.NoteParams{Fingerprint: groups[0].Fingerprint, Actor: "ann", Text: text})
			return err
		})
	}
	for i := range dlq.NotesMax {
		if err := note(fmt.Sprint(i, nasty)); err != nil {
			t.Fatal(err)
		}
	}
	if err := note("one too many"); !errors.Is(err, dlq.ErrTooManyNotes) {
		t.Errorf("one note too many: %v", err)
	}
	notes, err := dlq.Notes(t.Context(), pool, groups[0].Fingerprint, "")
	g, err2 := dlq.GetGroup(t.Context(), pool, groups[0].Fingerprint, "")
	if err != nil || err2 != nil || len(notes) != dlq.NotesMax || !strings.HasPrefix(notes[7].Text, "7a") || g.Notes != dlq.NotesMax {
		t.Errorf("%d notes, %d counted, %v %v", len(notes), g.Notes, err, err2)
	}
}

// With 100,000 dead letters groups are counted from the index alone, whatever the messages weigh.
func TestGroupsOfManyDeadLetters(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO dead_letters (id, kind, status, cause, fingerprint, transaction_id, step, phase, participant, subject, headers, body)
		SELECT ('0198c7a2-5b7e-7c31-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'operation', CASE WHEN i % 7 = 0 THEN 'open' ELSE 'closed' END, 'exhausted',
		       lpad(to_hex(i % 300), 16, '0'), gen_random_uuid(), 's', 'try', 'stock', 's', '{"a":["b"]}', convert_to(repeat('x', 300), 'UTF8')
		  FROM generate_series(1, 100000) i`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `VACUUM ANALYZE dead_letters`); err != nil {
		t.Fatal(err)
	}
	groups, err := dlq.ListGroups(t.Context(), pool, dlq.GroupFilter{Status: saga.DeadLetterOpen, Limit: 500})
	if err != nil || len(groups) != 300 {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
	plan := func(fingerprint string) string {
		t.Helper()
		rows, err := pool.Query(t.Context(), `EXPLAIN `+dlq.SQLListGroups, fingerprint, "", "open", "", (*time.Time)(nil), "", 50)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	for _, fingerprint := range []string{"", "0000000000000007"} {
		if p := plan(fingerprint); !strings.Contains(p, "Index Only Scan using dead_letters_group") || strings.Contains(p, "Seq Scan on dead_letters") {
			t.Errorf("fingerprint %q:\n%s", fingerprint, p)
		}
	}
}
