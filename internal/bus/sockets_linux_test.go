package bus

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/tcp"
	"github.com/sagacity-tx/sagacity/internal/tcp/tcptest"
)

// T2: the kernel has the settings of the connections to NATS, those of the caller and the defaults.
func TestSocketsOfTheConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		want   tcptest.Options
	}{
		{Config{}, tcptest.Options{KeepAlive: tcp.DefaultKeepAlive, UserTimeout: tcp.DefaultUserTimeout}},
		{Config{KeepAlive: 7 * time.Second, UserTimeout: 9 * time.Second}, tcptest.Options{KeepAlive: 7 * time.Second, UserTimeout: 9 * time.Second}},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		c.config.Logger = slog.New(slog.DiscardHandler)
		options := nats.GetDefaultOptions()
		for _, o := range c.config.connOptions() {
			if err := o(&options); err != nil {
				t.Fatal(err)
			}
		}
		if options.CustomDialer == nil {
			t.Fatal("NATS dials by itself")
		}
		conn, err := options.CustomDialer.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if got := tcptest.OptionsOf(t, conn); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
		if options.FlusherTimeout != writeTimeout || options.Timeout != dialTimeout {
			t.Errorf("write timeout %s, connect timeout %s", options.FlusherTimeout, options.Timeout)
		}
	}
}
