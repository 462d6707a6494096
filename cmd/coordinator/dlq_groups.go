package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newDLQGroups(r *remote) *cobra.Command {
	var f client.GroupFilter
	var l listFlags
	cmd := &cobra.Command{
		Use: "groups", Short: "List dead letters by cause, the newest cause first", Args: cobra.NoArgs,
		Long: "groups lists one group for each fingerprint: dead letters of one participant, action, phase and cause whose reasons differ\n" +
			"in numbers, ids and quoted values only. \"coordinator dlq show FINGERPRINT\" shows one.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.Limit, err = l.page(); err != nil {
				return err
			}
			return watchList(cmd, r, l.watch, func(ctx context.Context, out output) error {
				list, err := collect(cmd, l, r.client.AllGroups(ctx, f))
				if err != nil {
					return r.explain("list groups of dead letters", err)
				}
				return out.data(list, func(t *table) { groupRows(t, list) })
			})
		},
	}
	choiceFlag(cmd, (*string)(&f.Status), "status", "", deadLetterStatuses, "only groups that have dead letters with this status")
	cmd.Flags().StringVar(&f.Participant, "participant", "", "only those of this participant")
	l.add(cmd)
	return cmd
}

func newDLQNote(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "note FINGERPRINT TEXT", Short: "Write down what is known about a cause",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || !isFingerprint(args[0]) {
				return usageError("%s needs the FINGERPRINT of a group and one TEXT; \"coordinator dlq groups\" shows the groups", cmd.CommandPath())
			}
			if n := len(args[1]); strings.TrimSpace(args[1]) == "" || n > saga.ReasonBytesMax {
				return usageError("the note has %d bytes; use 1 to %d", n, saga.ReasonBytesMax)
			}
			note, err := r.client.NoteGroup(cmd.Context(), args[0], args[1])
			if err != nil {
				return r.explainAction("note on group "+args[0], "dlq show "+args[0], err)
			}
			out := newOutput(cmd, r.format)
			if out.format == formatTable {
				fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: the note is kept with group %s\n", args[0])
				return nil
			}
			return out.data(note, nil)
		},
	}
}

// isFingerprint reports whether an argument names a group: a dead letter's id is longer.
func isFingerprint(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

func showGroup(cmd *cobra.Command, r *remote, fingerprint string, inquire bool) error {
	if inquire {
		if err := r.inquireGroup(cmd.Context(), fingerprint); err != nil {
			return r.explain("ask about group "+fingerprint, err)
		}
	}
	d, err := r.client.Group(cmd.Context(), fingerprint)
	if err != nil {
		return r.explain("read group "+fingerprint, err)
	}
	return newOutput(cmd, r.format).data(d, func(t *table) { groupFields(t, &d) })
}

func groupRows(t *table, list []client.Group) {
	t.head("FINGERPRINT", "OPEN", "REPLAYING", "ENDED", "CAUSE", "PARTICIPANT", "ACTION", "PHASE", "FIRST SEEN", "LAST SEEN", "NOTES", "REASON")
	for i := range list {
		g := &list[i]
		ended := g.Counts[saga.DeadLetterClosed] + g.Counts[saga.DeadLetterObsolete] + g.Counts[saga.DeadLetterDiscarded]
		t.row(g.Fingerprint, strconv.Itoa(g.Counts[saga.DeadLetterOpen]), number(g.Counts[saga.DeadLetterReplaying]), number(ended), g.Cause, g.Participant,
			g.Action, string(g.Phase), timeText(g.FirstSeen), timeText(g.LastSeen), number(g.NoteCount), clip(g.Reason, reasonColumns))
	}
}

func groupFields(t *table, d *client.GroupDetail) {
	t.field("Fingerprint", d.Fingerprint)
	t.field("Cause", d.Cause)
	t.field("Reason", d.Reason)
	t.field("Participant", d.Participant)
	t.field("Action", d.Action)
	t.field("Phase", string(d.Phase))
	t.field("First seen", timeText(d.FirstSeen))
	t.field("Last seen", timeText(d.LastSeen))
	t.field("Dead letters", statusCounts(d.Counts))
	for _, n := range d.Notes {
		t.field("Note", fmt.Sprintf("%s, %s: %s", timeText(n.At), n.Actor, n.Note))
	}
	if len(d.Sample) == 0 {
		return
	}
	t.field("Replays of "+strconv.Itoa(len(d.Sample)), effectCounts(d.Predicted))
	t.head("ID", "REPLAY", "WHY", "TRANSACTION", "UPDATED")
	for i := range d.Sample {
		l := &d.Sample[i]
		t.row(l.ID.String(), string(l.Replay.Effect), clip(l.Replay.Reason, reasonColumns), transactionText(&l.DeadLetter), timeText(l.UpdatedAt))
	}
}

// statusCounts writes counts in the order in which dead letters go through the statuses.
func statusCounts(counts map[saga.DeadLetterStatus]int) string {
	var parts []string
	for _, status := range deadLetterStatuses {
		if n := counts[saga.DeadLetterStatus(status)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(parts, ", ")
}

// effectCounts writes what replays would do, and how many of them.
func effectCounts(counts map[saga.ReplayEffect]int) string {
	var parts []string
	for _, effect := range saga.ReplayEffects() {
		if n := counts[effect]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, effect))
		}
	}
	return strings.Join(parts, ", ")
}
