package testdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/devcluster"
)

const (
	// poolConnsMax leaves room for 20 parallel tests below PostgreSQL's 200.
	poolConnsMax = 10
	// closeTimeout bounds the wait for a test's connections at its end.
	closeTimeout = 10 * time.Second
)

// Template is a migrated schema. Its zero value is an empty database.
type Template struct {
	// Name identifies the migration within the test package: [a-z0-9_]+, at most 40
	// characters. The same name must always mean the same migration.
	Name string
	// Migrate brings the empty database at dsn to the schema, once per test package.
	// It closes every connection that it opens.
	Migrate func(ctx context.Context, dsn string) error
}

// template is a Template being made or made.
type template struct {
	once sync.Once
	err  error
}

var counter atomic.Int64

// New makes a database for the test, a copy of the template, and returns a pool on
// it. Pool and database go away at the end of the test.
func New(t testing.TB, tpl Template) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(NewDSN(t, tpl))
	if err != nil {
		t.Fatalf("testdb: parse the DSN: %v", err)
	}
	cfg.MaxConns = poolConnsMax
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("testdb: open a pool: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		timer := time.NewTimer(closeTimeout)
		defer timer.Stop()
		select {
		case <-closed:
		case <-timer.C:
			t.Errorf("testdb: %d connections are still in use %s after the test: release rows, transactions and connections",
				pool.Stat().AcquiredConns(), closeTimeout)
		}
	})
	return pool
}

// NewDSN makes a database for the test, a copy of the template, and returns its
// DSN. The database goes away at the end of the test, with all its connections.
func NewDSN(t testing.TB, tpl Template) string {
	t.Helper()
	c := Cluster(t)
	source := "template0"
	if tpl.Name != "" {
		var err error
		if source, err = shared.template(c, tpl); err != nil {
			t.Fatal(err)
		}
	}
	name := uniqueName(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := exec(ctx, c, createStatement(name, source)); err != nil {
		t.Fatalf("testdb: create database %s from %s: %v", name, source, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := exec(ctx, c, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			t.Errorf("testdb: drop database %s: %v", name, err)
		}
	})
	return c.DSN(name)
}

// template returns the name of the migrated template database, made at first use.
func (l *lazyCluster) template(c *devcluster.Cluster, tpl Template) (string, error) {
	if !validTemplateName(tpl.Name) || tpl.Migrate == nil {
		return "", fmt.Errorf("testdb: template %q: want a name of 1 to 40 of [a-z0-9_] and a Migrate function", tpl.Name)
	}
	l.mu.Lock()
	entry := l.templates[tpl.Name]
	if entry == nil {
		entry = &template{}
		l.templates[tpl.Name] = entry
	}
	l.mu.Unlock()

	name := "template_" + tpl.Name
	entry.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		dsn, err := c.CreateDatabase(ctx, name)
		if err == nil {
			err = tpl.Migrate(ctx, dsn)
		}
		if err != nil {
			entry.err = fmt.Errorf("testdb: make template %q: %w", tpl.Name, err)
		}
	})
	return name, entry.err
}

func validTemplateName(name string) bool {
	return name != "" && len(name) <= 40 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func createStatement(name, source string) string {
	return "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " TEMPLATE " + pgx.Identifier{source}.Sanitize()
}

// exec runs one statement on the maintenance database, on a connection of its own:
// a pool would hold dead connections after a test has restarted PostgreSQL.
func exec(ctx context.Context, c *devcluster.Cluster, statement string) error {
	conn, err := pgx.Connect(ctx, c.DSN("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// uniqueName returns a name for the test, unique in the package: letters, digits
// and underscores, at most 40 characters.
func uniqueName(t testing.TB) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '_'
		}
	}, t.Name())
	return fmt.Sprintf("t%d_%s", counter.Add(1), clean[:min(len(clean), 20)])
}
