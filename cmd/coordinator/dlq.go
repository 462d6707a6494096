package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newDLQ() *cobra.Command {
	r := &remote{}
	cmd := newGroup("dlq", "Look at dead letters, replay them or give them up",
		"dlq shows dead letters, which are operations and messages that were set aside, and replays them or gives them up,\n"+
			"through the API of a coordinator.", r)
	cmd.AddCommand(newDLQList(r), newDLQShow(r), newDLQReplay(r), newDLQDiscard(r))
	return cmd
}

// deadLetterArg reads the one argument that is a dead letter's id.
func deadLetterArg(cmd *cobra.Command, args []string) (uuid.UUID, error) {
	if len(args) != 1 {
		return uuid.UUID{}, usageError("%s needs the ID of one dead letter; \"coordinator dlq list\" shows them", cmd.CommandPath())
	}
	id, err := uuid.Parse(args[0])
	if err != nil || len(args[0]) != 36 {
		return uuid.UUID{}, usageError("%q is not the ID of a dead letter; \"coordinator dlq list\" shows them", args[0])
	}
	return id, nil
}

func newDLQList(r *remote) *cobra.Command {
	var f client.DeadLetterFilter
	var l listFlags
	var transaction string
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if transaction != "" {
				if f.Transaction, err = saga.ParseID(transaction); err != nil {
					return usageError("--transaction: %w", err)
				}
			}
			if f.Limit, err = l.page(); err != nil {
				return err
			}
			return watchList(cmd, r, l.watch, func(ctx context.Context, out output) error {
				list, err := collect(cmd, l, r.client.AllDeadLetters(ctx, f))
				if err != nil {
					return r.explain("list dead letters", err)
				}
				return out.data(list, func(t *table) { deadLetterRows(t, list) })
			})
		},
	}
	statuses := []string{
		string(saga.DeadLetterOpen), string(saga.DeadLetterReplaying), string(saga.DeadLetterClosed),
		string(saga.DeadLetterObsolete), string(saga.DeadLetterDiscarded),
	}
	choiceFlag(cmd, (*string)(&f.Status), "status", "", statuses, "only those with this status")
	cmd.Flags().StringVar(&f.Participant, "participant", "", "only those of this participant")
	cmd.Flags().StringVar(&f.Cause, "cause", "", "only those with this cause: exhausted, panic, unknown or the code of a fault")
	cmd.Flags().StringVar(&transaction, "transaction", "", "only those of the transaction with this id")
	cmd.Flags().StringVar(&f.Fingerprint, "fingerprint", "", "only those with this fingerprint: equal causes have equal ones")
	l.add(cmd)
	return cmd
}

func newDLQShow(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a dead letter and the history of its operation", ValidArgsFunction: r.completeDeadLetters,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := deadLetterArg(cmd, args)
			if err != nil {
				return err
			}
			d, err := r.client.DeadLetter(cmd.Context(), id)
			if err != nil {
				return r.explain("read dead letter "+id.String(), err)
			}
			return newOutput(cmd, r.format).data(d, func(t *table) { deadLetterFields(t, &d) })
		},
	}
}

func newDLQReplay(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "replay ID --reason TEXT", Short: "Send the operation of a dead letter again", ValidArgsFunction: r.completeDeadLetters,
		Long: "replay sends the operation of a dead letter again, with the same identity: a participant that has carried it out\n" +
			"answers what it answered then. It shows first what will be sent, and does nothing if the dead letter has changed\n" +
			"since.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := deadLetterArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			return runReplay(cmd, r, id, reason, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

// replayedForm is what dlq replay prints.
type replayedForm struct {
	ID            uuid.UUID `json:"id"`
	TransactionID saga.ID   `json:"transaction_id,omitzero"`
	Version       int64     `json:"version"` // that was replayed
}

func runReplay(cmd *cobra.Command, r *remote, id uuid.UUID, reason string, yes bool) error {
	d, err := r.client.DeadLetter(cmd.Context(), id)
	if err != nil {
		return r.explain("read dead letter "+id.String(), err)
	}
	if err := confirmShown(cmd, yes, "Replay it?", func(t *table) { replayPreview(t, &d) }); err != nil {
		return err
	}
	if err := r.client.Replay(cmd.Context(), id, d.Version, reason); err != nil {
		return r.explainAction("replay dead letter "+id.String(), "dlq show "+id.String(), err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: dead letter %s is replayed; see what comes of it with \"coordinator dlq show %s\"\n", id, id)
	out := newOutput(cmd, r.format)
	if out.format == formatTable {
		return nil // nothing to show yet
	}
	return out.data(replayedForm{ID: id, TransactionID: d.TransactionID, Version: d.Version}, nil)
}
