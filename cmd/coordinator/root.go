package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitDeclined    = 3
	exitAuth        = 4
	exitPartial     = 5
	exitWaitTimeout = 6
)

// exitError carries the exit code of an error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func withExit(code int, err error) error { return &exitError{code: code, err: err} }

func usageError(format string, args ...any) error {
	return withExit(exitUsage, fmt.Errorf(format, args...))
}

// run is the whole program but for the process: tests call it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runWith(ctx, args, os.Stdin, stdout, stderr)
}

func runWith(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetIn(stdin)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "coordinator:", printableLines(err.Error()))
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return exitFailed
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "coordinator",
		Short: "Runs sagas and TCC transactions across services",
		Long: "coordinator runs sagas and TCC transactions across services: it persists every step in PostgreSQL and\n" +
			"sends commands over NATS JetStream. Begin with: coordinator dev",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w (see: %s --help)", err, cmd.CommandPath())
	})
	root.PersistentFlags().String("log-level", envOr("SAGACITY_LOG_LEVEL", "info"), "debug, info, warn or error (SAGACITY_LOG_LEVEL)")
	root.AddCommand(newServe(), newMigrate(), newDev(), newTx(), newDefinition(), newDLQ(), newApproval(), newJob(), newAudit(), newParticipant(), newPause(), newResume(), newWebhook(), newBench(), newHealth(), newDoctor(), newDemo(), newToken(), newConfig(), newVersion())
	root.InitDefaultCompletionCmd()
	for _, cmd := range allCommands(root) {
		switch {
		case cmd.HasSubCommands() && !cmd.Runnable():
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, noCommand
		case cmd.Args != nil:
			cmd.Args = usageArgs(cmd.Args)
		}
	}
	return root
}

// noCommand runs where a subcommand is missing or misspelt.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError("%s needs a command (see: %s --help)", cmd.CommandPath(), cmd.CommandPath())
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "? "
	}
	return usageError("%s has no command %q (%ssee: %s --help)", cmd.CommandPath(), args[0], hint, cmd.CommandPath())
}

func allCommands(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		list = append(list, allCommands(sub)...)
	}
	return list
}

// usageArgs turns complaints about arguments into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError("%w (see: %s --help)", err, cmd.CommandPath())
		}
		return nil
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	}
}

// logger writes JSON lines, usually to stderr: stdout holds data only.
func logger(cmd *cobra.Command, to io.Writer) (*slog.Logger, error) {
	name, err := cmd.Flags().GetString("log-level")
	if err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return nil, usageError("--log-level is %q; use debug, info, warn or error", name)
	}
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level})), nil
}

func envOr(name, fallback string) string {
	if v, ok := os.LookupEnv(name); ok && v != "" {
		return v
	}
	return fallback
}

// fromEnv fills a flag that was not given from the environment. It is no default of the flag, because --help
// prints defaults and addresses may hold passwords.
// envCoordinatorDatabase names the coordinator's database where DATABASE_URL is that of a service beside it.
const envCoordinatorDatabase = "COORDINATOR_DATABASE_URL"

// coordinatorDatabase fills in the address of the coordinator's database for commands that look at one that is in use.
func coordinatorDatabase(flag *string) {
	fromEnv(flag, envCoordinatorDatabase, "")
	fromEnv(flag, "DATABASE_URL", "")
}

func fromEnv(flag *string, name, fallback string) {
	if *flag == "" {
		*flag = envOr(name, fallback)
	}
}
