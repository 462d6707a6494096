package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newDLQEdit(r *remote) *cobra.Command {
	var reason, input string
	var yes, again bool
	cmd := &cobra.Command{
		Use: "edit ID (--input FILE | --again) --reason TEXT", Short: "Propose another input for what has never run", ValidArgsFunction: r.completeDeadLetters,
		Long: "edit proposes another input for the operation of a dead letter, and has its participant reserve it: if the participant\n" +
			"has never carried the operation out, only the new input can run from then on, and the edit cannot be taken back.\n" +
			"Somebody else approves it with \"coordinator dlq approve\", then \"coordinator dlq replay\" sends it. The coordinator\n" +
			"has to run with --allow-edit. If the participant's answer does not come, --again asks it again to reserve what was\n" +
			"proposed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := deadLetterArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			var data json.RawMessage
			switch {
			case again && input != "":
				return usageError("--input and --again do not go together; leave one out")
			case again:
			case input == "":
				return usageError("no input; give --input FILE, or --input - for standard input")
			default:
				if data, err = readInput(cmd, input); err != nil {
					return err
				}
				if err := saga.CheckInput(data); err != nil {
					return usageError("--input: %w", err)
				}
			}
			return runEdit(cmd, r, id, reason, data, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	cmd.Flags().StringVar(&input, "input", "", "file with the new input, any JSON; - for standard input")
	cmd.Flags().BoolVar(&again, "again", false, "what was proposed before, to be reserved")
	return cmd
}

// runEdit proposes an input; nil: what was proposed before.
func runEdit(cmd *cobra.Command, r *remote, id uuid.UUID, reason string, input json.RawMessage, yes bool) error {
	d, err := r.client.DeadLetter(cmd.Context(), id)
	if err != nil {
		return r.explain("read dead letter "+id.String(), err)
	}
	if input == nil {
		if d.Edit == nil {
			return usageError("nothing was proposed for dead letter %s, or no more; give --input FILE", id)
		}
		input = d.Edit.Input
	}
	if err := confirmShown(cmd, yes, "Propose this input? From then on nothing else can be sent.", func(t *table) {
		replayPreview(t, &d)
		t.field("New input", messageText(input))
	}); err != nil {
		return err
	}
	if err := r.client.Edit(cmd.Context(), id, d.Version, reason, input); err != nil {
		return r.explainAction("edit dead letter "+id.String(), "dlq show "+id.String(), err)
	}
	if d, err = r.awaitReserved(cmd.Context(), id); err != nil {
		return r.explain("read dead letter "+id.String(), err)
	}
	switch {
	case d.Edit == nil:
		fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: the participant has carried it out, or may have: it is not edited\n")
	case d.Edit.Reserved:
		fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: the participant has reserved it; now somebody else approves it: coordinator dlq approve %s --reason TEXT\n", id)
	default:
		fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: the participant has not answered yet; see \"coordinator dlq show %s\", and give --again if it stays so\n", id)
	}
	return newOutput(cmd, r.format).data(d, func(t *table) { deadLetterFields(t, &d) })
}

// readInput reads an input without white space around it; what is too large is not read whole.
func readInput(cmd *cobra.Command, file string) ([]byte, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the input: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, saga.InputBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("read the input from %s: %w", file, err)
	}
	return bytes.TrimSpace(data), nil
}

// reservedTime is how long dlq edit waits for the participant's answer.
const reservedTime = 5 * time.Second

// awaitReserved reads the dead letter until the participant has answered, or for a while.
func (r *remote) awaitReserved(ctx context.Context, id uuid.UUID) (d client.DeadLetterDetail, err error) {
	const interval = 200 * time.Millisecond
	for waited := time.Duration(0); ; waited += interval {
		d, err = r.client.DeadLetter(ctx, id)
		if err != nil || d.Edit == nil || d.Edit.Reserved || waited >= reservedTime || !pause(ctx, interval) {
			return d, err
		}
	}
}
