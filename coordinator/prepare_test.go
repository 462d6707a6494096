package coordinator_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
	"github.com/sagacity-tx/sagacity/saga"
)

// A coordinator does not end because its database or its NATS restarts just when it begins (M1).
func TestBeginsWhenOthersAreBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		stop func(*devcluster.Cluster) error
		back func(context.Context, *devcluster.Cluster) error
	}{
		{
			"NATS", func(c *devcluster.Cluster) error { c.NATS.Stop(); return nil },
			func(ctx context.Context, c *devcluster.Cluster) error { return c.NATS.Start(ctx) },
		},
		{
			"PostgreSQL", func(c *devcluster.Cluster) error { return c.Postgres.Stop(t.Context()) },
			func(ctx context.Context, c *devcluster.Cluster) error { return c.Postgres.Start(ctx) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, cluster := ownCluster(t)
			waits := make(signal, 1)
			w.log = slog.New(slog.NewTextHandler(waits, nil))
			c, relay := w.unstarted()
			if err := test.stop(cluster); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			go func() { ended <- c.Run(ctx) }()
			go func() { ended <- relay.Run(ctx) }()
			defer func() { cancel(); <-ended; <-ended }()
			select {
			case <-waits:
			case err := <-ended:
				ended <- err
				t.Fatalf("it has ended: %v", err)
			case <-time.After(20 * time.Second):
				t.Fatal("it does not say that it waits")
			}
			if err := test.back(context.WithoutCancel(ctx), cluster); err != nil {
				t.Fatal(err)
			}
			w.participant("stock", func(saga.Command) saga.Ran { return saga.Ran{Outcome: saga.OutcomeDone} })
			def := saga.Define("order").Saga("s1", "stock", "reserve", quick...).MustBuild()
			if v := w.wait(c, w.submit(c, def, "")); v.Status != saga.StatusCommitted {
				t.Errorf("got %s, %+v", v.Status, v.Cause)
			}
		})
	}
}

// signal gets a value when a coordinator logs that it waits.
type signal chan struct{}

func (s signal) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "cannot begin yet") {
		select {
		case s <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}
