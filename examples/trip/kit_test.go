package trip_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/examples/hotel"
	"github.com/sagacity-tx/sagacity/examples/trip"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/migrate"
	dbschema "github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	outboxsql "github.com/sagacity-tx/sagacity/migrations/outbox"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/participant"
)

var log = slog.New(slog.DiscardHandler)

func migrateOutbox(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn, outboxsql.FS, "outbox")
	return err
}

func migrateCoordinator(ctx context.Context, dsn string) error {
	_, err := dbschema.Up(ctx, dsn)
	return err
}

// world runs a coordinator with its API and the three services, each with a database of its own.
type world struct {
	t           *testing.T
	ctx         context.Context
	nc          *nats.Conn
	database    *pgxpool.Pool // of the coordinator
	rooms       *pgxpool.Pool
	seats       *pgxpool.Pool
	wallets     *pgxpool.Pool
	orders      *pgxpool.Pool
	coordinator *coordinator.Coordinator
	client      *client.Client
	life        context.Context // of all that runs
	running     *sync.WaitGroup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	life, end := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, life: life, running: &sync.WaitGroup{}, nc: testdb.NATS(t)}
	w.database = testdb.New(t, testdb.Template{Name: "coordinator", Migrate: migrateCoordinator})
	w.rooms = w.open(`CREATE TABLE rooms (id int PRIMARY KEY, state text NOT NULL); INSERT INTO rooms VALUES (1, 'free'), (2, 'free'), (3, 'free')`)
	w.seats = w.open(`CREATE TABLE seats (id text PRIMARY KEY, state text NOT NULL DEFAULT 'free', holder text, receipt text);
		INSERT INTO seats VALUES ('1A'), ('1B'), ('1C')`)
	w.wallets = w.open(`CREATE TABLE wallets (owner text PRIMARY KEY, cents bigint NOT NULL, closing boolean NOT NULL DEFAULT false);
		INSERT INTO wallets VALUES ('rich', 1000), ('poor', 1)`)
	w.orders = testdb.New(t, testdb.Template{Name: "orders", Migrate: migrateOutbox})
	w.exec(w.orders, `CREATE TABLE orders (id text PRIMARY KEY)`)
	b, err := bus.New(w.nc, bus.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	t.Cleanup(func() {
		end()
		w.running.Wait()
		cancel()
	})
	w.startCoordinator(b)
	w.run("hotel", func(ctx context.Context) error { return hotel.Run(ctx, w.rooms, w.nc) })
	w.serve("airline", w.seats, trip.HandleAirline)
	w.serve("wallet", w.wallets, trip.HandleWallet)
	return w
}

func (w *world) startCoordinator(b *bus.Bus) {
	w.t.Helper()
	relay, err := outbox.NewRelay(outbox.Config{Pool: w.database, Publisher: b, Logger: log})
	if err != nil {
		w.t.Fatal(err)
	}
	w.coordinator, err = coordinator.New(coordinator.Config{Pool: w.database, Bus: b, Relay: relay, Log: log, Lanes: 2})
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewServer(api.New(api.Config{Coordinator: w.coordinator, Authenticate: api.Loopback(), Log: log}))
	w.t.Cleanup(server.Close)
	w.run("relay", relay.Run)
	w.run("coordinator", w.coordinator.Run)
	if w.client, err = client.New(server.URL, client.Options{HTTPClient: server.Client()}); err != nil {
		w.t.Fatal(err)
	}
}

// run runs something until the end of the test.
func (w *world) run(name string, f func(context.Context) error) {
	w.running.Go(func() {
		if err := f(w.life); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
	})
}

func (w *world) serve(name string, pool *pgxpool.Pool, handle func(*participant.Participant)) {
	w.t.Helper()
	if err := participant.Migrate(w.ctx, pool); err != nil {
		w.t.Fatal(err)
	}
	p, err := participant.New(participant.Config{Name: name, Pool: pool, NATS: w.nc, Logger: log})
	if err != nil {
		w.t.Fatal(err)
	}
	handle(p)
	w.run(name, p.Run)
}

func (w *world) open(sql string) *pgxpool.Pool {
	w.t.Helper()
	pool := testdb.New(w.t, testdb.Template{})
	w.exec(pool, sql)
	return pool
}

func (w *world) exec(pool *pgxpool.Pool, sql string) {
	w.t.Helper()
	if _, err := pool.Exec(w.ctx, sql); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) text(pool *pgxpool.Pool, sql string) string {
	w.t.Helper()
	var s string
	if err := pool.QueryRow(w.ctx, sql).Scan(&s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) wantText(pool *pgxpool.Pool, sql, want string) {
	w.t.Helper()
	if got := w.text(pool, sql); got != want {
		w.t.Errorf("%s: got %s, want %s", sql, got, want)
	}
}

// tick waits a moment, for what nothing announces.
func (w *world) tick() {
	w.t.Helper()
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
		w.t.Fatal(w.ctx.Err())
	}
}
