package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// remote is the coordinator that a command talks to, and how it prints what comes back.
type remote struct {
	server    string
	tokenFile string
	format    string
	client    *client.Client
}

const defaultServer = "http://127.0.0.1:8080"

// retryTime is how long a command goes on trying to reach the coordinator.
const retryTime = 2 * time.Second

// newGroup makes a command whose subcommands talk to a coordinator.
func newGroup(use, short, long string, r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		PersistentPreRunE: func(*cobra.Command, []string) error { return r.connect(retryTime) },
	}
	r.format = formatTable
	cmd.PersistentFlags().StringVar(&r.server, "server", "", "URL of the coordinator (SAGACITY_SERVER; default "+defaultServer+")")
	cmd.PersistentFlags().StringVar(&r.tokenFile, "token-file", "", "file with your token ("+envTokenFile+"; "+envToken+" holds the token itself)")
	formats := []string{formatTable, formatJSON, formatYAML}
	cmd.PersistentFlags().VarP(choice{&r.format, formats}, "output", "o", "how to print data: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// connect makes the client; it sends nothing yet.
func (r *remote) connect(retry time.Duration) (err error) {
	fromEnv(&r.server, "SAGACITY_SERVER", defaultServer)
	token, err := readToken(r.tokenFile)
	if err != nil {
		return err
	}
	if r.client, err = client.New(r.server, client.Options{RetryTime: retry, Token: token}); err != nil {
		return usageError("--server (SAGACITY_SERVER), or the token: %w", err)
	}
	return nil
}

// explain says what failed, on what, why, and what to do.
func (r *remote) explain(what string, err error) error {
	var p *client.Problem
	var u *client.UnknownError
	var network *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p) && p.Code == "":
		return fmt.Errorf("%s: %s answered HTTP %d, and not as a coordinator does; check --server", what, r.server, p.Status)
	case errors.As(err, &p):
		err = fmt.Errorf("%s: %s %s (%s, HTTP %d)", what, p.Title, p.Detail, p.Code, p.Status)
		if p.Status == http.StatusUnauthorized {
			err = fmt.Errorf("%w; %s", err, adviceToken)
		}
		if p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
			return withExit(exitAuth, err)
		}
		return err
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted", what)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("%s: cannot reach the coordinator at %s: %w; start one with \"coordinator dev\" or \"coordinator serve\", "+
			"or give the URL of another with --server or SAGACITY_SERVER", what, r.server, network.Err)
	case errors.As(err, &u):
		return fmt.Errorf("%s: no answer from %s: %w", what, r.server, u.Err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// confirm asks whether to go on. Where nobody can answer it is an error, not a hang.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(cmd.InOrStdin()) || !isTerminal(cmd.ErrOrStderr()) {
		return usageError("%s asks before it acts, and there is no terminal to ask on; give --yes", cmd.CommandPath())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", printable(question))
	answer := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // what cannot be read is no yes
		answer <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case text := <-answer:
		if slices.Contains([]string{"y", "yes"}, text) {
			return nil
		}
	case <-cmd.Context().Done():
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	return withExit(exitDeclined, errors.New("declined; nothing was done"))
}

// confirmShown shows what is acted on, and asks.
func confirmShown(cmd *cobra.Command, yes bool, question string, fill func(*table)) error {
	shown := &table{style: styleOf(cmd.ErrOrStderr())}
	fill(shown)
	if err := shown.write(cmd.ErrOrStderr()); err != nil {
		return err
	}
	return confirm(cmd, yes, question)
}

// addReason adds the flags of an action that the audit keeps and that asks before it acts.
func addReason(cmd *cobra.Command, reason *string, yes *bool) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for the audit (required)")
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask")
}

// checkReason checks the reason of an action before anything is sent.
func checkReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return usageError("no reason; give --reason: it is kept with what was done")
	case len(reason) > saga.ReasonBytesMax:
		return usageError("--reason has %d bytes; use at most %d", len(reason), saga.ReasonBytesMax)
	}
	return nil
}

// watchInterval is the time between two looks of --watch.
const watchInterval = 2 * time.Second

// watchList prints again and again until the user stops it: on a terminal in place, else whenever something
// has changed.
func watchList(cmd *cobra.Command, r *remote, watch bool, show func(context.Context, output) error) error {
	out := newOutput(cmd, r.format)
	if !watch {
		return show(cmd.Context(), out)
	}
	w := out.w
	var last []byte
	for {
		var buf bytes.Buffer
		out.w = &buf
		if err := show(cmd.Context(), out); err != nil {
			return unlessStopped(cmd.Context(), err)
		}
		if !bytes.Equal(last, buf.Bytes()) {
			last = bytes.Clone(buf.Bytes())
			if isTerminal(w) && out.format == formatTable {
				buf.Reset()
				buf.WriteString("\x1b[H\x1b[2J") // to the top left, and clear
				buf.Write(last)
			}
			if _, err := w.Write(buf.Bytes()); err != nil {
				return err
			}
		}
		if !pause(cmd.Context(), watchInterval) {
			return nil
		}
	}
}

// unlessStopped drops the error of something that has ended because the user stopped it.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that it was stopped is what is wrong with it
	}
	return err
}

// pause waits, and reports false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
