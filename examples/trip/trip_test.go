package trip_test

import (
	"errors"
	"os"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/examples/trip"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// The JSON form beside the Go form is the same definition.
func TestDefinitionFile(t *testing.T) {
	file, err := os.ReadFile("trip.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := saga.ParseSubmission(file, saga.ParseDefinition)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.Definition.JSON()), string(trip.Definition.JSON()); got != want {
		t.Errorf("the file is\n%s\nthe program is\n%s", got, want)
	}
}

func TestTrip(t *testing.T) {
	w := newWorld(t)
	testBook(t, w)
	testOrder(t, w)
}

// One transaction with a step of every kind commits as a whole; one that the pivot refuses leaves nothing (M8).
func testBook(t *testing.T, w *world) {
	t.Helper()
	for _, c := range []struct {
		order, owner string
		room         int
		seat         string
		want         saga.Result
	}{
		{"order-1", "rich", 1, "1A", saga.ResultSucceeded},
		{"order-2", "poor", 2, "1B", saga.ResultFailed},
		{"order-1", "rich", 1, "1A", saga.ResultSucceeded}, // again: nothing new
	} {
		got, err := trip.Book(w.ctx, w.client, c.order, trip.Inputs(c.room, c.seat, c.owner, 500))
		if err != nil || got != c.want {
			t.Fatalf("%s: got %s, %v; want %s", c.order, got, err, c.want)
		}
	}
	w.wantText(w.rooms, `SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM rooms`, "1 booked, 2 free, 3 free")
	w.wantText(w.seats, `SELECT string_agg(id || ' ' || state || ' ' || (receipt IS NOT NULL), ', ' ORDER BY id) FROM seats`, "1A sold true, 1B free false, 1C free false")
	w.wantText(w.wallets, `SELECT string_agg(owner || ' ' || cents, ', ' ORDER BY owner) FROM wallets`, "poor 1, rich 500")

	tx, err := w.client.FindByRequest(w.ctx, "order-2")
	if err != nil || tx.Cause == nil || tx.Cause.Why != saga.WhyRefused || tx.Cause.Step != "pay" || tx.Cause.Code != "insufficient_funds" {
		t.Errorf("got %+v, %v", tx.Cause, err)
	}
	var p *client.Problem
	_, err = trip.Book(w.ctx, w.client, "order-1", trip.Inputs(2, "1B", "rich", 1))
	if !errors.As(err, &p) || p.Code != client.CodeKeyReused {
		t.Errorf("the key with other content: %v", err)
	}
}

// A submission through a service's outbox commits with the service's own change, and a copy starts nothing new.
func testOrder(t *testing.T, w *world) {
	t.Helper()
	relay, err := outbox.NewRelay(outbox.Config{Pool: w.orders, NATS: w.nc, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	w.run("relay", relay.Run)
	inputs := trip.Inputs(3, "1C", "rich", 500)
	if err := trip.Order(w.ctx, w.orders, relay, "order-1", inputs); err != nil {
		t.Fatal(err)
	}
	if err := trip.Order(w.ctx, w.orders, relay, "order-1", inputs); err == nil {
		t.Error("a second order with the same id was stored")
	}
	w.exec(w.orders, `DELETE FROM orders`) // as if the service had lost its memory
	if err := trip.Order(w.ctx, w.orders, relay, "order-1", inputs); err != nil {
		t.Fatal(err)
	}
	caller := coordinator.Caller{Tenant: "default", Client: "nats"}
	for {
		v, err := w.coordinator.FindByRequest(w.ctx, caller, "order-1")
		if err == nil {
			v, err = w.coordinator.Wait(w.ctx, caller, v.ID)
			if err != nil || v.Status != saga.StatusCommitted {
				t.Fatalf("got %s, %v", v.Status, err)
			}
			break
		}
		if !errors.Is(err, coordinator.ErrNotFound) {
			t.Fatal(err)
		}
		w.tick()
	}
	for w.text(w.orders, `SELECT count(*)::text FROM outbox`) != "0" {
		w.tick()
	}
	w.wantText(w.database, `SELECT count(*)::text FROM transactions WHERE client = 'nats'`, "1")
	w.wantText(w.wallets, `SELECT cents::text FROM wallets WHERE owner = 'rich'`, "0")
}
