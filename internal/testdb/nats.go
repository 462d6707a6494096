package testdb

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// NATS returns a connection to the package's NATS server, closed at the end of the
// test. It reconnects for as long as the test runs.
func NATS(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	opts = append([]nats.Option{
		nats.Name(t.Name()),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
	}, opts...)
	conn, err := nats.Connect(Cluster(t).NATSURL(), opts...)
	if err != nil {
		t.Fatalf("testdb: connect to NATS: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// Prefix returns a token that no other call in the package returns: valid as the
// first token of a subject and as part of a stream or consumer name.
func Prefix(t testing.TB) string {
	t.Helper()
	return uniqueName(t)
}
