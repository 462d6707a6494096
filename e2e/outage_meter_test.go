package e2e

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/outage"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// meterInterval is how often the levels are looked at.
const meterInterval = 250 * time.Millisecond

// outageMeter counts what is sent to the participant, and what it fetches, while an experiment runs.
type outageMeter struct {
	began        time.Time
	consumer     func(context.Context) (jetstream.Consumer, error)
	pool         *pgxpool.Pool
	coordinators []*served

	mu                      sync.Mutex
	sent                    []int   // commands on the participant's subject, by the second
	fetched                 []point // commands that its consumer was handed since ever
	goroutines, connections outage.Gauge
	ceilings                []int // by the second
	outage                  bool  // it has begun

	stop func()
}

// point is a count at an instant.
type point struct {
	at time.Duration
	n  int
}

// startMeter begins to count. Windows are seconds from now.
func startMeter(t *testing.T, w *world, coordinators []*served) *outageMeter {
	t.Helper()
	nc, err := nats.Connect(w.cluster.NATSURL(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	m := &outageMeter{began: time.Now(), pool: w.pool, coordinators: coordinators, consumer: func(ctx context.Context) (jetstream.Consumer, error) {
		return js.Consumer(ctx, "SAGA_CMD", stockName)
	}}
	_, err = nc.Subscribe(wire.CommandSubject(bus.DefaultPrefix, stockName), func(*nats.Msg) {
		second := int(time.Since(m.began).Seconds())
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sent = append(m.sent, make([]int, max(0, second+1-len(m.sent)))...)
		m.sent[second]++
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(meterInterval)
		defer ticker.Stop()
		for {
			m.look(ctx)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	m.stop = func() { cancel(); looking.Wait() }
	t.Cleanup(m.stop)
	return m
}

// watchCeiling looks once a second at how many commands per second the coordinator allows while a backlog drains.
func (m *outageMeter) watchCeiling(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for ctx.Err() == nil {
			states, err := c.Participants(ctx)
			at := slices.IndexFunc(states.Participants, func(p client.Participant) bool { return p.Name == stockName })
			if err == nil && at >= 0 {
				m.ceiling(states.Participants[at].Ceiling)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	stop := m.stop
	m.stop = func() { cancel(); looking.Wait(); stop() }
	t.Cleanup(m.stop)
}

// ceiling notes what is allowed now. What was allowed before lasted until now.
func (m *outageMeter) ceiling(perSecond int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	second := int(time.Since(m.began).Seconds())
	for len(m.ceilings) <= second {
		last := perSecond
		if len(m.ceilings) > 0 {
			last = m.ceilings[len(m.ceilings)-1]
		}
		m.ceilings = append(m.ceilings, last)
	}
	m.ceilings[second] = perSecond
}

// look takes the levels. What cannot be looked at now is left out.
func (m *outageMeter) look(ctx context.Context) {
	goroutines := 0
	for _, c := range m.coordinators {
		n := c.goroutines(ctx)
		if n == 0 {
			return
		}
		goroutines += n
	}
	connections := 0
	if err := m.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'coordinator'`).Scan(&connections); err != nil {
		return
	}
	m.level(&m.goroutines, goroutines)
	m.level(&m.connections, connections)
	consumer, err := m.consumer(ctx)
	if err != nil {
		return
	}
	at := time.Since(m.began)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fetched = append(m.fetched, point{at, int(consumer.CachedInfo().Delivered.Consumer)})
}

func (m *outageMeter) level(g *outage.Gauge, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.outage {
		g.Before = max(g.Before, n)
	}
	g.Most = max(g.Most, n)
}

// read stops the meter and fills in what it has seen.
func (m *outageMeter) read(r *outage.Run) {
	m.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Goroutines, r.Connections = m.goroutines, m.connections
	r.Fetched, r.Ceilings = windows(m.fetched), m.ceilings
	r.Sent = append(slices.Clone(m.sent), make([]int, max(0, len(r.Fetched)-len(m.sent)))...)
}

// windows returns what was counted in each whole second, by straight lines between the points.
func windows(points []point) (counts []int) {
	total := func(at time.Duration) int {
		i := slices.IndexFunc(points, func(p point) bool { return p.at >= at })
		if i <= 0 {
			return points[0].n
		}
		a, b := points[i-1], points[i]
		return a.n + int(float64(b.n-a.n)*float64(at-a.at)/float64(b.at-a.at))
	}
	for s := time.Second; len(points) > 0 && s <= points[len(points)-1].at; s += time.Second {
		counts = append(counts, total(s)-total(s-time.Second))
	}
	return counts
}

// begin says that the outage begins.
func (m *outageMeter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outage = true
}

// now returns the seconds since the meter was started.
func (m *outageMeter) now() float64 {
	return math.Round(10*time.Since(m.began).Seconds()) / 10
}
