package coordinator

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/outbox"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// Config says what a coordinator works with. Pool, Bus and Relay are required; every other zero value means
// its default.
type Config struct {
	Pool  *pgxpool.Pool // the coordinator's database, migrated
	Bus   *bus.Bus
	Relay *outbox.Relay // of the same database; run by the caller
	Log   *slog.Logger  // default: slog.Default()

	Lanes           int                  // concurrent batches; default: one for two cores, 1 to 8: fewer gather more
	BatchMax        int                  // events in one commit; default 512
	QueueMax        int                  // events that wait for a lane; default 4096
	CacheMax        int                  // transactions that a lane keeps in memory; default 20,000
	CacheBytesMax   int                  // of those, estimated; default 64 MiB
	TimerInterval   time.Duration        // between looks at what is due; default 100ms
	TimerBatchMax   int                  // transactions woken at a time; default 1,000
	ReplyShards     int                  // so many coordinators get replies apart from each other; the same for all; default 8
	RepliesInFlight int                  // replies of a shard taken from NATS and not yet committed; default 8,192
	Flow            flow.Policy          // bounds what is sent to each participant; see its defaults
	Admission       flow.AdmissionPolicy // bounds the submissions that are taken; see its defaults (R3)
	AutoPause       int                  // dead letters of one action and cause in a minute, above which it is paused; default 100, negative: never (E2)
	Events          EventsMode           // which lifecycle events are published; default EventsExceptions
	Webhooks        notify.Config        // how webhooks are told; Pool and Log are the coordinator's (E5)
	Retention       Retention            // what is forgotten and when; see its defaults (S1.3, I-10)
	ApproveAll      bool                 // every replay needs an approval, not only that of what is unknown or in conflict (D4)
	AllowEdit       bool                 // operators may replay with another input what has never run (S1.5)
	ApprovalExpiry  time.Duration        // of an approval that says nothing else; default 15m, at most 24h
	StopTimeout     time.Duration        // for what is in hand when Run is asked to end; default 20s
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Lanes = cmp.Or(c.Lanes, min(max(1, runtime.GOMAXPROCS(0)/2), 8))
	c.BatchMax = cmp.Or(c.BatchMax, 512)
	c.QueueMax = cmp.Or(c.QueueMax, 4096)
	c.CacheMax = cmp.Or(c.CacheMax, 20_000)
	c.CacheBytesMax = cmp.Or(c.CacheBytesMax, 64<<20)
	c.TimerInterval = cmp.Or(c.TimerInterval, 100*time.Millisecond)
	c.TimerBatchMax = cmp.Or(c.TimerBatchMax, 1000)
	c.ReplyShards = cmp.Or(c.ReplyShards, 8)
	c.RepliesInFlight = cmp.Or(c.RepliesInFlight, 8192)
	c.AutoPause = cmp.Or(c.AutoPause, DefaultAutoPause)
	c.Events = cmp.Or(c.Events, EventsExceptions)
	c.StopTimeout = cmp.Or(c.StopTimeout, 20*time.Second)
	return c
}

func (c Config) validate() error {
	if c.Pool == nil || c.Bus == nil || c.Relay == nil {
		return fmt.Errorf("coordinator: Pool, Bus and Relay are required")
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"Lanes", c.Lanes},
		{"BatchMax", c.BatchMax},
		{"QueueMax", c.QueueMax},
		{"CacheMax", c.CacheMax},
		{"CacheBytesMax", c.CacheBytesMax},
		{"TimerBatchMax", c.TimerBatchMax},
		{"ReplyShards", c.ReplyShards},
		{"RepliesInFlight", c.RepliesInFlight},
		{"TimerInterval", int(c.TimerInterval)},
		{"StopTimeout", int(c.StopTimeout)},
	} {
		if n.value < 0 {
			return fmt.Errorf("coordinator: %s is %d; give a positive number, or 0 for the default", n.name, n.value)
		}
	}
	if !slices.Contains(EventsModes, c.Events) {
		return fmt.Errorf("coordinator: Events is %q; use one of %q", c.Events, EventsModes)
	}
	_, expiry := saga.ApprovalExpiry(c.ApprovalExpiry, 0)
	for _, err := range []error{c.Flow.Validate(), c.Admission.Validate(), c.Retention.Validate(), expiry} {
		if err != nil {
			return fmt.Errorf("coordinator: %w", err)
		}
	}
	if int(c.Pool.Config().MaxConns) < c.Lanes+2 {
		return fmt.Errorf("coordinator: the pool has %d connections for %d lanes; give it at least %d",
			c.Pool.Config().MaxConns, c.Lanes, c.Lanes+2)
	}
	return nil
}
