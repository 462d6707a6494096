// Package tcptest reads the settings of sockets in tests, from the kernel (T2).
package tcptest

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the settings of a TCP socket that tell when a dead peer is noticed. KeepAlive is zero if there are no
// keepalives, or if their idle time and interval differ.
type Options struct {
	KeepAlive   time.Duration
	UserTimeout time.Duration
}

// OptionsOf reads the settings of a connection, or of the one beneath it (NetConn).
func OptionsOf(t testing.TB, c net.Conn) Options {
	t.Helper()
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		t.Fatalf("%T is no socket", c)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	read := func(level, option int) (value int) {
		if controlErr := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, option) }); controlErr != nil || err != nil {
			t.Fatalf("read option %d of the socket: %v, %v", option, controlErr, err)
		}
		return value
	}
	o := Options{UserTimeout: time.Duration(read(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)) * time.Millisecond}
	idle, interval := read(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), read(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
	if read(unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 0 && idle == interval && read(unix.IPPROTO_TCP, unix.TCP_KEEPCNT) == 3 {
		o.KeepAlive = time.Duration(idle) * time.Second
	}
	return o
}
