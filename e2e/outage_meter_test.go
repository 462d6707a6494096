package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/outage"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// meterInterval is how often the levels are looked at.
const meterInterval = 250 * time.Millisecond

// outageMeter counts what is sent to the participant, and what it fetches, while an experiment runs.
type outageMeter struct {
	began    time.Time
	consumer func(context.Context) (jetstream.Consumer, error)
	pool     *pgxpool.Pool
	profiles []string // of the coordinators

	mu                      sync.Mutex
	sent                    []int   // commands on the participant's subject, by the second
	fetched                 []point // commands that its consumer was handed since ever
	goroutines, connections outage.Gauge
	outage                  bool // it has begun

	stop func()
}

// point is a count at an instant.
type point struct {
	at time.Duration
	n  int
}

// startMeter begins to count. Windows are seconds from now.
func startMeter(t *testing.T, w *world, profiles []string) *outageMeter {
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
	m := &outageMeter{began: time.Now(), pool: w.pool, profiles: profiles, consumer: func(ctx context.Context) (jetstream.Consumer, error) {
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

// look takes the levels. What cannot be looked at now is left out.
func (m *outageMeter) look(ctx context.Context) {
	goroutines := 0
	for _, url := range m.profiles {
		n, err := countGoroutines(ctx, url)
		if err != nil {
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
	r.Fetched = windows(m.fetched)
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

// countGoroutines reads how many goroutines a process has from its profiles.
func countGoroutines(ctx context.Context, url string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"goroutine?debug=1", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	first, _, _ := bytes.Cut(body, []byte("\n"))
	if _, err := fmt.Sscanf(string(first), "goroutine profile: total %d", &n); err != nil {
		return 0, fmt.Errorf("%q: %w", first, err)
	}
	return n, nil
}

// profilesOf returns where a coordinator shows its profiles. It has said so before it was ready.
func profilesOf(p *process) (string, error) {
	log, err := os.ReadFile(p.log.path)
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(log), "profiles on ")
	if !found {
		return "", errors.New(p.name + " does not say where its profiles are")
	}
	url, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(url), nil
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
