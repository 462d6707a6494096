package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// Completion asks the coordinator for the newest ids, and gives up soon: a shell that hangs is worse than one
// that does not complete.
const (
	completionTimeout = time.Second
	completionMax     = 20
)

func (r *remote) completeTransactions(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || r.connect(-1) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	page, err := r.client.List(ctx, client.Filter{Limit: completionMax})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []cobra.Completion
	for i := range page.Transactions {
		tx := &page.Transactions[i]
		list = append(list, cobra.CompletionWithDesc(tx.ID.String(), printable(tx.Definition.Name+" "+statusText(tx))))
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func (r *remote) completeDeadLetters(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || r.connect(-1) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	page, err := r.client.DeadLetters(ctx, client.DeadLetterFilter{Status: saga.DeadLetterOpen, Limit: completionMax})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []cobra.Completion
	for i := range page.DeadLetters {
		d := &page.DeadLetters[i]
		list = append(list, cobra.CompletionWithDesc(d.ID.String(), printable(d.Cause+" "+d.Participant+" "+d.Action)))
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func (r *remote) completePauses(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || r.connect(-1) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	pauses, err := r.client.Pauses(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []cobra.Completion
	for i := range pauses {
		list = append(list, cobra.CompletionWithDesc(pauses[i].ID.String(), printable(scopeText(pauses[i].Scope))))
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func (r *remote) completeParticipants(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || r.connect(-1) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	participants, err := r.client.Participants(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []cobra.Completion
	for i := range participants.Participants {
		list = append(list, printable(participants.Participants[i].Name))
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
