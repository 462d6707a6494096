package devcluster

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestStartStop(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Config{})
	pids := family(t, postmasterPid(c))
	for setting, want := range map[string]string{
		"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "listen_addresses": "",
		"server_encoding": "UTF8", "lc_collate": "C", "max_connections": "200",
	} {
		if got := query[string](t, c.DSN("postgres"), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	dsn, err := c.CreateDatabase(testContext(t), `odd "name"`)
	if err != nil {
		t.Fatal(err)
	}
	if got := query[string](t, dsn, "SELECT current_database()::text"); got != `odd "name"` {
		t.Errorf("connected to %q", got)
	}
	makeStream(t, c.NATSURL())

	for range 2 { // stopping twice is safe
		stopCluster(t, c)
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if exists(c.runtime.path) {
		t.Errorf("%s is still there", c.runtime.path)
	}
}

func TestDurableClusterKeepsFsync(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Config{Durable: true})
	if got := query[string](t, c.DSN("postgres"), "SELECT current_setting('fsync') || current_setting('full_page_writes')"); got != "onon" {
		t.Errorf("fsync and full_page_writes are %q", got)
	}
	if c.Postgres.bin.hasLibrary("pg_stat_statements") {
		if got := query[int64](t, c.DSN("postgres"), "SELECT count(*) FROM pg_settings WHERE name = 'pg_stat_statements.max'"); got != 1 {
			t.Error("pg_stat_statements is installed and not loaded")
		}
	}
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	a, b := startCluster(t, Config{}), startCluster(t, Config{})
	execSQL(t, a.DSN("postgres"), "CREATE TABLE only_in_a ()")
	if query[bool](t, b.DSN("postgres"), "SELECT to_regclass('only_in_a') IS NOT NULL") {
		t.Error("both clusters share a database")
	}
	if a.NATSURL() == b.NATSURL() {
		t.Error("both clusters share a NATS server")
	}
	stopCluster(t, a)
	if got := query[int32](t, b.DSN("postgres"), "SELECT 1::int4"); got != 1 {
		t.Error("stopping one cluster disturbs the other")
	}
}

func TestStateDirIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "state")
	c := startCluster(t, Config{Dir: dir})
	execSQL(t, c.DSN("postgres"), "CREATE TABLE kept AS SELECT 42::int4 AS n")
	makeStream(t, c.NATSURL())

	_, err := Start(testContext(t), Config{Dir: dir})
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.Holder != strconv.Itoa(os.Getpid()) {
		t.Errorf("second start on the directory: %v, want an InUseError that names this process", err)
	}
	stopCluster(t, c)

	// The id of the dead server now belongs to an unrelated process: this one.
	pidFile := filepath.Join(dir, "postgres", pidFileName)
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = startCluster(t, Config{Dir: dir})
	if got := query[int32](t, c.DSN("postgres"), "SELECT n FROM kept"); got != 42 {
		t.Errorf("read %d, want 42", got)
	}
	if !hasStream(t, c.NATSURL()) {
		t.Error("the stream is gone")
	}
	stopCluster(t, c)

	if err := os.Remove(filepath.Join(dir, "secrets.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(testContext(t), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "start afresh") {
		t.Errorf("start without the credentials: %v", err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startCluster(t, Config{Dir: dir})
	stopCluster(t, c)
	conf := filepath.Join(dir, "postgres", "postgresql.conf")
	if err := os.WriteFile(conf, []byte("no_such_setting = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(testContext(t), Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") || !strings.Contains(err.Error(), c.Postgres.LogPath()) {
		t.Errorf("the error does not show the log: %v", err)
	}
	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stopCluster(t, startCluster(t, Config{Dir: dir})) // the lock is free again
}

func TestCancelledStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	go func() {
		defer cancel()
		for !exists(filepath.Join(dir, "postgres"+initSuffix, "base")) {
			if !pause(ctx, pollInterval/4) {
				return
			}
		}
	}()
	if _, err := Start(ctx, Config{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled start", err)
	}
	if exists(filepath.Join(dir, "postgres"+initSuffix)) {
		t.Error("the unfinished data directory is still there")
	}
}

func TestNATSPortTaken(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	number, _ := strconv.Atoi(port)
	_, err = Start(testContext(t), Config{NATSPort: number})
	if err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), port) {
		t.Errorf("got %v", err)
	}
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), Config{NATSPort: 65536}); err == nil {
		t.Error("port 65536 is accepted")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a directory that others may write to: %v", err)
	}
}

func query[T any](t *testing.T, dsn, sql string) T {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var got T
	if err := conn.QueryRow(ctx, sql).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func execSQL(t *testing.T, dsn, sql string) {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func openJetStream(t *testing.T, url string) (js jetstream.JetStream, closeConn func()) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}

// makeStream makes stream S with one message on file.
func makeStream(t *testing.T, url string) {
	t.Helper()
	js, closeConn := openJetStream(t, url)
	defer closeConn()
	ctx := testContext(t)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s.1", []byte("hello")); err != nil {
		t.Fatal(err)
	}
}

// hasStream tells whether stream S exists with its one message.
func hasStream(t *testing.T, url string) bool {
	t.Helper()
	js, closeConn := openJetStream(t, url)
	defer closeConn()
	stream, err := js.Stream(testContext(t), "S")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs == 1
}
