package participant

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/saga"
)

// TestMigrateOften: eight at once, then again, install once; CheckSchema tells before and after.
func TestMigrateOften(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, testdb.Template{})
	if err := CheckSchema(t.Context(), pool); !errors.Is(err, ErrSchema) {
		t.Errorf("an empty database: %v", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := Migrate(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := Migrate(t.Context(), pool); err != nil {
		t.Error(err)
	}
	if err := CheckSchema(t.Context(), pool); err != nil {
		t.Error(err)
	}
	var rows int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM saga.barrier_version").Scan(&rows); err != nil || rows != SchemaVersion {
		t.Errorf("%d versions recorded (%v), want %d", rows, err, SchemaVersion)
	}
}

// TestMigrateFromOlder: a database of each older version is brought up to date, and keeps its rows.
func TestMigrateFromOlder(t *testing.T) {
	t.Parallel()
	for older := 1; older < SchemaVersion; older++ {
		pool := testdb.New(t, testdb.Template{})
		for _, m := range schemaFiles()[:older] {
			if _, err := pool.Exec(t.Context(), m.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
		}
		insert, args := barrierInsert(barrierID(), barrierStates(saga.KindTCC)["tried"])
		if _, err := pool.Exec(t.Context(), insert, args...); err != nil {
			t.Fatal(err)
		}
		if err := CheckSchema(t.Context(), pool); !errors.Is(err, ErrSchema) {
			t.Errorf("version %d before: %v", older, err)
		}
		if err := errors.Join(Migrate(t.Context(), pool), CheckSchema(t.Context(), pool)); err != nil {
			t.Errorf("version %d: %v", older, err)
		}
		var rows int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM saga.barrier").Scan(&rows); err != nil || rows != 1 {
			t.Errorf("version %d: %d rows are left, %v", older, rows, err)
		}
	}
}

// TestMigrateNewer: a program that is older than the database changes nothing and says so.
func TestMigrateNewer(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	if _, err := pool.Exec(t.Context(), "INSERT INTO saga.barrier_version (version) VALUES ($1)", SchemaVersion+1); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), pool); !errors.Is(err, ErrSchema) {
		t.Errorf("Migrate: %v", err)
	}
	if err := CheckSchema(t.Context(), pool); !errors.Is(err, ErrSchema) {
		t.Errorf("CheckSchema: %v", err)
	}
}

// TestSchemaSQL: what is printed installs the same.
func TestSchemaSQL(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, testdb.Template{})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Conn().PgConn().Exec(t.Context(), SchemaSQL()).ReadAll()
	conn.Release()
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckSchema(t.Context(), pool); err != nil {
		t.Error(err)
	}
}

// TestBarrierPlans: sessions that planned while the table was small and analysed still find rows by the index.
// (Plans with a sequential scan are also priced so high that each call would be compiled first.)
func TestBarrierPlans(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, barrierTemplate)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	b := NewBarrier(pool, 0)
	scans := func() (n int) {
		const query = "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = 'saga' AND (relname = 'barrier_floor' OR relname ~ '^barrier_(w[0-9]+|rest)$')"
		if _, err := conn.Exec(t.Context(), "SELECT pg_stat_clear_snapshot()"); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	flush := func() {
		for range int(pool.Stat().MaxConns()) {
			if _, err := pool.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustExecute(t, b, barrierCommand(barrierID(), saga.PhaseTry), barrierDone(saga.PhaseTry))
	if _, err := pool.Exec(t.Context(), "ANALYZE saga.barrier, saga.barrier_floor"); err != nil {
		t.Fatal(err)
	}
	flush()
	before := scans()
	for range 8 { // the sixth plan of a statement is the one that stays
		id := barrierID()
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseTry, saga.PhaseCancel, saga.PhaseCancel} {
			mustExecute(t, b, barrierCommand(id, phase), barrierDone(phase))
		}
		id = barrierID()
		for _, phase := range []saga.Phase{saga.PhaseConfirm, saga.PhaseTry, saga.PhaseConfirm, saga.PhaseConfirm} {
			mustExecute(t, b, barrierCommand(id, phase), barrierDone(phase))
		}
		inquire := barrierCommand(id, saga.PhaseTry)
		inquire.Verb = saga.VerbInquire
		mustExecute(t, b, inquire, saga.Ran{})
		reserve := barrierCommand(barrierID(), saga.PhaseTry)
		reserve.Verb = saga.VerbReserve
		mustExecute(t, b, reserve, saga.Ran{})
		late := barrierCommand(barrierID(), saga.PhaseTry)
		late.Deadline = late.Transaction.Time()
		mustExecute(t, b, late, saga.Ran{})
	}
	flush()
	if n := scans() - before; n != 0 {
		t.Errorf("%d sequential scans", n)
	}
}
