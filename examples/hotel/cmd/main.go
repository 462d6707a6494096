// Command cmd runs the hotel of the README beside "make dev": it makes its rooms and answers to the participant
// "hotel" until Ctrl-C. DATABASE_URL and NATS_URL say where.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/examples/hotel"
)

const rooms = `
CREATE TABLE IF NOT EXISTS rooms (id int PRIMARY KEY, state text NOT NULL);
INSERT INTO rooms SELECT id, 'free' FROM generate_series(1, 100) AS id ON CONFLICT DO NOTHING`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hotel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, rooms); err != nil {
		return fmt.Errorf("make the rooms: %w; set DATABASE_URL to a database of your own (beside make dev: the file env that it names sets it)", err)
	}
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w; set NATS_URL", err)
	}
	defer nc.Close()
	fmt.Fprintln(os.Stderr, "hotel: rooms 1 to 100 can be booked; press Ctrl-C to stop")
	return hotel.Run(ctx, pool, nc)
}
