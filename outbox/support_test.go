package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/migrate"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	migrations "github.com/sagacity-tx/sagacity/migrations/outbox"
	"github.com/sagacity-tx/sagacity/outbox"
)

func TestMain(m *testing.M) {
	// A stream that is created while its server shuts down keeps these two goroutines of the server.
	testdb.Main(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// patience bounds every wait of a test.
const patience = 30 * time.Second

var schema = testdb.Template{Name: "outbox", Migrate: func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn, migrations.FS, "outbox")
	return err
}}

var quiet = slog.New(slog.DiscardHandler)

// insert commits messages and returns their entries.
func insert(t testing.TB, pool *pgxpool.Pool, msgs ...outbox.Message) []outbox.Entry {
	t.Helper()
	var entries []outbox.Entry
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		entries, err = outbox.Insert(t.Context(), tx, msgs...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func numbered(subject string, n int) []outbox.Message {
	msgs := make([]outbox.Message, n)
	for i := range msgs {
		msgs[i] = outbox.Message{Subject: subject, Data: []byte(fmt.Sprint(i))}
	}
	return msgs
}

// run runs a relay until the test ends or stop is called.
func run(t testing.TB, c outbox.Config) (r *outbox.Relay, stop func()) {
	t.Helper()
	r = newRelay(t, c)
	return r, start(t, r)
}

func newRelay(t testing.TB, c outbox.Config) *outbox.Relay {
	t.Helper()
	c.Logger = quiet
	if c.PollInterval == 0 {
		c.PollInterval = 10 * time.Millisecond
	}
	r, err := outbox.NewRelay(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func start(t testing.TB, r *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := receive(t, ended); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatal("nothing came in time")
		panic("unreachable")
	}
}

// await asks again and again until ok; every question takes a round trip or a tick.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

func rowCount(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func awaitEmpty(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	await(t, "the outbox is empty", func() bool { return rowCount(t, pool) == 0 })
}

// stream is a stream of one test and what it stored.
type stream struct {
	t       testing.TB
	js      jetstream.JetStream
	prefix  string // of its subjects
	publish *bus.Bus
}

// newStream makes a stream for prefix.>; the limits may be changed.
func newStream(t testing.TB, limits func(*jetstream.StreamConfig)) *stream {
	t.Helper()
	nc := testdb.NATS(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{t: t, js: js, prefix: testdb.Prefix(t)}
	c := jetstream.StreamConfig{Name: s.prefix, Subjects: []string{s.prefix + ".>"}, Duplicates: time.Minute}
	if limits != nil {
		limits(&c)
	}
	if _, err := js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.publish, err = bus.New(nc, bus.Config{Prefix: s.prefix, Manage: bus.ManageNone, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.publish.Close)
	return s
}

func (s *stream) count() int {
	s.t.Helper()
	got, err := s.js.Stream(s.t.Context(), s.prefix)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(got.CachedInfo().State.Msgs)
}

// fake is a publisher that a test answers for.
type fake struct {
	mu      sync.Mutex
	answer  func(m bus.Message) error // nil: held
	held    []func(error)
	seen    map[string]int // by Nats-Msg-Id
	sent    chan bus.Message
	offline bool
}

func newFake(answer func(m bus.Message) error) *fake {
	return &fake{answer: answer, seen: map[string]int{}, sent: make(chan bus.Message, 100_000)}
}

func acknowledge(bus.Message) error { return nil }

func (f *fake) Publish(_ context.Context, msgs []bus.Message, done func(int, error)) {
	for i, m := range msgs {
		f.mu.Lock()
		f.seen[m.Header["Nats-Msg-Id"][0]]++
		answer := f.answer
		if answer == nil {
			f.held = append(f.held, func(err error) { done(i, err) })
		}
		f.mu.Unlock()
		f.sent <- m
		if answer != nil {
			done(i, answer(m))
		}
	}
}

func (f *fake) Connected() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.offline
}

func (f *fake) setOffline(offline bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offline = offline
}

// release answers what is held, and everything from now on.
func (f *fake) release(answer func(m bus.Message) error, held error) {
	f.mu.Lock()
	done := f.held
	f.held, f.answer = nil, answer
	f.mu.Unlock()
	for _, d := range done {
		d(held)
	}
}

func (f *fake) counts() (messages, copies int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.seen {
		messages, copies = messages+1, copies+n
	}
	return messages, copies
}
