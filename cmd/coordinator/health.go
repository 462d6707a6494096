package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/internal/health"
)

func newHealth() *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use: "health", Short: "Ask a coordinator whether it is ready", Args: cobra.NoArgs,
		Long: "health asks a coordinator whether it reaches PostgreSQL and NATS, and ends with 0 if it does. It is made for\n" +
			"the health checks of container engines, and needs no token.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fromEnv(&server, "SAGACITY_SERVER", defaultServer)
			if err := health.Check(cmd.Context(), server); err != nil {
				return fmt.Errorf("ask for the health: %w; check --server and the coordinator's log", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return nil
		},
	}
	cmd.Flags().StringVar(&server, "server", "", "URL of the coordinator (SAGACITY_SERVER; default "+defaultServer+")")
	return cmd
}
