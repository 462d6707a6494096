package participant

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Defaults of Config.
const (
	DefaultConcurrency    = 16
	DefaultHandlerTimeout = 30 * time.Second
	DefaultDrainTimeout   = 10 * time.Second
	DefaultAckWait        = bus.DefaultAckWait
	DefaultDeliveriesMax  = 5
	DefaultRetention      = 30 * 24 * time.Hour
)

// ackWaitMin leaves time for heartbeats.
const ackWaitMin = 100 * time.Millisecond

// Config says who a participant is and what it may use. Name, Pool and NATS are required.
type Config struct {
	Name string        // in subjects; all processes of one name share its commands (S1.7)
	Pool *pgxpool.Pool // of the database that holds the business data and, beside it, the barrier (Migrate)
	NATS *nats.Conn    // should reconnect for ever: nats.MaxReconnects(-1). It stays open when Run ends

	// Prefix is the first part of all subjects, as the coordinator has it; zero: "saga".
	Prefix string

	// Concurrency is how many handlers run at the same time, each with one connection of Pool; zero:
	// DefaultConcurrency, or the pool's connections if they are fewer.
	Concurrency int

	// GroupMax is how many commands that wait may be carried out in one local transaction, with one commit; at most
	// GroupMaxMax. Zero or one: none, each has its own. It is for handlers that take a few milliseconds and mostly succeed;
	// what they set for the transaction (SET LOCAL, advisory locks) lasts for the commands behind them.
	GroupMax int

	// HandlerTimeout ends the context of a handler; zero: DefaultHandlerTimeout. What it did is rolled back and
	// answered with retry. A handler that goes on for as long again, at most five seconds, is given up: its
	// connection is closed under it.
	HandlerTimeout time.Duration

	// LockTimeout is how long an operation waits for another one of its step, and the statements of its handler
	// for their locks, until it is answered with retry, code busy; zero: DefaultLockTimeout.
	LockTimeout time.Duration

	// DrainTimeout is how long Run goes on with what is in hand when its context ends; zero:
	// DefaultDrainTimeout. Then handlers' contexts end, and what is left comes again.
	DrainTimeout time.Duration

	// AckWait is after which time a command comes again that a process had and lost; zero: DefaultAckWait. All
	// processes of one name should agree. A long handler extends it.
	AckWait time.Duration

	// DeliveriesMax is how often an operation may be delivered without a reply, because its process ended each
	// time, until it is answered with the fault poison instead of run; zero: DefaultDeliveriesMax. The very first
	// delivery is not counted. The last two run while nothing else runs in the process.
	DeliveriesMax int

	// Retention is how long barrier rows are kept after the oldest transaction has ended that the coordinator still runs
	// (B7); zero: DefaultRetention; negative: for ever. All participants that share a database have to agree to forget:
	// the one that keeps its rows longest counts for all.
	Retention time.Duration

	Logger *slog.Logger         // nil: slog.Default
	Tracer trace.TracerProvider // a span for each command, child of the command's trace context; nil: none
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, bus.DefaultPrefix)
	if c.Concurrency == 0 && c.Pool != nil {
		c.Concurrency = min(DefaultConcurrency, int(c.Pool.Config().MaxConns))
	}
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, DefaultHandlerTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	c.AckWait = cmp.Or(c.AckWait, DefaultAckWait)
	c.DeliveriesMax = cmp.Or(c.DeliveriesMax, DefaultDeliveriesMax)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	if err := saga.CheckName("participant name", c.Name); err != nil {
		return fmt.Errorf("participant: %w", err)
	}
	if err := wire.CheckPrefix(c.Prefix); err != nil {
		return fmt.Errorf("participant: %w", err)
	}
	switch {
	case c.Pool == nil:
		return errors.New("participant: Config.Pool is nil; open one with pgxpool.New")
	case c.NATS == nil:
		return errors.New("participant: Config.NATS is nil; connect with nats.Connect")
	case c.Concurrency < 1:
		return fmt.Errorf("participant: Concurrency is %d; use at least 1, or 0 for the default", c.Concurrency)
	case c.Concurrency > int(c.Pool.Config().MaxConns):
		return fmt.Errorf("participant: Concurrency is %d, but the pool has only %d connections and each handler needs one; raise MaxConns of the pool or lower Concurrency",
			c.Concurrency, c.Pool.Config().MaxConns)
	case c.GroupMax < 0 || c.GroupMax > GroupMaxMax:
		return fmt.Errorf("participant: GroupMax is %d; use 2 to %d, or 0 for no groups", c.GroupMax, GroupMaxMax)
	case c.HandlerTimeout < 0 || c.LockTimeout < 0 || c.DrainTimeout < 0 || c.AckWait < 0:
		return errors.New("participant: a timeout is negative; use 0 for the default")
	case c.AckWait < ackWaitMin:
		return fmt.Errorf("participant: AckWait is %s; use %s or more, or 0 for the default", c.AckWait, ackWaitMin)
	case c.Retention >= 0 && c.Retention < retentionMin:
		return fmt.Errorf("participant: Retention is %s; use %s or more, 0 for the default, or a negative one to keep rows for ever", c.Retention, retentionMin)
	case c.DeliveriesMax < 1:
		return fmt.Errorf("participant: DeliveriesMax is %d; use at least 1, or 0 for the default", c.DeliveriesMax)
	}
	return nil
}

// grace is how long a handler may go on after its context has ended, which had so long.
func grace(limit time.Duration) time.Duration { return min(limit, 5*time.Second) }
