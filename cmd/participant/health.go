package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/internal/health"
)

const defaultHealth = "http://127.0.0.1:8090"

func newHealth() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use: "health", Short: "Ask a bank whether it is ready", Args: cobra.NoArgs,
		Long: "health asks a bank that runs with --health-listen whether it reaches PostgreSQL and NATS, and ends with 0 if it\n" +
			"does. It is made for the health checks of container engines.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fromEnv(&url, "SAGACITY_HEALTH_URL", defaultHealth)
			if err := health.Check(cmd.Context(), url); err != nil {
				return fmt.Errorf("ask for the health: %w; check --url and the bank's --health-listen", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "where the bank listens (SAGACITY_HEALTH_URL; default "+defaultHealth+")")
	return cmd
}

// listenHealth listens for health checks; nil if there are to be none.
func listenHealth(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for health checks on %s: %w; choose another address with --health-listen", address, err)
	}
	return l, nil
}

// ready reports whether the bank can do its work now.
func ready(ctx context.Context, pool *pgxpool.Pool, nc *nats.Conn) error {
	if !nc.IsConnected() {
		return errors.New("NATS: not connected")
	}
	return pool.Ping(ctx)
}
