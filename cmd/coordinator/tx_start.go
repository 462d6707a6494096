package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

const defaultWait = 30 * time.Second

// startFlags are those of tx start.
type startFlags struct {
	file      string
	requestID string
	wait      time.Duration
}

func newTxStart(r *remote) *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use: "start -f FILE", Short: "Start a transaction",
		Long: "start submits the JSON of a file, byte for byte, and prints the transaction's id, or with --wait the transaction\n" +
			"at its end, or as soon as it waits for a person. Running it again with the same --request-id and the same file starts nothing new.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q; give the file with -f, and a time to wait as --wait=30s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runTxStart(cmd, r, f) },
	}
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file with the submission; - for standard input (required)")
	cmd.Flags().StringVar(&f.requestID, "request-id", "", "makes a repetition safe: 1 to 255 visible ASCII characters (default: a new one)")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "wait for the end, so long at most, or until it waits for a person")
	cmd.Flags().Lookup("wait").NoOptDefVal = defaultWait.String()
	return cmd
}

func runTxStart(cmd *cobra.Command, r *remote, f startFlags) error {
	if f.wait < 0 {
		return usageError("--wait is %s; use a time of at least 0", f.wait)
	}
	if f.requestID != "" {
		if err := saga.CheckRequestID(f.requestID); err != nil {
			return usageError("--request-id: %w", err)
		}
	}
	body, err := readSubmission(cmd, f.file)
	if err != nil {
		return err
	}
	until := time.Now().Add(f.wait)
	s, err := r.client.SubmitBytes(cmd.Context(), body, client.SubmitOptions{RequestID: f.requestID})
	if err != nil {
		return r.explainStart(f.file, s.RequestID, err)
	}
	did := "started"
	if s.Replayed {
		did = "was started before"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: transaction %s %s (request id %s)\n", s.ID, did, s.RequestID)
	out := newOutput(cmd, r.format)
	if f.wait == 0 {
		if out.format == formatTable {
			_, err := fmt.Fprintln(out.w, s.ID)
			return err
		}
		return out.data(startedForm{ID: s.ID, RequestID: s.RequestID, Replayed: s.Replayed}, nil)
	}
	return waitFor(cmd, r, until.Add(waitGrace), s.ID, r.endOrPerson)
}

// endOrPerson waits until a transaction has ended, or waits for a person itself. Beside an error it returns what was seen last.
func (r *remote) endOrPerson(ctx context.Context, id saga.ID) (last client.Transaction, err error) {
	for tx, err := range r.client.Watch(ctx, id) {
		if err != nil {
			return last, err
		}
		if last = tx; tx.Suspended {
			break
		}
	}
	return last, nil
}

// end waits until a transaction has ended.
func (r *remote) end(ctx context.Context, id saga.ID) (client.Transaction, error) {
	return r.client.Wait(ctx, id)
}

// waitGrace is for one more look when the submission itself has used up the time to wait.
const waitGrace = time.Second

// startedForm is what tx start prints.
type startedForm struct {
	ID        saga.ID `json:"id"`
	RequestID string  `json:"request_id"`
	Replayed  bool    `json:"replayed"`
}

// readSubmission reads the file; what the coordinator would refuse for its size is not read whole.
func readSubmission(cmd *cobra.Command, file string) ([]byte, error) {
	in := cmd.InOrStdin()
	switch file {
	case "":
		return nil, usageError("no submission; give its file with -f, or -f - for standard input")
	case "-":
	default:
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the submission: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, saga.SubmissionBytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the submission from %s: %w", file, err)
	case len(body) > saga.SubmissionBytesMax:
		return nil, fmt.Errorf("the submission in %s has more than %d bytes; keep large data elsewhere and pass a reference", file, saga.SubmissionBytesMax)
	case len(body) == 0:
		return nil, fmt.Errorf("the submission in %s is empty; see docs/cli.md for an example", file)
	}
	return body, nil
}

// explainStart explains a submission that failed. An unknown outcome is not a failure.
func (r *remote) explainStart(file, requestID string, err error) error {
	explained := r.explain("start the transaction of "+file, err)
	var u *client.UnknownError
	if errors.As(err, &u) {
		return fmt.Errorf("%w\nWhether it was started is not known. Run the same command again with --request-id %s: it starts at most once. "+
			"To look: coordinator tx get --request-id %s", explained, requestID, requestID)
	}
	return explained
}

func newTxWait(r *remote) *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait for the end of a transaction", ValidArgsFunction: r.completeTransactions,
		Long: "wait waits for the end of a transaction and shows it. The exit code is 0 if it committed, 1 if it was cancelled\n" +
			"or its result is not known, and 6 if the time was over first.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := transactionArg(cmd, args)
			if err != nil {
				return err
			}
			if limit < 0 {
				return usageError("--for is %s; use a time, or 0 for no limit", limit)
			}
			until := time.Time{}
			if limit > 0 {
				until = time.Now().Add(limit)
			}
			return waitFor(cmd, r, until, id, r.end)
		},
	}
	cmd.Flags().DurationVar(&limit, "for", defaultWait, "how long at most; 0 for no limit")
	return cmd
}

// waitFor waits, shows the transaction as it is then, and says how it ended.
func waitFor(cmd *cobra.Command, r *remote, until time.Time, id saga.ID, wait func(context.Context, saga.ID) (client.Transaction, error)) error {
	if err := r.connect(0); err != nil { // what waits can wait for a coordinator that restarts
		return err
	}
	ctx := cmd.Context()
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	tx, err := wait(ctx, id)
	if err != nil && (ctx.Err() == nil || cmd.Context().Err() != nil) {
		return r.explain("wait for transaction "+id.String(), err)
	}
	if tx.ID.IsZero() { // the time was over before anything was seen
		return withExit(exitWaitTimeout, fmt.Errorf("wait for transaction %s: the time was over before %s answered: %w", id, r.server, cmp.Or(err, context.DeadlineExceeded)))
	}
	return errors.Join(showTransaction(newOutput(cmd, r.format), &tx), verdictOf(&tx))
}
