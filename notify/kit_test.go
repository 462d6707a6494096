package notify_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	dbschema "github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var schema = testdb.Template{Name: "notify", Migrate: func(ctx context.Context, dsn string) error {
	_, err := dbschema.Up(ctx, dsn)
	return err
}}

// run starts a sender that stops with the test, or when the returned function is called.
func run(t *testing.T, pool *pgxpool.Pool, options ...func(*notify.Config)) (stop func()) {
	t.Helper()
	cfg := notify.Config{
		Pool: pool, Log: slog.New(slog.DiscardHandler), AllowPrivate: true, Interval: 10 * time.Millisecond, AttemptsMax: 3,
		Backoff: saga.Backoff{Strategy: saga.StrategyFixed, Base: saga.Duration(10 * time.Millisecond)},
	}
	for _, o := range options {
		o(&cfg)
	}
	s := notify.NewSender(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("sender: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

type got struct {
	header http.Header
	body   string
}

// listen starts a target that answers with the status, and returns what it gets.
func listen(t *testing.T, status func(n int) int) (url string, all chan got) {
	t.Helper()
	all = make(chan got, 1000)
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		n++
		code := status(n)
		mu.Unlock()
		all <- got{r.Header.Clone(), string(body)}
		if code >= 300 && code < 400 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s.URL, all
}

func always(status int) func(int) int { return func(int) int { return status } }

func create(t *testing.T, pool *pgxpool.Pool, p notify.WebhookParams) (w notify.Webhook, secret string) {
	t.Helper()
	p.AllowPrivate = true
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		w, secret, err = notify.Create(t.Context(), tx, p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, secret
}

func insert(t *testing.T, pool *pgxpool.Pool, n notify.Notice) {
	t.Helper()
	if err := notify.Insert(t.Context(), pool, n); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, all chan got) got {
	t.Helper()
	select {
	case one := <-all:
		return one
	case <-time.After(30 * time.Second):
		t.Fatal("nothing came")
		return got{}
	}
}

func deliveries(t *testing.T, pool *pgxpool.Pool, webhook uuid.UUID) []notify.Delivery {
	t.Helper()
	list, err := notify.Deliveries(t.Context(), pool, notify.DeliveryFilter{Webhook: webhook})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
