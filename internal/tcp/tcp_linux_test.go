package tcp_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/tcp"
	"github.com/sagacity-tx/sagacity/internal/tcp/tcptest"
)

// T2: what is dialled and what is accepted has the settings, those of the caller and the defaults.
func TestSockets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config tcp.Config
		want   tcptest.Options
	}{
		{tcp.Config{}, tcptest.Options{KeepAlive: tcp.DefaultKeepAlive, UserTimeout: tcp.DefaultUserTimeout}},
		{tcp.Config{KeepAlive: 7 * time.Second, UserTimeout: 9 * time.Second}, tcptest.Options{KeepAlive: 7 * time.Second, UserTimeout: 9 * time.Second}},
	} {
		l, err := c.config.ListenConfig().Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		dialled, err := c.config.Dialer().DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dialled.Close() })
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = accepted.Close() })
		for name, conn := range map[string]net.Conn{"dialled": dialled, "accepted": accepted} {
			if got := tcptest.OptionsOf(t, conn); got != c.want {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}

// A unix socket has none of it, and works.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	l, err := tcp.Config{}.ListenConfig().Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := tcp.Config{}.Dialer().DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, ok := conn.(syscall.Conn); !ok {
		t.Error("not a socket")
	}
}
