package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/examples/gateway"
	"github.com/sagacity-tx/sagacity/internal/bus"
	dbschema "github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

func migrateCoordinator(ctx context.Context, dsn string) error {
	_, err := dbschema.Up(ctx, dsn)
	return err
}

// run runs something until the end of the test.
func run(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}

func startCoordinator(t *testing.T, pool *pgxpool.Pool, prefix string) *coordinator.Coordinator {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b, err := bus.New(testdb.NATS(t), bus.Config{Prefix: prefix, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	relay, err := outbox.NewRelay(outbox.Config{Pool: pool, Publisher: b, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	c, err := coordinator.New(coordinator.Config{Pool: pool, Bus: b, Relay: relay, Log: log, Lanes: 2})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "relay", relay.Run)
	run(t, "coordinator", c.Run)
	return c
}

// U1, U4: a whole transaction whose payment's answer was lost. With an inquiry it succeeds with one effect; with
// nothing to find out by, its result is unknown and waits for a person, who sees that it was charged.
func TestTransaction(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inquire bool
		result  saga.Result
	}{"with inquiry": {true, saga.ResultSucceeded}, "without": {false, saga.ResultUnknown}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			g := &gateway.Gateway{CanInquire: test.inquire, CanVoid: true}
			server := httptest.NewServer(g)
			t.Cleanup(server.Close)
			prefix := testdb.Prefix(t)
			c := startCoordinator(t, testdb.New(t, testdb.Template{Name: "coordinator", Migrate: migrateCoordinator}), prefix)
			p, err := participant.New(participant.Config{
				Name: "payments", Pool: testdb.New(t, schema), NATS: testdb.NATS(t), Prefix: prefix, HandlerTimeout: handlerTimeout,
				Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			participant.Handle(p, "charge", adapt(gateway.Payments{URL: server.URL, HTTP: server.Client()}.Charge(), g))
			run(t, "participant", p.Run)

			g.Lose(gateway.After)
			def := saga.Define("order").Saga("pay", "payments", "charge").MustBuild()
			body, err := json.Marshal(map[string]any{"definition": json.RawMessage(def.JSON()), "input": good})
			if err != nil {
				t.Fatal(err)
			}
			caller := coordinator.Caller{Tenant: "default", Client: "test"}
			s, err := c.Submit(ctx, coordinator.SubmitParams{Caller: caller, Body: body})
			if err != nil {
				t.Fatal(err)
			}
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			var v coordinator.View
			for v.Result != test.result {
				select {
				case <-tick.C:
				case <-ctx.Done():
					t.Fatalf("the result is %s: %+v", v.Result, v)
				}
				if v, err = c.Get(ctx, caller, s.ID); err != nil {
					t.Fatal(err)
				}
			}
			key := saga.OperationKey{Tenant: "default", Transaction: s.ID, Step: "pay", Phase: saga.PhaseTry}
			charged, refunded := g.Effects(key.String())
			if charged != 1 || refunded != 0 || v.Suspended != (test.result == saga.ResultUnknown) {
				t.Errorf("charged %d times, refunded %d times; %+v", charged, refunded, v)
			}
		})
	}
}
