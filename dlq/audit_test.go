package dlq_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// The database refuses to change or remove an entry, to the owner of the table too (D6).
func TestAuditIsAppendOnly(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	if err := dlq.InsertAudit(t.Context(), pool, dlq.AuditEntry{Actor: "ann", Action: "replay", Object: "x", Allowed: true}); err != nil {
		t.Fatal(err)
	}
	var part string
	if err := pool.QueryRow(t.Context(), `SELECT tableoid::regclass::text FROM audit`).Scan(&part); err != nil || part == "audit" {
		t.Fatalf("the entry is in %s, %v", part, err)
	}
	for _, sql := range []string{
		`TRUNCATE ` + part, `DELETE FROM ` + part, `UPDATE ` + part + ` SET actor = 'bob'`,
		`UPDATE audit SET actor = 'bob'`, `UPDATE audit SET detail = detail`, `DELETE FROM audit`, `TRUNCATE audit`,
		`INSERT INTO audit (id, actor, action, object, allowed) SELECT id, 'bob', action, object, allowed FROM audit
		     ON CONFLICT (id) DO UPDATE SET actor = EXCLUDED.actor`,
	} {
		if _, err := pool.Exec(t.Context(), sql); pg.Code(err) != "SG403" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	all, err := dlq.ListAudit(t.Context(), pool, dlq.AuditFilter{})
	if err != nil || len(all) != 1 || all[0].Actor != "ann" {
		t.Errorf("the audit has %+v, %v", all, err)
	}
}

// Pages of the audit show every entry once, the newest first, and filters select.
func TestAuditPages(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, schema)
	const n = 23
	for i := range n {
		e := dlq.AuditEntry{
			Tenant: []string{"acme", "other"}[i%2], Actor: []string{"ann", "bob"}[i%2], Action: []string{"replay", "discard", "pause"}[i%3],
			Object: fmt.Sprint(i % 5), Allowed: i%4 != 0, Reason: fmt.Sprint(i),
		}
		if err := dlq.InsertAudit(t.Context(), pool, e); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	page := dlq.AuditFilter{Limit: 5}
	for {
		entries, err := dlq.ListAudit(t.Context(), pool, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			seen = append(seen, e.Reason)
		}
		if len(entries) < page.Limit {
			break
		}
		page.Before = entries[len(entries)-1].ID
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(n-1-i))
	}
	if !slices.Equal(seen, want) {
		t.Errorf("pages show %v", seen)
	}
	refused := false
	for what, tc := range map[string]struct {
		f    dlq.AuditFilter
		want int
	}{
		"actor":       {dlq.AuditFilter{Actor: "bob"}, 11},
		"tenant":      {dlq.AuditFilter{Tenant: "acme"}, 12},
		"action":      {dlq.AuditFilter{Action: "replay"}, 8},
		"object":      {dlq.AuditFilter{Objects: []string{"3"}}, 4},
		"refused":     {dlq.AuditFilter{Allowed: &refused}, 6},
		"since later": {dlq.AuditFilter{Since: time.Now().Add(time.Hour)}, 0},
		"since":       {dlq.AuditFilter{Since: time.Now().Add(-time.Hour)}, n},
		"unknown id":  {dlq.AuditFilter{Before: uuid.New()}, 0},
	} {
		if entries, err := dlq.ListAudit(t.Context(), pool, tc.f); err != nil || len(entries) != tc.want {
			t.Errorf("%s: %d, want %d, %v", what, len(entries), tc.want, err)
		}
	}
}
