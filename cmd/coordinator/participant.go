package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
)

func newParticipant() *cobra.Command {
	r := &remote{}
	cmd := newGroup("participant", "See how participants do, pause and resume them",
		"participant shows how the participants do and what waits for them, and pauses and resumes them, through the API of a\n"+
			"coordinator.", r)
	cmd.AddCommand(newParticipantList(r), newParticipantPause(r), newParticipantResume(r))
	return cmd
}

func newParticipantList(r *remote) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "list", Short: "List participants, and what waits for them", Args: cobra.NoArgs,
		Long: "list shows the participants that something was sent to, that something waits for, or that are paused: the state of\n" +
			"the breaker (open: it is silent), attempts in flight, how many operations wait for what, and what is paused. Breaker\n" +
			"and drain are as the coordinator that answers sees them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watchList(cmd, r, watch, func(ctx context.Context, out output) error {
				list, err := r.client.Participants(ctx)
				if err != nil {
					return r.explain("list participants", err)
				}
				if list.Partial {
					fmt.Fprintln(cmd.ErrOrStderr(), "coordinator: only the 10,000 transactions that are due first were counted")
				}
				return out.data(list.Participants, func(t *table) { participantRows(t, list.Participants) })
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again when it has changed, until you stop it")
	return cmd
}

func participantRows(t *table, list []client.Participant) {
	t.head("NAME", "BREAKER", "IN FLIGHT", "WAITING", "DRAIN", "PAUSED")
	for i := range list {
		p := &list[i]
		drain := ""
		if p.Draining {
			drain = fmt.Sprintf("%d/s", p.Ceiling)
		}
		var paused []string
		for j := range p.Paused {
			switch s := p.Paused[j].Scope; s.Scope {
			case client.ScopeAll:
				paused = append(paused, "everything")
			case client.ScopeAction:
				paused = append(paused, "action "+s.Action)
			default:
				paused = append(paused, "yes")
			}
		}
		t.row(p.Name, p.Breaker, fmt.Sprint(p.InFlight), waitingText(p.Waiting), drain, strings.Join(paused, ", "))
	}
}

// waitingText names what is waited for, the most first.
func waitingText(waiting map[string]int) string {
	type wait struct {
		reason string
		count  int
	}
	var waits []wait
	for reason, n := range waiting {
		waits = append(waits, wait{reason, n})
	}
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.reason, b.reason)) })
	var texts []string
	for _, w := range waits {
		texts = append(texts, fmt.Sprintf("%s %d", w.reason, w.count))
	}
	return strings.Join(texts, ", ")
}

// participantArg reads the one argument that is a participant's name.
func participantArg(cmd *cobra.Command, args []string) (client.Scope, error) {
	if len(args) != 1 {
		return client.Scope{}, usageError("%s needs the name of one participant; \"coordinator participant list\" shows them", cmd.CommandPath())
	}
	scope := participantScope(args[0])
	return scope, checkScope(scope)
}

func newParticipantPause(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "pause NAME --reason TEXT", Short: "Send nothing more to a participant", ValidArgsFunction: r.completeParticipants,
		Long: "pause is the same as: coordinator pause --participant NAME",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := participantArg(cmd, args)
			if err != nil {
				return err
			}
			return r.pause(cmd, s, reason, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

func newParticipantResume(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "resume NAME --reason TEXT", Short: "Send to a participant again", ValidArgsFunction: r.completeParticipants,
		Long: "resume is the same as: coordinator resume --participant NAME. Its actions that are paused by themselves stay so.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := participantArg(cmd, args)
			if err != nil {
				return err
			}
			return r.resumeScope(cmd, s, reason, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}
