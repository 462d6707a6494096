package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/internal/schema"
)

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
			applied, err := schema.Up(cmd.Context(), dsn)
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
