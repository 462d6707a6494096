package outbox

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/migrate"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	migrations "github.com/sagacity-tx/sagacity/migrations/outbox"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

var statements = map[string]string{
	"insert": sqlInsert, "settings": sqlSettings, "claim": sqlClaim, "delete": sqlDelete, "release": sqlRelease, "probe": sqlProbe,
}

var tableOnly = testdb.Template{Name: "outbox_sql", Migrate: func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn, migrations.FS, "outbox")
	return err
}}

func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testdb.NewDSN(t, tableOnly))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for name, sql := range statements {
		if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The table is empty when statements are planned; the plans must hold when it is not.
func TestPlansGoByTheKey(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, tableOnly)
	ctx := t.Context()
	plan := func(tx pgx.Tx, sql string, args ...any) string {
		t.Helper()
		rows, err := tx.Query(ctx, "EXPLAIN "+sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlSettings); err != nil {
			return err
		}
		ids := []uuid.UUID{{1}, {2}}
		for name, got := range map[string]string{
			"claim":   plan(tx, sqlClaim, int64(1), 10, int64(1), int64(1), uuid.UUID{}),
			"delete":  plan(tx, sqlDelete, ids),
			"release": plan(tx, sqlRelease, ids, []int64{1, 2}),
		} {
			if !strings.Contains(got, "Index Scan using outbox_pkey") || strings.Contains(got, "Seq Scan") ||
				strings.Contains(got, "Hash Join") || strings.Contains(got, "Merge Join") || strings.Contains(got, "Bitmap") {
				t.Errorf("%s:\n%s", name, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The claim takes the rows that relay.Claimable says, and no others.
func TestClaimIsAsDecided(t *testing.T) {
	t.Parallel()
	pool, ctx := testdb.New(t, tableOnly), t.Context()
	const graceMS = 2000
	var now time.Time
	want, got := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { // now() is the same for all statements
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
			return err
		}
		second := time.Second
		for _, age := range []time.Duration{0, 2*second - time.Microsecond, 2 * second, 2*second + time.Microsecond, time.Hour} {
			for _, claim := range []time.Duration{0, -second, -time.Microsecond, time.Microsecond, time.Hour} { // 0: none
				id, row := uuid.Must(uuid.NewV7()), relay.Row{CreatedAt: now.Add(-age)}
				var until *time.Time
				if claim != 0 {
					row.ClaimedUntil = now.Add(claim)
					until = &row.ClaimedUntil
				}
				want[id] = relay.Claimable(row, now, graceMS*time.Millisecond)
				if _, err := tx.Exec(ctx, `INSERT INTO outbox (id, subject, message_id, headers, data, created_at, claimed_until)
					VALUES ($1, 's', '', '', '', $2, $3)`, id, row.CreatedAt, until); err != nil {
					return err
				}
			}
		}
		rows, err := tx.Query(ctx, sqlClaim, graceMS, 100, 1000, 1<<20, uuid.UUID{})
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id, nil, nil, nil, nil, nil, nil); err != nil {
				return err
			}
			got[id] = true
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, claimable := range want {
		if got[id] != claimable {
			t.Errorf("%s: claimed %t, decided %t", id, got[id], claimable)
		}
	}
	if len(got) == 0 || len(got) == len(want) {
		t.Errorf("%d of %d were claimed", len(got), len(want))
	}
}

func TestMigrationGoesDownAndUp(t *testing.T) {
	t.Parallel()
	dsn, ctx := testdb.NewDSN(t, tableOnly), t.Context()
	if undone, err := migrate.Down(ctx, dsn, migrations.FS, "outbox", 0); err != nil || len(undone) == 0 {
		t.Fatalf("down: %v, %v", undone, err)
	}
	if applied, err := migrate.Up(ctx, dsn, migrations.FS, "outbox"); err != nil || len(applied) == 0 {
		t.Fatalf("up: %v, %v", applied, err)
	}
}
