package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/participant"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitError carries the exit code of an error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// run is the whole program but for the process: tests call it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "participant:", err)
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return exitFailed
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "participant",
		Short:         "The bank of the demonstrations, and the barrier's SQL",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		Args:          cobra.NoArgs,
		RunE:          func(*cobra.Command, []string) error { return usageError("no command (see: participant --help)") },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w (see: %s --help)", err, cmd.CommandPath())
	})
	root.PersistentFlags().String("log-level", envOr("SAGACITY_LOG_LEVEL", "info"), "debug, info, warn or error (SAGACITY_LOG_LEVEL)")
	root.AddCommand(newBank(), newHealth(), newSchema(), newVersion())
	for _, cmd := range append(root.Commands(), root) {
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// usageArgs turns complaints about arguments into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return usageError("%w (see: %s --help)", err, cmd.CommandPath())
		}
		return nil
	}
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the barrier's SQL", Args: cobra.NoArgs,
		Long: "schema prints the SQL that a participant's database needs, for your own migration tool. Apply it in one\n" +
			"transaction: participant schema | psql -1 -v ON_ERROR_STOP=1 \"$DATABASE_URL\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), participant.SchemaSQL())
			return err
		},
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
}

// logger writes JSON lines to stderr, so that stdout holds data only.
func logger(cmd *cobra.Command) (*slog.Logger, error) {
	name, err := cmd.Flags().GetString("log-level")
	if err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return nil, usageError("--log-level is %q; use debug, info, warn or error", name)
	}
	return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})), nil
}

func envOr(name, fallback string) string {
	if v, ok := os.LookupEnv(name); ok && v != "" {
		return v
	}
	return fallback
}

// fromEnv fills a flag that was not given from the environment. It is no default of the flag, because --help
// prints defaults and addresses may hold passwords.
func fromEnv(flag *string, name, fallback string) {
	if *flag == "" {
		*flag = envOr(name, fallback)
	}
}
