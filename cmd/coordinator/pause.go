package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// scopeFlags say what to pause or to resume.
type scopeFlags struct {
	all                             bool
	definition, participant, action string
}

func (s *scopeFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.all, "all", false, "everything")
	cmd.Flags().StringVar(&s.definition, "definition", "", "what transactions of definitions of this name send")
	cmd.Flags().StringVar(&s.participant, "participant", "", "everything that goes to this participant")
	cmd.Flags().StringVar(&s.action, "action", "", "one action of a participant: PARTICIPANT/ACTION")
}

// given counts the scopes that are given.
func (s *scopeFlags) given(cmd *cobra.Command) (n int) {
	for _, name := range []string{"all", "definition", "participant", "action"} {
		if cmd.Flags().Changed(name) {
			n++
		}
	}
	return n
}

// scope returns the one that is given.
func (s *scopeFlags) scope(cmd *cobra.Command) (client.Scope, error) {
	if s.given(cmd) != 1 {
		return client.Scope{}, usageError("%s needs one of --all, --definition, --participant and --action", cmd.CommandPath())
	}
	var scope client.Scope
	switch {
	case cmd.Flags().Changed("definition"):
		scope = client.Scope{Scope: client.ScopeDefinition, Definition: s.definition}
	case cmd.Flags().Changed("participant"):
		scope = participantScope(s.participant)
	case cmd.Flags().Changed("action"):
		participant, action, _ := strings.Cut(s.action, "/")
		scope = client.Scope{Scope: client.ScopeAction, Participant: participant, Action: action}
	case s.all:
		scope = client.Scope{Scope: client.ScopeAll}
	default:
		return scope, usageError("--all=false says nothing; leave it out")
	}
	return scope, checkScope(scope)
}

func participantScope(name string) client.Scope {
	return client.Scope{Scope: client.ScopeParticipant, Participant: name}
}

func checkScope(s client.Scope) error {
	if err := pauseOf(s).Check(); err != nil {
		return usageError("%w", err)
	}
	return nil
}

func pauseOf(s client.Scope) *flow.Pause {
	return &flow.Pause{Scope: flow.Scope(s.Scope), Definition: s.Definition, Participant: s.Participant, Action: s.Action}
}

func scopeText(s client.Scope) string { return pauseOf(s).String() }

func newPause() *cobra.Command {
	r := &remote{}
	var scope scopeFlags
	var reason string
	var yes bool
	cmd := newGroup("pause (--all | --definition NAME | --participant NAME | --action PARTICIPANT/ACTION) --reason TEXT", "Send nothing more of a scope",
		"pause holds a scope back: nothing of it is sent until \"coordinator resume\". Replies are merged and deadlines go on. What\n"+
			"was sent before is carried out.", r)
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := scope.scope(cmd)
		if err != nil {
			return err
		}
		return r.pause(cmd, s, reason, yes)
	}
	scope.add(cmd)
	addReason(cmd, &reason, &yes)
	cmd.AddCommand(newPauseList(r))
	return cmd
}

func newPauseList(r *remote) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "list", Short: "List what is paused", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watchList(cmd, r, watch, func(ctx context.Context, out output) error {
				list, err := r.client.Pauses(ctx)
				if err != nil {
					return r.explain("list what is paused", err)
				}
				return out.data(list, func(t *table) {
					t.head("ID", "PAUSED", "SINCE", "BY", "REASON")
					for i := range list {
						p := &list[i]
						t.row(p.ID.String(), scopeText(p.Scope), timeText(p.CreatedAt), actorText(p), p.Reason)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again when it has changed, until you stop it")
	return cmd
}

func newResume() *cobra.Command {
	r := &remote{}
	var scope scopeFlags
	var reason string
	var yes bool
	cmd := newGroup("resume (ID | --all | --definition NAME | --participant NAME | --action PARTICIPANT/ACTION) --reason TEXT", "End a pause",
		"resume ends a pause, named by its ID or by its scope. What it held is sent within about five seconds, a large backlog at\n"+
			"a bounded rate. --all ends the pause of everything; other pauses stay.", r)
	cmd.ValidArgsFunction = r.completePauses
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			s, err := scope.scope(cmd)
			if err != nil {
				return err
			}
			return r.resumeScope(cmd, s, reason, yes)
		}
		if scope.given(cmd) > 0 {
			return usageError("%s takes an ID or a scope, not both", cmd.CommandPath())
		}
		id, err := uuid.Parse(args[0])
		if err != nil || len(args[0]) != 36 {
			return usageError("%q is not the ID of a pause; \"coordinator pause list\" shows them", args[0])
		}
		return r.resume(cmd, id.String(), func(p *client.Pause) bool { return p.ID == id }, reason, yes)
	}
	scope.add(cmd)
	addReason(cmd, &reason, &yes)
	return cmd
}

// pause pauses a scope, after a question.
func (r *remote) pause(cmd *cobra.Command, s client.Scope, reason string, yes bool) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	what := scopeText(s)
	if s.Scope != client.ScopeAll {
		r.readKnown(cmd.Context()).warn(cmd.ErrOrStderr(), s)
	}
	if err := confirm(cmd, yes, fmt.Sprintf("Send nothing more of %s until it is resumed? Replies are merged and deadlines go on.", what)); err != nil {
		return err
	}
	p, err := r.client.Pause(cmd.Context(), s, reason)
	if err != nil {
		return r.explain("pause "+what, err)
	}
	if p.Reason != strings.TrimSpace(reason) {
		fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: %s was paused before\n", what)
	}
	return showPause(newOutput(cmd, r.format), &p)
}

// resumeScope ends the pause of a scope, after a question.
func (r *remote) resumeScope(cmd *cobra.Command, s client.Scope, reason string, yes bool) error {
	return r.resume(cmd, scopeText(s), func(p *client.Pause) bool { return p.Scope == s }, reason, yes)
}

// resume ends the pause that matches, after a question.
func (r *remote) resume(cmd *cobra.Command, what string, match func(*client.Pause) bool, reason string, yes bool) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	list, err := r.client.Pauses(cmd.Context())
	if err != nil {
		return r.explain("list what is paused", err)
	}
	at := slices.IndexFunc(list, func(p client.Pause) bool { return match(&p) })
	if at < 0 {
		return fmt.Errorf("there is no pause of %s; \"coordinator pause list\" shows what is paused", what)
	}
	p := &list[at]
	question := fmt.Sprintf("Resume %s, paused by %s since %s: %s?", scopeText(p.Scope), actorText(p), timeText(p.CreatedAt), p.Reason)
	if err := confirm(cmd, yes, question); err != nil {
		return err
	}
	ended, err := r.client.Resume(cmd.Context(), p.ID, reason)
	if err != nil {
		return r.explain("resume "+scopeText(p.Scope), err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: %s is resumed\n", scopeText(ended.Scope))
	out := newOutput(cmd, r.format)
	if out.format == formatTable {
		return nil
	}
	return out.data(ended, nil)
}

func showPause(out output, p *client.Pause) error {
	return out.data(p, func(t *table) {
		t.field("Pause", p.ID.String())
		t.field("Paused", scopeText(p.Scope))
		t.field("Since", timeText(p.CreatedAt))
		t.field("By", actorText(p))
		t.field("Reason", p.Reason)
	})
}

func actorText(p *client.Pause) string {
	if p.Automatic {
		return p.Actor + ", automatically"
	}
	return p.Actor
}
