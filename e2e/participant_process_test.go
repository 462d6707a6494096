package e2e

import (
	"context"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/participant"
)

// serveParticipant is what a user's main would be: the test program as a process of a participant. DATABASE_URL and
// NATS_URL say where everything is.
func serveParticipant(name string, concurrency int, register func(*participant.Participant, *pgxpool.Pool)) int {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	serve := func(ctx context.Context) error {
		pool, err := pg.Open(ctx, pg.Config{DSN: os.Getenv("DATABASE_URL"), ApplicationName: name, MaxConns: int32(concurrency)})
		if err != nil {
			return err
		}
		defer pool.Close()
		nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.MaxReconnects(-1))
		if err != nil {
			return err
		}
		defer nc.Close()
		p, err := participant.New(participant.Config{Name: name, Pool: pool, NATS: nc, Logger: log})
		if err != nil {
			return err
		}
		register(p, pool)
		return p.Run(ctx)
	}
	if err := serve(context.Background()); err != nil {
		log.Error("participant failed", "error", err)
	}
	return 1
}
