package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newDLQDiscard(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "discard ID --reason TEXT", Short: "Give a dead letter up", ValidArgsFunction: r.completeDeadLetters,
		Long: "discard gives a dead letter up. A try cancels its transaction, and a pivot's try is fenced. A confirm, a cancel or a\n" +
			"retriable step is never done: the transaction ends as resolved, and whether that effect happened is not known. It\n" +
			"shows first what follows, and does nothing if the dead letter has changed since.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := deadLetterArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			return runDiscard(cmd, r, id, reason, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

func runDiscard(cmd *cobra.Command, r *remote, id uuid.UUID, reason string, yes bool) error {
	d, err := r.client.DeadLetter(cmd.Context(), id)
	if err != nil {
		return r.explain("read dead letter "+id.String(), err)
	}
	if err := confirmShown(cmd, yes, "Give it up?", func(t *table) { discardPreview(t, &d) }); err != nil {
		return err
	}
	tx, err := r.client.Discard(cmd.Context(), id, d.Version, reason)
	if err != nil {
		return r.explainAction("discard dead letter "+id.String(), "dlq show "+id.String(), err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: dead letter %s is given up\n", id)
	if tx == nil {
		return nil
	}
	return showTransaction(newOutput(cmd, r.format), tx)
}

func newTxResolve(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "resolve ID --reason TEXT", Short: "Give all dead letters of a transaction up", ValidArgsFunction: r.completeTransactions,
		Long: "resolve gives all dead letters of a decided transaction up, so that it ends as resolved: never as committed or\n" +
			"cancelled. What waited for them goes on first. It shows which effects are not known from then on, and does nothing\n" +
			"if the transaction has changed since.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := transactionArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			return runResolve(cmd, r, id, reason, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

func runResolve(cmd *cobra.Command, r *remote, id saga.ID, reason string, yes bool) error {
	tx, err := r.client.Get(cmd.Context(), id)
	if err != nil {
		return r.explain("read transaction "+id.String(), err)
	}
	if err := confirmShown(cmd, yes, "Give its dead letters up?", func(t *table) { resolvePreview(t, &tx) }); err != nil {
		return err
	}
	shown := tx
	if tx, err = r.client.Resolve(cmd.Context(), id, tx.Version, reason); err != nil {
		explained := r.explainAction("resolve transaction "+id.String(), "tx get "+id.String(), err)
		var p *client.Problem
		if errors.As(err, &p) && p.Code == saga.CodeOutstanding {
			return fmt.Errorf("%w%s", explained, outstandingAdvice(&shown))
		}
		return explained
	}
	if !tx.Status.Terminal() {
		fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: its dead letters are given up; what waited for them goes on: follow it with \"coordinator tx watch %s\"\n", id)
	}
	return showTransaction(newOutput(cmd, r.format), &tx)
}

// outstandingAdvice says whom a decided transaction waits for, and what to do if nobody of that name will ever answer.
func outstandingAdvice(tx *client.Transaction) string {
	var names []string
	for i := range tx.Steps {
		step := &tx.Steps[i]
		for j := range step.Operations {
			if op := &step.Operations[j]; op.State == saga.OperationSent || op.State == saga.OperationWaiting {
				names = append(names, fmt.Sprintf("%s of step %s (participant %s, action %s)", op.Phase, step.Name, step.Participant, step.Action))
			}
		}
	}
	switch {
	case tx.DecidedAt.IsZero():
		return fmt.Sprintf("\nIt is undecided: cancel it (coordinator tx cancel %s), or replay or discard its dead letters", tx.ID)
	case len(names) == 0:
		return ""
	}
	return "\nUnder way: " + strings.Join(names, "; ") + ". Silence ends nothing: if such a participant never existed or is gone for good, " +
		"run one under its name that handles the action. A cancel whose try never ran succeeds there without calling the handler. " +
		fmt.Sprintf("\"coordinator tx explain %s\" says what each waits for", tx.ID)
}

// discardPreview shows what a discard gives up, and what follows (S2.13).
func discardPreview(t *table, d *client.DeadLetterDetail) {
	t.field("Dead letter", fmt.Sprintf("%s, version %d, %s", d.ID, d.Version, d.Status))
	t.field("Set aside", d.Cause+optional(": ", d.Reason))
	if d.Transaction == nil {
		t.field("Message", messageText(d.Message.Body))
		t.field("What follows", "nothing: a message belongs to no transaction")
		return
	}
	t.field("Operation", fmt.Sprintf("%s of step %s, attempt %d", d.Phase, d.Step, d.Attempt))
	t.field("Transaction", fmt.Sprintf("%s (%s, %s)", d.Transaction.ID, d.Transaction.Definition.Name, statusText(d.Transaction)))
	kind := kindOf(d.Transaction, d.Step)
	switch {
	case kind == saga.KindPivot && d.Phase == saga.PhaseCancel:
		t.field("What follows", "nothing: a fence cannot be given up, because only its reply tells whether the pivot has executed")
		return
	case kind == saga.KindPivot:
		t.field("What follows", "a fence finds out whether the pivot has executed, and its reply decides")
		return
	case givesUp(kind, d.Phase):
		t.field("What follows", "it is never done, and the transaction ends as resolved")
	default:
		t.field("What follows", "the transaction is cancelled: its cancels undo what the try may have done")
	}
	unknownEffects(t, d.Transaction, func(step *client.Step, op *client.Operation) bool {
		return step.Name == d.Step && op.Phase == d.Phase
	})
}

// resolvePreview shows what a resolve gives up.
func resolvePreview(t *table, tx *client.Transaction) {
	t.field("Transaction", fmt.Sprintf("%s, version %d (%s, %s)", tx.ID, tx.Version, tx.Definition.Name, statusText(tx)))
	t.field("What follows", "its dead letters are given up, and it ends as resolved once the rest is settled")
	unknownEffects(t, tx, func(_ *client.Step, op *client.Operation) bool { return op.State == saga.OperationDead })
}

// unknownEffects names the operations whose effect is not known once those that match are given up.
func unknownEffects(t *table, tx *client.Transaction, match func(*client.Step, *client.Operation) bool) {
	var names []string
	for i := range tx.Steps {
		step := &tx.Steps[i]
		for j := range step.Operations {
			op := &step.Operations[j]
			if op.State == saga.OperationGivenUp || givesUp(step.Kind, op.Phase) && match(step, op) {
				names = append(names, fmt.Sprintf("%s of step %s (participant %s, action %s)", op.Phase, step.Name, step.Participant, step.Action))
			}
		}
	}
	text := strings.Join(names, "; ")
	if text == "" {
		text = "none"
	}
	t.field("Not known then", text)
}

// givesUp reports whether giving the operation up leaves its effect unknown: a try before the decision is undone.
func givesUp(kind saga.Kind, phase saga.Phase) bool {
	return kind == saga.KindRetriable || kind != saga.KindPivot && phase != saga.PhaseTry
}

func kindOf(tx *client.Transaction, step string) saga.Kind {
	for i := range tx.Steps {
		if tx.Steps[i].Name == step {
			return tx.Steps[i].Kind
		}
	}
	return ""
}

// explainAction explains an operator's action that failed. An unknown outcome is not a failure.
func (r *remote) explainAction(what, look string, err error) error {
	explained := r.explain(what, err)
	var u *client.UnknownError
	if errors.As(err, &u) {
		return fmt.Errorf("%w\nWhether it was done is not known: look at \"coordinator %s\", and do it again only if it was not", explained, look)
	}
	return explained
}
