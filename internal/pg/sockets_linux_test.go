package pg_test

import (
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/internal/tcp/tcptest"
)

// T2: the kernel has the settings of the connections to PostgreSQL, those of the caller and the defaults.
func TestSocketsOfThePool(t *testing.T) {
	for _, c := range []struct {
		config pg.Config
		want   tcptest.Options
	}{
		{pg.Config{}, tcptest.Options{KeepAlive: pg.DefaultKeepAlive, UserTimeout: pg.DefaultUserTimeout}},
		{pg.Config{KeepAlive: 7 * time.Second, UserTimeout: 9 * time.Second}, tcptest.Options{KeepAlive: 7 * time.Second, UserTimeout: 9 * time.Second}},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		var pool *pgxpool.Config
		c.config.DSN = "postgres://u@" + l.Addr().String() + "/db?sslmode=disable"
		c.config.ConnectTimeout = 500 * time.Millisecond // nobody answers here: only what would be dialled counts
		c.config.Customize = func(pc *pgxpool.Config) { pool = pc }
		if _, err := pg.Open(t.Context(), c.config); err == nil {
			t.Fatal("Open of a silent server succeeded")
		}
		conn, err := pool.ConnConfig.DialFunc(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if got := tcptest.OptionsOf(t, conn); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
