package pgproxy_test

import (
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/pgproxy"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// Every cut leaves the client with an error that says the outcome is not known, and the server where it should
// be: nothing stored before the cut, everything after it.
func TestCuts(t *testing.T) {
	t.Parallel()
	dsn := testdb.NewDSN(t, testdb.Template{})
	direct, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
	if _, err := direct.Exec(t.Context(), "CREATE TABLE n (n int4)"); err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	through, err := pgxpool.New(t.Context(), pgproxy.Start(t, dsn, func(r pgproxy.Round) pgproxy.Cut {
		if r.Statements == 0 {
			return pgproxy.None
		}
		return pgproxy.Cut(next.Swap(0))
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.Close)
	for i, tc := range []struct {
		cut    pgproxy.Cut
		stored int
	}{{pgproxy.None, 1}, {pgproxy.Before, 0}, {pgproxy.After, 1}, {pgproxy.Middle, 1}, {pgproxy.BeforeReady, 1}} {
		next.Store(int64(tc.cut))
		var batch pgx.Batch
		batch.Queue("INSERT INTO n SELECT $1::int4", 1)
		err := through.SendBatch(t.Context(), &batch).Close()
		if cut := tc.cut != pgproxy.None; cut != (err != nil) || cut && !pg.CommitUnknown(err) {
			t.Errorf("cut %d: %v", tc.cut, err)
		}
		var n int
		if err := direct.QueryRow(t.Context(), "WITH gone AS (DELETE FROM n RETURNING 1) SELECT count(*) FROM gone").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != tc.stored {
			t.Errorf("case %d: %d rows stored, want %d", i, n, tc.stored)
		}
	}
	if err := through.Ping(t.Context()); err != nil {
		t.Errorf("the pool does not recover: %v", err)
	}
}
