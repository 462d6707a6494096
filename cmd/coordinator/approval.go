package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// addApprovalFlags are those of coordinators: when a replay needs an approval, and how long one lasts (D4).
func addApprovalFlags(cmd *cobra.Command, cfg *serverConfig) {
	cmd.Flags().BoolVar(&cfg.ApproveAll, "approve-all", false, "every replay of a dead letter needs the approval of a second person, not only that of what is unknown or in conflict")
	cmd.Flags().BoolVar(&cfg.AllowEdit, "allow-edit", false, "operators may replay with another input what has never run, if a second person approves it")
	cmd.Flags().DurationVar(&cfg.ApprovalExpiry, "approval-expiry", saga.ApprovalExpiryDefault, "how long an approval lasts that says nothing else, at most 24h")
}

func checkApprovalFlags(cfg *serverConfig) error {
	if _, err := saga.ApprovalExpiry(cfg.ApprovalExpiry, 0); err != nil || cfg.ApprovalExpiry == 0 {
		return usageError("--approval-expiry is %s; use 1s to 24h", cfg.ApprovalExpiry)
	}
	return nil
}

func newDLQApprove(r *remote) *cobra.Command {
	var reason string
	var yes bool
	var expiresIn time.Duration
	cmd := &cobra.Command{
		Use: "approve ID --reason TEXT", Short: "Allow somebody else one replay of a dead letter", ValidArgsFunction: r.completeDeadLetters,
		Long: "approve allows somebody else one replay of a dead letter, as it is now: it shows first what would be sent. The\n" +
			"approval ends when it is used, after a while, and when the dead letter changes. What is unknown or in conflict can\n" +
			"only be replayed with one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := deadLetterArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			if _, err := saga.ApprovalExpiry(expiresIn, 0); err != nil {
				return usageError("--expires-in is %s; use 1s to 24h", expiresIn)
			}
			return runApprove(cmd, r, id, reason, expiresIn, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	cmd.Flags().DurationVar(&expiresIn, "expires-in", 0, "how long it lasts, at most 24h (default: as the coordinator is configured)")
	return cmd
}

func runApprove(cmd *cobra.Command, r *remote, id uuid.UUID, reason string, expiresIn time.Duration, yes bool) error {
	d, err := r.client.DeadLetter(cmd.Context(), id)
	if err != nil {
		return r.explain("read dead letter "+id.String(), err)
	}
	if err := confirmShown(cmd, yes, "Allow somebody else to replay it, once?", func(t *table) { replayPreview(t, &d) }); err != nil {
		return err
	}
	a, err := r.client.Approve(cmd.Context(), id, d.Version, reason, expiresIn)
	if err != nil {
		return r.explainAction("approve dead letter "+id.String(), "approval list --dead-letter "+id.String(), err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: somebody else may replay it once until %s: coordinator dlq replay %s --approval %s --reason TEXT\n",
		timeText(a.ExpiresAt), id, a.ID)
	return showApproval(newOutput(cmd, r.format), &a)
}

// approvalFlags say how a replay is approved.
type approvalFlags struct {
	id         string
	breakGlass bool
}

func (f *approvalFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "approval", "", "ID of the approval that it uses up; \"coordinator dlq approve\" gives one to somebody else")
	cmd.Flags().BoolVar(&f.breakGlass, "break-glass", false, "replay without an approval because nobody else is there; the reason has at least 30 bytes, and everybody is told")
}

// options checks the flags before anything is sent.
func (f *approvalFlags) options(cmd *cobra.Command, reason string) ([]client.ReplayOption, error) {
	if f.breakGlass && cmd.Flags().Changed("approval") {
		return nil, usageError("%s takes --approval or --break-glass, not both", cmd.CommandPath())
	}
	if f.breakGlass {
		if err := saga.CheckBreakGlass(reason); err != nil {
			return nil, usageError("--break-glass: the %w", err)
		}
		return []client.ReplayOption{client.WithBreakGlass()}, nil
	}
	if !cmd.Flags().Changed("approval") {
		return nil, nil
	}
	id, err := uuid.Parse(f.id)
	if err != nil || len(f.id) != 36 {
		return nil, usageError("%q is not the ID of an approval; \"coordinator approval list\" shows them", f.id)
	}
	return []client.ReplayOption{client.WithApproval(id)}, nil
}

func newApproval() *cobra.Command {
	r := &remote{}
	cmd := newGroup("approval", "Look at approvals of replays, and revoke them",
		"approval shows approvals, each of which allows one replay of a dead letter, and revokes them, through the API of a\n"+
			"coordinator. \"coordinator dlq approve\" gives one.", r)
	cmd.AddCommand(newApprovalList(r), newApprovalRevoke(r))
	return cmd
}

func newApprovalList(r *remote) *cobra.Command {
	var f client.ApprovalFilter
	var l listFlags
	var deadLetter string
	cmd := &cobra.Command{
		Use: "list", Short: "List approvals, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if deadLetter != "" {
				if f.DeadLetter, err = deadLetterArg(cmd, []string{deadLetter}); err != nil {
					return err
				}
			}
			if f.Limit, err = l.page(); err != nil {
				return err
			}
			return watchList(cmd, r, l.watch, func(ctx context.Context, out output) error {
				list, err := collect(cmd, l, r.client.AllApprovals(ctx, f))
				if err != nil {
					return r.explain("list approvals", err)
				}
				return out.data(list, func(t *table) { approvalRows(t, list) })
			})
		},
	}
	choiceFlag(cmd, &f.Status, "status", "", []string{"open", "used", "revoked", "expired"}, "only those with this status")
	cmd.Flags().StringVar(&deadLetter, "dead-letter", "", "only those of the dead letter with this id")
	cmd.Flags().StringVar(&f.Approver, "approver", "", "only those that this person gave")
	l.add(cmd)
	return cmd
}

func approvalRows(t *table, list []client.Approval) {
	t.head("ID", "STATUS", "DEAD LETTER", "VERSION", "APPROVER", "EXPIRES", "USED BY", "REASON")
	for i := range list {
		a := &list[i]
		t.row(a.ID.String(), approvalStatusText(a), a.DeadLetter.String(), strconv.FormatInt(a.Version, 10), a.Approver, timeText(a.ExpiresAt), a.UsedBy, clip(a.Reason, reasonColumns))
	}
}

func approvalStatusText(a *client.Approval) string {
	if a.BreakGlass {
		return a.Status + ", break-glass"
	}
	return a.Status
}

func newApprovalRevoke(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke ID --reason TEXT", Short: "End an approval that was not used",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("%s needs the ID of one approval; \"coordinator approval list\" shows them", cmd.CommandPath())
			}
			id, err := uuid.Parse(args[0])
			if err != nil || len(args[0]) != 36 {
				return usageError("%q is not the ID of an approval; \"coordinator approval list\" shows them", args[0])
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Revoke approval %s?", id)); err != nil {
				return err
			}
			a, err := r.client.RevokeApproval(cmd.Context(), id, reason)
			if err != nil {
				return r.explainAction("revoke approval "+id.String(), "approval list", err)
			}
			return showApproval(newOutput(cmd, r.format), &a)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

func showApproval(out output, a *client.Approval) error {
	return out.data(a, func(t *table) {
		t.field("Approval", a.ID.String())
		t.field("Status", approvalStatusText(a))
		t.field("Dead letter", fmt.Sprintf("%s, version %d", a.DeadLetter, a.Version))
		t.field("Approver", a.Approver)
		t.field("Expires", timeText(a.ExpiresAt))
		t.field("Reason", a.Reason)
	})
}
