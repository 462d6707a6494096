package participanttest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

// NATS starts a NATS server with JetStream within the test's process, and returns a connection to it. Both end with
// the test, after what the test itself has registered with Cleanup later.
func NATS(t testing.TB) *nats.Conn {
	t.Helper()
	server, err := devcluster.StartNATS(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("participanttest: %v", err)
	}
	t.Cleanup(server.Stop)
	conn, err := nats.Connect(server.URL(), nats.Name(t.Name()), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatalf("participanttest: connect to NATS: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}
