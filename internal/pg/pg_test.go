package pg_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/fault"
	"github.com/sagacity-tx/sagacity/internal/fault/pgfault"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{DSN: testdb.NewDSN(t, testdb.Template{}), ApplicationName: "pg test", MaxConns: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestOpen(t *testing.T) {
	pool := open(t)
	var name string
	if err := pool.QueryRow(t.Context(), "SHOW application_name").Scan(&name); err != nil || name != "pg test" {
		t.Errorf("application_name is %q, %v", name, err)
	}
	if got := pool.Config().MaxConns; got != 3 {
		t.Errorf("max conns is %d", got)
	}
}

func TestOpenSaysWhatItCouldNotReach(t *testing.T) {
	_, err := pg.Open(t.Context(), pg.Config{DSN: "postgres://u:secret@127.0.0.1:1/db?sslmode=disable"})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open: %v", err)
	}
	// A server that accepts and says nothing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = pg.Open(t.Context(), pg.Config{
		DSN: "postgres://u@" + l.Addr().String() + "/db?sslmode=disable", ConnectTimeout: 50 * time.Millisecond,
	})
	if err == nil {
		t.Error("Open of a silent server succeeded")
	}
}

func TestOpenChecksItsConfig(t *testing.T) {
	for name, c := range map[string]pg.Config{
		"dsn":      {DSN: "postgres://u:secret@h:port/db"},
		"conns":    {MaxConns: -1},
		"idle":     {MaxConns: 1, MinIdleConns: 2},
		"negative": {UserTimeout: -1},
	} {
		if _, err := pg.Open(t.Context(), c); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	pool := open(t)
	ctx := t.Context()
	if _, err := pool.Exec(ctx, "CREATE TABLE x (id int CONSTRAINT one_x UNIQUE DEFERRABLE INITIALLY DEFERRED)"); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO x VALUES (1), (1)")
		return err // the commit fails, with a definite answer
	})
	if !pg.IsUnique(err, "one_x") || !pg.IsUnique(err, "") || pg.IsUnique(err, "other") || pg.CommitUnknown(err) ||
		pg.Code(err) != pg.CodeUniqueViolation || pg.IsRetryable(err) {
		t.Errorf("unique violation at commit: %v", err)
	}
	if pg.Code(errors.New("x")) != "" || pg.IsUnique(nil, "") {
		t.Error("an error of another origin has a code")
	}
}

func TestCommitUnknown(t *testing.T) {
	pool := open(t)
	begin := func(t *testing.T) pgx.Tx {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	// A commit that waits on an advisory lock, so that something can happen to it on the way.
	if _, err := pool.Exec(t.Context(), `
		CREATE TABLE slow (id int);
		CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`); err != nil {
		t.Fatal(err)
	}
	midway := func(t *testing.T, happens func(pid uint32, cancel context.CancelFunc)) error {
		holder := begin(t)
		if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)"); err != nil {
			t.Fatal(err)
		}
		tx := begin(t)
		if _, err := tx.Exec(t.Context(), "INSERT INTO slow VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		pid := tx.Conn().PgConn().PID()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- tx.Commit(ctx) }()
		for waits := false; !waits; {
			if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", pid).Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		happens(pid, cancel)
		return <-result
	}
	t.Run("session ended midway", func(t *testing.T) {
		err := midway(t, func(pid uint32, _ context.CancelFunc) {
			if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
				t.Error(err)
			}
		})
		if !pg.CommitUnknown(err) {
			t.Errorf("Commit: %v", err)
		}
	})
	t.Run("context over midway", func(t *testing.T) {
		err := midway(t, func(_ uint32, cancel context.CancelFunc) { cancel() })
		if !pg.CommitUnknown(err) {
			t.Errorf("Commit: %v", err)
		}
	})
	t.Run("context over before", func(t *testing.T) {
		tx := begin(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := tx.Commit(ctx); err == nil || pg.CommitUnknown(err) {
			t.Errorf("Commit: %v", err)
		}
	})
	t.Run("rolled back instead", func(t *testing.T) {
		tx := begin(t)
		if _, err := tx.Exec(t.Context(), "SELECT 1/0"); err == nil {
			t.Fatal("no error")
		}
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) || pg.CommitUnknown(err) {
			t.Errorf("Commit: %v", err)
		}
	})
	t.Run("no connection", func(t *testing.T) {
		_, err := pgx.Connect(t.Context(), "postgres://u@127.0.0.1:1/db?sslmode=disable")
		if err == nil || pg.CommitUnknown(err) {
			t.Errorf("Connect: %v", err)
		}
	})
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":          {nil, false},
		"deadline":     {fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		"broken":       {errors.New("unexpected EOF"), true},
		"shutdown":     {&pgconn.PgError{Severity: "ERROR", Code: "57P01"}, true},
		"fatal":        {&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "53300"}, true},
		"unknown":      {&pgconn.PgError{Code: "40003"}, true},
		"connection":   {&pgconn.PgError{Code: "08006"}, true},
		"deadlock":     {&pgconn.PgError{Code: pg.CodeDeadlockDetected}, false},
		"disk full":    {&pgconn.PgError{Severity: "ERROR", Code: "53100"}, false},
		"transient tx": {pgx.ErrTxClosed, false},
	} {
		if got := pg.CommitUnknown(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !pg.IsRetryable(&pgconn.PgError{Code: pg.CodeDeadlockDetected}) {
		t.Error("a deadlock is not retryable")
	}
}

// What cannot be parsed may be a password as a whole, or have one in a place where it looks like something else.
func TestBrokenDSNsAreNotShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, dsn := range []string{
		secret, "postgres://u:" + secret + "/x@host/db", "postgres://u:" + secret + "#x@host:port/db", "postgres://" + secret + "@[::1/db",
		"host=127.0.0.1 password=" + secret + " port=x", "host='" + secret, "port=" + secret, "postgres://h/db?sslmode=" + secret,
		"postgres://h/db?connect_timeout=" + secret, "`: " + secret, "::" + secret,
	} {
		_, err := pg.Open(t.Context(), pg.Config{DSN: dsn})
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "the database URL is not valid: ") {
			t.Errorf("%q: got %v", dsn, err)
		}
		if err == nil || pgfault.CauseOf(err) != fault.Setup {
			t.Errorf("%q: the cause is %q", dsn, pgfault.CauseOf(err))
		}
	}
}
