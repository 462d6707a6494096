package pg

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialFunc is what pgconn dials with.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// withIOTimeout makes a dialled connection fail when one read or write takes longer than d: a server that is alive, so
// that TCP finds nothing wrong, and does not answer (T2). pgx reads only while it waits for an answer, so an idle
// connection stays.
func withIOTimeout(dial dialFunc, d time.Duration) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &timedConn{Conn: conn, timeout: d}, nil
	}
}

// timedConn bounds each read and write, and keeps an earlier deadline that somebody else sets: pgx ends what it waits for
// by one in the past when a context ends.
type timedConn struct {
	net.Conn
	timeout time.Duration

	mu          sync.Mutex
	read, write time.Time // deadlines of the user; zero: none
}

// NetConn returns the connection beneath, as that of tls.Conn does.
func (c *timedConn) NetConn() net.Conn { return c.Conn }

// Read reads within the timeout.
func (c *timedConn) Read(b []byte) (int, error) {
	if err := c.arm(&c.read, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write writes within the timeout.
func (c *timedConn) Write(b []byte) (int, error) {
	if err := c.arm(&c.write, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *timedConn) arm(users *time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(c.timeout)
	if !users.IsZero() && users.Before(deadline) {
		deadline = *users
	}
	return set(deadline)
}

// SetDeadline sets the user's deadlines.
func (c *timedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.write = t, t
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline sets the user's deadline of reads.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the user's deadline of writes.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}
