// Package schema is the coordinator's database as a whole: the tables of several owners, each with its own line of
// migrations, in the order in which they depend on each other.
package schema

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/sagacity-tx/sagacity/internal/migrate"
	"github.com/sagacity-tx/sagacity/migrations/coordinator"
	"github.com/sagacity-tx/sagacity/migrations/dlq"
	"github.com/sagacity-tx/sagacity/migrations/notify"
	"github.com/sagacity-tx/sagacity/migrations/outbox"
)

var owners = []struct {
	name  string
	files fs.FS
}{
	{"outbox", outbox.FS},
	{"dlq", dlq.FS},
	{"notify", notify.FS},
	{"coordinator", coordinator.FS},
}

// Up brings the database to this version's schema and returns how many migrations it applied. What was applied
// stays when a later one fails.
func Up(ctx context.Context, dsn string) (applied int, err error) {
	for _, o := range owners {
		versions, err := migrate.Up(ctx, dsn, o.files, o.name)
		if err != nil {
			return applied, err
		}
		applied += len(versions)
	}
	return applied, nil
}

// Check makes sure that the database has at least this version's schema.
func Check(ctx context.Context, dsn string) error {
	for _, o := range owners {
		status, err := migrate.Get(ctx, dsn, o.files, o.name)
		if err != nil {
			return fmt.Errorf("look at the schema of the database: %w; \"coordinator migrate\" makes it", err)
		}
		if status.Pending() {
			return fmt.Errorf("the database's %s schema has version %d and this program needs %d; run \"coordinator migrate\"",
				o.name, status.Current, status.Target)
		}
	}
	return nil
}
