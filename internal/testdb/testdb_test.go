package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
)

func TestMain(m *testing.M) { Main(m) }

var migrations atomic.Int64

var schema = Template{Name: "testdb_items", Migrate: func(ctx context.Context, dsn string) error {
	migrations.Add(1)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE TABLE items (n int4); INSERT INTO items VALUES (1)")
	return errors.Join(err, conn.Close(ctx))
}}

func TestEachTestHasItsOwnCopy(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprintf("copy %d", i), func(t *testing.T) {
			t.Parallel()
			pool := New(t, schema)
			if _, err := pool.Exec(t.Context(), "INSERT INTO items VALUES (2)"); err != nil {
				t.Fatal(err)
			}
			var rows int
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM items").Scan(&rows); err != nil {
				t.Fatal(err)
			}
			if rows != 2 {
				t.Errorf("%d rows, want 2", rows)
			}
			if n := migrations.Load(); n != 1 {
				t.Errorf("the template was migrated %d times", n)
			}
		})
	}
}

func TestDatabasesAreDropped(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("use", func(t *testing.T) {
		pool := New(t, Template{})
		if err := pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		stray, err := pgx.Connect(t.Context(), pool.Config().ConnString()) // the drop ends it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stray.Close(context.Background()) })
	})
	conn, err := pgx.Connect(t.Context(), Cluster(t).DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var found bool
	if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&found); err != nil {
		t.Fatal(err)
	}
	if found {
		t.Errorf("database %s is still there", name)
	}
}

func TestNATSHasJetStream(t *testing.T) {
	t.Parallel()
	js, err := jetstream.New(NATS(t))
	if err != nil {
		t.Fatal(err)
	}
	prefix := Prefix(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: prefix, Subjects: []string{prefix + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: prefix})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, prefix+".x", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := msg.DoubleAck(ctx); err != nil || string(msg.Data()) != "hello" {
		t.Errorf("got %q, %v", msg.Data(), err)
	}
}

func TestPrefixesDiffer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	t.Run("odd name: ä.b>c*d and quite a long one", func(t *testing.T) {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				p := Prefix(t)
				mu.Lock()
				defer mu.Unlock()
				if seen[p] || len(p) > 40 || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
					t.Errorf("prefix %q is not unique, too long or not valid", p)
				}
				seen[p] = true
			})
		}
		all.Wait()
	})
}

func TestTemplateFailuresStick(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	boom := errors.New("boom")
	calls := 0
	bad := Template{Name: "testdb_bad", Migrate: func(context.Context, string) error { calls++; return boom }}
	for range 2 {
		if _, err := shared.template(c, bad); !errors.Is(err, boom) || !strings.Contains(err.Error(), bad.Name) {
			t.Errorf("got %v", err)
		}
	}
	if calls != 1 {
		t.Errorf("migrated %d times", calls)
	}
	for _, name := range []string{"Bad", "a-b", strings.Repeat("x", 41)} {
		if _, err := shared.template(c, Template{Name: name, Migrate: bad.Migrate}); err == nil {
			t.Errorf("name %q is accepted", name)
		}
	}
	if _, err := shared.template(c, Template{Name: "testdb_nil"}); err == nil {
		t.Error("a template without Migrate is accepted")
	}
}

func TestClusterNeedsMain(t *testing.T) {
	t.Parallel()
	if _, err := (&lazyCluster{}).get(); err == nil || !strings.Contains(err.Error(), "TestMain") {
		t.Errorf("got %v", err)
	}
}

func TestStartFailureSticks(t *testing.T) {
	t.Setenv("SAGACITY_PG_BIN", t.TempDir())
	lazy := &lazyCluster{main: true}
	_, first := lazy.get()
	if first == nil || !strings.Contains(first.Error(), "install") {
		t.Fatalf("got %v", first)
	}
	if err := os.Unsetenv("SAGACITY_PG_BIN"); err != nil {
		t.Fatal(err)
	}
	if _, second := lazy.get(); !errors.Is(second, first) {
		t.Errorf("got %v, want the first failure again", second)
	}
	if err := lazy.stop(); err != nil {
		t.Error(err)
	}
}

func TestLeaksFailTheRun(t *testing.T) {
	lazy := &lazyCluster{}
	if code := lazy.finish(7); code != 7 {
		t.Errorf("failed tests: exit code %d, want 7", code)
	}
	release := make(chan struct{})
	ended := make(chan struct{})
	go func() { <-release; close(ended) }()
	if code := lazy.finish(0); code != 1 {
		t.Errorf("a leaked goroutine: exit code %d, want 1", code)
	}
	close(release)
	<-ended
}
