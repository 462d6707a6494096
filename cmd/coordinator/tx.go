package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newTx() *cobra.Command {
	r := &remote{}
	cmd := newGroup("tx", "Start transactions and look after them",
		"tx starts transactions and looks after them, through the API of a coordinator.", r)
	cmd.AddCommand(newTxStart(r), newTxGet(r), newTxList(r), newTxWatch(r), newTxWait(r), newTxCancel(r), newTxResolve(r), newTxAttempts(r), newTxExplain(r))
	return cmd
}

// transactionArg reads the one argument that is a transaction id.
func transactionArg(cmd *cobra.Command, args []string) (saga.ID, error) {
	if len(args) != 1 {
		return saga.ID{}, usageError("%s needs the ID of one transaction; \"coordinator tx list\" shows them", cmd.CommandPath())
	}
	id, err := saga.ParseID(args[0])
	if err != nil {
		return saga.ID{}, usageError("%w", err)
	}
	return id, nil
}

func newTxGet(r *remote) *cobra.Command {
	var requestID string
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show a transaction", ValidArgsFunction: r.completeTransactions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var tx client.Transaction
			if requestID != "" {
				if len(args) > 0 {
					return usageError("an ID is given beside --request-id; give one of the two")
				}
				var err error
				if tx, err = r.client.FindByRequest(cmd.Context(), requestID); err != nil {
					return r.explain("find the transaction of request "+requestID, err)
				}
				return showTransaction(newOutput(cmd, r.format), &tx)
			}
			id, err := transactionArg(cmd, args)
			if err != nil {
				return err
			}
			if tx, err = r.client.Get(cmd.Context(), id); err != nil {
				return r.explain("read transaction "+id.String(), err)
			}
			return showTransaction(newOutput(cmd, r.format), &tx)
		},
	}
	cmd.Flags().StringVar(&requestID, "request-id", "", "instead of ID: the request id that it was started with")
	return cmd
}

func newTxList(r *remote) *cobra.Command {
	var f client.Filter
	var l listFlags
	var suspended bool
	cmd := &cobra.Command{
		Use: "list", Short: "List transactions, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("suspended") {
				f.Suspended = &suspended
			}
			if f.Definition != "" && saga.CheckName("definition", f.Definition) != nil {
				return usageError("--definition is %q; definitions have names of letters, digits, '-' and '_'", f.Definition)
			}
			page, err := l.page()
			if err != nil {
				return err
			}
			f.Limit = page
			return watchList(cmd, r, l.watch, func(ctx context.Context, out output) error {
				list, err := collect(cmd, l, r.client.All(ctx, f))
				if err != nil {
					return r.explain("list transactions", err)
				}
				return out.data(list, func(t *table) { transactionRows(t, list) })
			})
		},
	}
	choiceFlag(cmd, (*string)(&f.Status), "status", "", statusNames(), "only those with this status")
	cmd.Flags().StringVar(&f.Definition, "definition", "", "only those of the definition with this name")
	cmd.Flags().BoolVar(&suspended, "suspended", false, "only those that wait for a person; --suspended=false: only others")
	l.add(cmd)
	return cmd
}

func statusNames() []string {
	return []string{
		string(saga.StatusAccepted), string(saga.StatusRunning), string(saga.StatusConfirming), string(saga.StatusCancelling),
		string(saga.StatusCommitted), string(saga.StatusCancelled), string(saga.StatusResolved),
	}
}

// listFlags say how much of a list is shown.
type listFlags struct {
	limit int
	all   bool
	watch bool
}

// pageMax is the most that a coordinator gives at a time.
const pageMax = 500

func (l *listFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.limit, "limit", 50, "show at most so many")
	cmd.Flags().BoolVar(&l.all, "all", false, "show all")
	cmd.Flags().BoolVar(&l.watch, "watch", false, "show it again when it has changed, until you stop it")
}

// page returns how many to ask for at a time: one more than wanted tells whether there are more.
func (l *listFlags) page() (int, error) {
	if l.limit < 1 {
		return 0, usageError("--limit is %d; use at least 1, or --all", l.limit)
	}
	if l.all {
		return pageMax, nil
	}
	return min(l.limit+1, pageMax), nil
}

// collect gathers what is to be shown of a list that begins with the newest, and says so if there is more.
func collect[T any](cmd *cobra.Command, l listFlags, entries iter.Seq2[T, error]) ([]T, error) {
	return collectOf(cmd, l, "newest", entries)
}

// collectOf is collect for a list that begins with the ones named.
func collectOf[T any](cmd *cobra.Command, l listFlags, ones string, entries iter.Seq2[T, error]) ([]T, error) {
	list := []T{}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if !l.all && len(list) == l.limit {
			fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: only the %s %d are shown; see --limit and --all\n", ones, l.limit)
			break
		}
		list = append(list, e)
	}
	return list, nil
}

func newTxCancel(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "cancel ID --reason TEXT", Short: "Ask to cancel a transaction", ValidArgsFunction: r.completeTransactions,
		Long: "cancel asks to cancel a transaction. It shows the transaction as it is after that: cancelling or cancelled,\n" +
			"or running while it is being found out whether its pivot has been executed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := transactionArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			if !yes {
				tx, err := r.client.Get(cmd.Context(), id)
				if err != nil {
					return r.explain("read transaction "+id.String(), err)
				}
				if err := confirm(cmd, yes, fmt.Sprintf("Cancel transaction %s (%s, %s)?", id, tx.Definition.Name, tx.Status)); err != nil {
					return err
				}
			}
			tx, err := r.client.Cancel(cmd.Context(), id, reason)
			if err != nil {
				return r.explain("cancel transaction "+id.String(), err)
			}
			if tx.Status == saga.StatusRunning {
				fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: it is being found out whether it can still be cancelled; follow it with \"coordinator tx watch %s\"\n", id)
			}
			return showTransaction(newOutput(cmd, r.format), &tx)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who look at it later (required)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func newTxAttempts(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "attempts ID", Short: "List the attempts that did not settle their operation", ValidArgsFunction: r.completeTransactions,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := transactionArg(cmd, args)
			if err != nil {
				return err
			}
			list, err := r.client.Attempts(cmd.Context(), id)
			if err != nil {
				return r.explain("read the attempts of transaction "+id.String(), err)
			}
			if list == nil {
				list = []client.Attempt{}
			}
			return newOutput(cmd, r.format).data(list, func(t *table) { attemptRows(t, list) })
		},
	}
}
