package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
)

func newAudit() *cobra.Command {
	r := &remote{}
	cmd := newGroup("audit", "Look at what operators did",
		"audit shows what operators did and were not allowed to do: who, when, what, why. Entries are only ever added.", r)
	cmd.AddCommand(newAuditList(r))
	return cmd
}

// auditActions are what the audit has entries of.
var auditActions = []string{
	"approve", "break_glass", "cancel", "denied", "discard", "edit", "inquire", "late_reply", "note", "pause", "replay", "resolve", "resume", "revoke",
	"create_job", "start_job", "pause_job", "resume_job", "abort_job", "halt_job", "finish_job",
	"register_definition", "drain_definition", "create_token", "revoke_token", "webhook_create", "webhook_delete", "webhook_test",
}

func newAuditList(r *remote) *cobra.Command {
	var f client.AuditFilter
	var l listFlags
	var allowed, since string
	cmd := &cobra.Command{
		Use: "list", Short: "List the audit, the newest entry first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if allowed != "" {
				only := allowed == "true"
				f.Allowed = &only
			}
			if f.Since, err = sinceOf(since); err != nil {
				return err
			}
			if f.Limit, err = l.page(); err != nil {
				return err
			}
			return watchList(cmd, r, l.watch, func(ctx context.Context, out output) error {
				list, err := collect(cmd, l, r.client.AllAudit(ctx, f))
				if err != nil {
					return r.explain("list the audit", err)
				}
				return out.data(list, func(t *table) { auditRows(t, list) })
			})
		},
	}
	cmd.Flags().StringVar(&f.Actor, "actor", "", "only what this one did")
	choiceFlag(cmd, &f.Action, "action", "", auditActions, "only those")
	cmd.Flags().StringVar(&f.Object, "object", "", "only about the object with this id")
	choiceFlag(cmd, &allowed, "allowed", "", []string{"true", "false"}, "only what was carried out, or only what was refused")
	addSince(cmd, &since, "only")
	l.add(cmd)
	return cmd
}

// addSince adds the flag of how far back a command looks.
func addSince(cmd *cobra.Command, since *string, usage string) {
	cmd.Flags().StringVar(since, "since", "", usage+" since this instant (RFC 3339), or for so long, such as 2d or 24h (default: all)")
}

// sinceOf reads an instant, or how long ago it was. Nothing, or 0, is the zero time: all.
func sinceOf(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	switch d, err := parseSpan(s); {
	case err == nil && d > 0:
		return time.Now().Add(-d), nil
	case err == nil && d == 0:
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, usageError("--since is %q; give an instant such as 2026-01-31T03:00:00Z, or a duration such as 2d or 24h", s)
	}
	return t, nil
}

func auditRows(t *table, list []client.AuditEntry) {
	t.head("AT", "ACTOR", "ACTION", "OBJECT", "ALLOWED", "REASON", "DETAIL")
	for i := range list {
		e := &list[i]
		t.row(timeText(e.At), e.Actor, e.Action, e.Object, strconv.FormatBool(e.Allowed), clip(e.Reason, reasonColumns), clip(e.Detail, reasonColumns))
	}
}
