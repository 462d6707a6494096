package main

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/internal/migrate"
	"github.com/sagacity-tx/sagacity/migrations/coordinator"
	"github.com/sagacity-tx/sagacity/migrations/dlq"
	"github.com/sagacity-tx/sagacity/migrations/outbox"
)

// schemas are the owners of the coordinator's tables, in the order in which they depend on each other.
var schemas = []struct {
	owner string
	files fs.FS
}{
	{"outbox", outbox.FS},
	{"dlq", dlq.FS},
	{"coordinator", coordinator.FS},
}

func newMigrate() *cobra.Command {
	var dsn string
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the coordinator's database to this version's schema", Args: cobra.NoArgs,
		Long: "migrate brings the coordinator's database to this version's schema. It may be run again at any time and by\n" +
			"several processes at once. It needs a direct connection, not a transaction pooler.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fromEnv(&dsn, "DATABASE_URL", "")
			if dsn == "" {
				return usageError("no database; give --database-url or set DATABASE_URL")
			}
			applied, err := migrateAll(cmd.Context(), dsn)
			if err != nil {
				return fmt.Errorf("%w; check --database-url (DATABASE_URL), or run it again: what was applied stays", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d migrations applied\n", applied)
			return nil
		},
	}
	cmd.Flags().StringVar(&dsn, "database-url", "", "PostgreSQL of the coordinator (DATABASE_URL)")
	return cmd
}

func migrateAll(ctx context.Context, dsn string) (applied int, err error) {
	for _, s := range schemas {
		versions, err := migrate.Up(ctx, dsn, s.files, s.owner)
		if err != nil {
			return applied, err
		}
		applied += len(versions)
	}
	return applied, nil
}

// checkSchema makes sure that the database has at least this version's schema.
func checkSchema(ctx context.Context, dsn string) error {
	for _, s := range schemas {
		status, err := migrate.Get(ctx, dsn, s.files, s.owner)
		if err != nil {
			return fmt.Errorf("look at the schema of the database: %w; \"coordinator migrate\" makes it", err)
		}
		if status.Pending() {
			return fmt.Errorf("the database's %s schema has version %d and this program needs %d; run \"coordinator migrate\"",
				s.owner, status.Current, status.Target)
		}
	}
	return nil
}
