package devcluster

import (
	"context"
	"crypto/rand"
	"log/slog"
)

// StartNATS starts a NATS server with JetStream, without PostgreSQL. It keeps its store in dir, which must be empty
// and is the caller's to remove after Stop. The server's warnings and errors go to log.
func StartNATS(ctx context.Context, dir string, log *slog.Logger) (*NATS, error) {
	n := &NATS{storeDir: dir, user: "sagacity", password: rand.Text(), log: log}
	if err := n.Start(ctx); err != nil {
		return nil, err
	}
	return n, nil
}
