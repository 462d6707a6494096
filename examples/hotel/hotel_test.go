package hotel_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/examples/hotel"
	"github.com/sagacity-tx/sagacity/internal/bus"
	dbschema "github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func migrateCoordinator(ctx context.Context, dsn string) error {
	_, err := dbschema.Up(ctx, dsn)
	return err
}

// The service of the README books a room, and refuses the next one who wants it.
func TestHotel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rooms := testdb.New(t, testdb.Template{})
	if _, err := rooms.Exec(ctx, `CREATE TABLE rooms (id int PRIMARY KEY, state text NOT NULL); INSERT INTO rooms VALUES (7, 'free')`); err != nil {
		t.Fatal(err)
	}
	nc := testdb.NATS(t)
	c := startCoordinator(t, testdb.New(t, testdb.Template{Name: "coordinator", Migrate: migrateCoordinator}))
	hotelCtx, stopHotel := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- hotel.Run(hotelCtx, rooms, nc) }()
	defer func() {
		stopHotel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}()
	body, err := os.ReadFile("stay.json") // as the README submits it
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []saga.Status{saga.StatusCommitted, saga.StatusCancelled} {
		caller := coordinator.Caller{Tenant: "default", Client: "test"}
		_, v, err := c.SubmitAndWait(ctx, ctx, coordinator.SubmitParams{Caller: caller, Body: body})
		if err != nil || v.Status != want {
			t.Fatalf("got %s, %v; want %s", v.Status, err, want)
		}
	}
	var state string
	if err := rooms.QueryRow(ctx, `SELECT state FROM rooms WHERE id = 7`).Scan(&state); err != nil || state != "booked" {
		t.Errorf("the room is %s, %v", state, err)
	}
}

func startCoordinator(t *testing.T, pool *pgxpool.Pool) *coordinator.Coordinator {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b, err := bus.New(testdb.NATS(t), bus.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, Publisher: b, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	c, err := coordinator.New(coordinator.Config{Pool: pool, Bus: b, Relay: relay, Log: log, Lanes: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- relay.Run(ctx) }()
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		b.Close()
	})
	return c
}
