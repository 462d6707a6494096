package pg_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// T2: an answer that takes longer than the timeout is waited for no more. Whether the statement happened is not known, and
// the pool goes on with another connection. A context still ends a wait before that.
func TestIOTimeout(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		context time.Duration
	}{
		{"silence", 300 * time.Millisecond, time.Minute},
		{"context", time.Minute, 300 * time.Millisecond},
	} {
		pool, err := pg.Open(t.Context(), pg.Config{DSN: testdb.NewDSN(t, testdb.Template{}), MaxConns: 1, IOTimeout: c.timeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		ctx, cancel := context.WithTimeout(t.Context(), c.context)
		began := time.Now()
		_, err = pool.Exec(ctx, `SELECT pg_sleep(60)`)
		cancel()
		if took := time.Since(began); err == nil || took < 200*time.Millisecond || took > 20*time.Second {
			t.Errorf("%s: %v after %s", c.name, err, took)
		}
		if !pg.CommitUnknown(err) {
			t.Errorf("%s: not taken for unknown: %v", c.name, err)
		}
		if err := pool.Ping(t.Context()); err != nil {
			t.Errorf("%s: the pool does not recover: %v", c.name, err)
		}
	}
}

// A deadline of the user holds although each read sets another one, in the past too; without one it is the timeout.
func TestIOTimeoutKeepsDeadlines(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const timeout = 2 * time.Second // much more than a busy machine needs for a read that is over before it begins
	var pool *pgxpool.Config
	_, _ = pg.Open(t.Context(), pg.Config{
		DSN: "postgres://u@" + l.Addr().String() + "/db?sslmode=disable", ConnectTimeout: time.Second, IOTimeout: timeout,
		Customize: func(pc *pgxpool.Config) { pool = pc },
	})
	conn, err := pool.ConnConfig.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read := func() time.Duration {
		began := time.Now()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		return time.Since(began)
	}
	if took := read(); took < timeout-timeout/4 {
		t.Errorf("a read without a deadline took %s", took)
	}
	for _, set := range []func(time.Time) error{conn.SetDeadline, conn.SetReadDeadline} {
		if err := set(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		if took := read(); took > timeout-timeout/4 {
			t.Errorf("a read after its deadline took %s", took)
		}
		if err := set(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write after its deadline: %v", err)
	}
}
