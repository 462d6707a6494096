package devcluster

import (
	"syscall"
	"testing"
)

func TestRestartPostgres(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Config{})
	dsn := c.DSN("postgres")
	execSQL(t, dsn, "CREATE TABLE n (n int4)")
	rows := int64(0)
	for _, mode := range []StopMode{Fast, Immediate} {
		execSQL(t, dsn, "INSERT INTO n VALUES (1)")
		rows++
		done, before := c.Postgres.Done(), postmasterPid(c)
		if err := c.Postgres.Restart(testContext(t), mode); err != nil {
			t.Fatal(err)
		}
		<-done
		if postmasterPid(c) == before || c.DSN("postgres") != dsn {
			t.Errorf("%s: same process or another DSN", mode)
		}
		if got := query[int64](t, dsn, "SELECT count(*) FROM n"); got != rows {
			t.Errorf("%s: %d rows, want %d", mode, got, rows)
		}
	}
	for range 2 {
		if err := c.Postgres.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	<-c.Postgres.Done()
	for range 2 {
		if err := c.Postgres.Start(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got := query[int64](t, dsn, "SELECT count(*) FROM n"); got != rows {
		t.Errorf("%d rows, want %d", got, rows)
	}
}

func TestPostgresThatDiesStartsAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Config{})
	execSQL(t, c.DSN("postgres"), "CREATE TABLE kept ()")
	pids := family(t, postmasterPid(c))
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Postgres.Done()
	for _, pid := range pids {
		eventually(t, "the killed server's processes are gone", func() bool { return gone(pid) })
	}
	if err := c.Postgres.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if !query[bool](t, c.DSN("postgres"), "SELECT to_regclass('kept') IS NOT NULL") {
		t.Error("the table is gone")
	}
}

func TestRestartNATS(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Config{})
	url := c.NATSURL()
	makeStream(t, url)
	if err := c.NATS.WipeStore(); err == nil {
		t.Error("the store of a running server is wiped")
	}
	restart := func() {
		for range 2 {
			if err := c.NATS.Start(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		if c.NATSURL() != url {
			t.Error("another URL after the restart")
		}
	}
	c.NATS.Stop()
	c.NATS.Stop()
	restart()
	if !hasStream(t, url) {
		t.Error("the stream is gone after a restart")
	}
	c.NATS.Stop()
	if err := c.NATS.WipeStore(); err != nil {
		t.Fatal(err)
	}
	restart()
	if hasStream(t, url) {
		t.Error("the stream is still there after a wipe")
	}
}
