// Package migrate applies embedded goose migrations, one line per owner.
//
// Each owner (coordinator, outbox, dlq) has its own files and its own version table, "<owner>_migrations",
// so that a service may use the outbox alone. Processes that migrate at the same time wait for each other
// on a session's advisory lock, which needs a direct connection: behind a transaction pooler give the
// DSN of the server itself. A migration that fails leaves the version before it, and Up may be tried again.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that goose uses
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

const (
	lockPollSeconds = 1
	lockPollsMax    = 300 // five minutes for another process to finish
)

// Status is where a line of migrations stands.
type Status struct {
	Current int64 // the version of the schema; 0: nothing applied
	Target  int64 // the newest version that this program knows
}

// Pending reports whether Up has something to do.
func (s Status) Pending() bool { return s.Current < s.Target }

// Newer reports whether the schema is from a newer program.
func (s Status) Newer() bool { return s.Current > s.Target }

// Up brings the owner's schema to the newest version in fsys and returns the versions that it applied.
func Up(ctx context.Context, dsn string, fsys fs.FS, owner string) (applied []int64, err error) {
	err = with(dsn, fsys, owner, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		applied = versions(results)
		return err
	})
	return applied, err
}

// Down takes the owner's schema back to version, 0 for nothing at all. Data is lost.
func Down(ctx context.Context, dsn string, fsys fs.FS, owner string, version int64) (undone []int64, err error) {
	err = with(dsn, fsys, owner, func(p *goose.Provider) error {
		results, err := p.DownTo(ctx, version)
		undone = versions(results)
		return err
	})
	return undone, err
}

// Get returns where the owner's schema stands.
func Get(ctx context.Context, dsn string, fsys fs.FS, owner string) (status Status, err error) {
	err = with(dsn, fsys, owner, func(p *goose.Provider) error {
		status.Current, status.Target, err = p.GetVersions(ctx)
		return err
	})
	return status, err
}

func with(dsn string, fsys fs.FS, owner string, use func(*goose.Provider) error) (err error) {
	if err := saga.CheckName("migration owner", owner); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", owner, pg.WithoutDSN(err))
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	table := owner + "_migrations"
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(lockID(table)), lock.WithLockTimeout(lockPollSeconds, lockPollsMax))
	if err != nil {
		return fmt.Errorf("migrate %s: %w", owner, err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, fsys,
		goose.WithTableName(table), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrate %s: %w", owner, err)
	}
	if err := use(p); err != nil {
		return fmt.Errorf("migrate %s: %w", owner, pg.WithoutDSN(err))
	}
	return nil
}

// lockID gives each version table its own lock. Advisory locks belong to one database.
func lockID(table string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("sagacity/" + table)) // never fails
	return int64(h.Sum64() >> 1)
}

func versions(results []*goose.MigrationResult) []int64 {
	out := make([]int64, 0, len(results))
	for _, r := range results {
		out = append(out, r.Source.Version)
	}
	return out
}
