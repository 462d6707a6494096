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
	cmd.AddCommand(newDLQList(r), newDLQGroups(r), newDLQShow(r), newDLQNote(r), newDLQReplay(r), newDLQDiscard(r), newDLQApprove(r), newDLQEdit(r))
	return cmd
}

var deadLetterStatuses = []string{
	string(saga.DeadLetterOpen), string(saga.DeadLetterReplaying), string(saga.DeadLetterClosed),
	string(saga.DeadLetterObsolete), string(saga.DeadLetterDiscarded),
}

// deadLetterCauses are all there are: the codes of faults are a closed list (S3).
var deadLetterCauses = []string{
	saga.DeadLetterExhausted, saga.DeadLetterPanic, saga.DeadLetterUnknown,
	saga.FaultConflict, saga.FaultNotTried, saga.FaultContradicts, saga.FaultUndecodable, saga.FaultRefusedPhaseTwo,
	saga.FaultSuperseded, saga.FaultPastRetention, saga.FaultPoison, saga.FaultHandler, saga.FaultResultTooLarge,
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
	choiceFlag(cmd, (*string)(&f.Status), "status", "", deadLetterStatuses, "only those with this status")
	cmd.Flags().StringVar(&f.Participant, "participant", "", "only those of this participant")
	choiceFlag(cmd, &f.Cause, "cause", "", deadLetterCauses, "only those with this cause")
	cmd.Flags().StringVar(&transaction, "transaction", "", "only those of the transaction with this id")
	cmd.Flags().StringVar(&f.Fingerprint, "fingerprint", "", "only those with this fingerprint: equal causes have equal ones")
	l.add(cmd)
	return cmd
}

func newDLQShow(r *remote) *cobra.Command {
	var inquire bool
	cmd := &cobra.Command{
		Use: "show (ID | FINGERPRINT)", Short: "Show a dead letter or a group of them, and what replays would do", ValidArgsFunction: r.completeDeadLetters,
		Long: "show shows a dead letter with the history of its operation, or the group of a fingerprint, and what replays would do. With\n" +
			"--inquire it asks the participant first what it has recorded, which changes nothing there; an answer that settles the\n" +
			"operation closes the dead letter.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && isFingerprint(args[0]) {
				return showGroup(cmd, r, args[0], inquire)
			}
			id, err := deadLetterArg(cmd, args)
			if err != nil {
				return err
			}
			look := r.client.DeadLetter
			if inquire {
				look = r.inquire
			}
			d, err := look(cmd.Context(), id)
			if err != nil {
				return r.explain("read dead letter "+id.String(), err)
			}
			return newOutput(cmd, r.format).data(d, func(t *table) { deadLetterFields(t, &d) })
		},
	}
	cmd.Flags().BoolVar(&inquire, "inquire", false, "ask the participant first what it has recorded")
	return cmd
}

func newDLQReplay(r *remote) *cobra.Command {
	var reason string
	var yes bool
	var bulk bulkFlags
	var approval approvalFlags
	cmd := &cobra.Command{
		Use: "replay (ID | --group FINGERPRINT | …) --reason TEXT", Short: "Send the operation of a dead letter again, or of many", ValidArgsFunction: r.completeDeadLetters,
		Long: "replay sends the operation of a dead letter again, with the same identity: a participant that has carried it out\n" +
			"answers what it answered then. It asks the participant first what it has recorded, shows what will be sent and what\n" +
			"that would do, and does nothing if the dead letter has changed since. What is unknown or in conflict needs --approval.\n\n" +
			"With --group, --participant, --action, --cause or --transaction it replays all open dead letters that match all of these,\n" +
			"as a durable job: it asks the participants first, shows the plan, and sends a few before the rest.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if bulk.given() {
				if len(args) > 0 {
					return usageError("%s takes an ID or what to select, not both", cmd.CommandPath())
				}
				if err := checkReason(reason); err != nil {
					return err
				}
				return bulk.run(cmd, r, reason, yes)
			}
			id, err := deadLetterArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			options, err := approval.options(cmd, reason)
			if err != nil {
				return err
			}
			return runReplay(cmd, r, id, reason, yes, options...)
		},
	}
	addReason(cmd, &reason, &yes)
	bulk.add(cmd)
	approval.add(cmd)
	return cmd
}

// replayedForm is what dlq replay prints.
type replayedForm struct {
	ID            uuid.UUID `json:"id"`
	TransactionID saga.ID   `json:"transaction_id,omitzero"`
	Version       int64     `json:"version"` // that was replayed
}

func runReplay(cmd *cobra.Command, r *remote, id uuid.UUID, reason string, yes bool, options ...client.ReplayOption) error {
	d, err := r.client.DeadLetter(cmd.Context(), id)
	if err != nil {
		return r.explain("read dead letter "+id.String(), err)
	}
	if d.Kind == "operation" && d.Status == saga.DeadLetterOpen {
		if d, err = r.inquire(cmd.Context(), id); err != nil {
			return r.explain("ask about dead letter "+id.String(), err)
		}
		if d.Status != saga.DeadLetterOpen && d.Replay.Effect == saga.ReplayNoOp {
			fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: nothing is left to replay: %s\n", printable(d.Replay.Reason))
			return newOutput(cmd, r.format).data(d, func(t *table) { deadLetterFields(t, &d) })
		}
	}
	if err := confirmShown(cmd, yes, "Replay it?", func(t *table) { replayPreview(t, &d) }); err != nil {
		return err
	}
	if err := r.client.Replay(cmd.Context(), id, d.Version, reason, options...); err != nil {
		return r.explainAction("replay dead letter "+id.String(), "dlq show "+id.String(), err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: dead letter %s is replayed; see what comes of it with \"coordinator dlq show %s\"\n", id, id)
	out := newOutput(cmd, r.format)
	if out.format == formatTable {
		return nil // nothing to show yet
	}
	return out.data(replayedForm{ID: id, TransactionID: d.TransactionID, Version: d.Version}, nil)
}
