package outbox_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/devcluster"
	"github.com/sagacity-tx/sagacity/internal/migrate"
	migrations "github.com/sagacity-tx/sagacity/migrations/outbox"
	"github.com/sagacity-tx/sagacity/outbox"
)

// A service changes its own table and starts a transaction, both or neither: the submission travels
// through the service's outbox to the coordinator.
func Example_submit() {
	ctx, cancel := context.WithCancel(context.Background())
	pool, nc, done := exampleService(ctx, cancel)
	defer done()

	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, NATS: nc})
	exampleCheck(err)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()

	var entries []outbox.Entry
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, state) VALUES (7, 'paying')"); err != nil {
			return err
		}
		entries, err = outbox.Insert(ctx, tx, outbox.Message{
			Subject: "saga.submit.shop", // the tenant is shop
			Header:  map[string][]string{"Content-Type": {"application/json"}},
			Data:    []byte(`{"definition":"payment","input":{"order":7}}`),
		})
		return err
	})
	exampleCheck(err)
	relay.HandOff(entries...) // sooner than the relay's poll would find it

	fmt.Println(exampleReceive(ctx, nc, "SAGA_SUBMIT"))
	cancel()
	exampleCheck(<-ended)
	// Output: saga.submit.shop {"definition":"payment","input":{"order":7}}
}

// A service publishes an event of its own, on a stream of its own.
func Example_event() {
	ctx, cancel := context.WithCancel(context.Background())
	pool, nc, done := exampleService(ctx, cancel)
	defer done()

	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, NATS: nc})
	exampleCheck(err)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()

	var entries []outbox.Entry
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, "UPDATE orders SET state = 'shipped' WHERE id = 1"); err != nil {
			return err
		}
		entries, err = outbox.Insert(ctx, tx, outbox.Message{
			Subject: "orders.shipped",
			Header:  map[string][]string{"Nats-Msg-Id": {"order-1-shipped"}},
			Data:    []byte(`{"order":1}`),
		})
		return err
	})
	exampleCheck(err)
	relay.HandOff(entries...)

	fmt.Println(exampleReceive(ctx, nc, "ORDERS"))
	cancel()
	exampleCheck(<-ended)
	// Output: orders.shipped {"order":1}
}

// exampleService has a database with the tables orders and outbox, a connection to NATS, and the streams
// of the coordinator and of the service.
func exampleService(ctx context.Context, cancel context.CancelFunc) (*pgxpool.Pool, *nats.Conn, func()) {
	cluster, err := devcluster.Start(ctx, devcluster.Config{})
	exampleCheck(err)
	dsn, err := cluster.CreateDatabase(ctx, "shop")
	exampleCheck(err)
	_, err = migrate.Up(ctx, dsn, migrations.FS, "outbox")
	exampleCheck(err)
	pool, err := pgxpool.New(ctx, dsn)
	exampleCheck(err)
	_, err = pool.Exec(ctx, "CREATE TABLE orders (id int PRIMARY KEY, state text); INSERT INTO orders VALUES (1, 'packed')")
	exampleCheck(err)
	nc, err := nats.Connect(cluster.NATSURL(), nats.MaxReconnects(-1))
	exampleCheck(err)
	b, err := bus.New(nc, bus.Config{Logger: quiet})
	exampleCheck(err)
	exampleCheck(b.EnsureStreams(ctx))
	b.Close()
	js, err := jetstream.New(nc)
	exampleCheck(err)
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	exampleCheck(err)
	return pool, nc, func() {
		cancel()
		nc.Close()
		pool.Close()
		exampleCheck(cluster.Stop(context.Background()))
	}
}

// exampleReceive takes one message from a stream.
func exampleReceive(ctx context.Context, nc *nats.Conn, stream string) string {
	js, err := jetstream.New(nc)
	exampleCheck(err)
	consumer, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	exampleCheck(err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
	exampleCheck(err)
	exampleCheck(msg.DoubleAck(ctx))
	return msg.Subject() + " " + string(msg.Data())
}

func exampleCheck(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		panic(err)
	}
}
