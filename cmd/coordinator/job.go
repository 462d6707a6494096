package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newJob() *cobra.Command {
	r := &remote{}
	cmd := newGroup("job", "Look after bulk replays",
		"job looks after bulk replays, which \"coordinator dlq replay --group\" makes: durable jobs that replay many dead letters, a\n"+
			"few first, at a bounded rate.", r)
	cmd.AddCommand(newJobList(r), newJobShow(r), newJobWatch(r),
		newJobCommand(r, saga.JobCommandStart, "Begin to replay what was planned", "Start it?"),
		newJobCommand(r, saga.JobCommandPause, "Replay nothing more until it is resumed", "Pause it?"),
		newJobCommand(r, saga.JobCommandResume, "Go on, also behind a canary that failed", "Resume it?"),
		newJobCommand(r, saga.JobCommandAbort, "End it: what was not replayed is skipped", "Abort it?"))
	return cmd
}

func jobArg(cmd *cobra.Command, args []string) (uuid.UUID, error) {
	if len(args) == 1 && len(args[0]) == 36 {
		if id, err := uuid.Parse(args[0]); err == nil {
			return id, nil
		}
	}
	return uuid.UUID{}, usageError("%s needs the ID of one job; \"coordinator job list\" shows them", cmd.CommandPath())
}

func newJobList(r *remote) *cobra.Command {
	var l listFlags
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "List bulk replays, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := l.page()
			if err != nil {
				return err
			}
			return watchList(cmd, r, l.watch, func(ctx context.Context, out output) error {
				list, err := collect(cmd, l, r.client.AllJobs(ctx, saga.JobState(state), page))
				if err != nil {
					return r.explain("list jobs", err)
				}
				return out.data(list, func(t *table) {
					t.head("ID", "STATE", "CREATED", "BY", "SELECTION", "CANARY", "RATE", "REASON")
					for i := range list {
						j := &list[i]
						t.row(j.ID.String(), string(j.State), timeText(j.CreatedAt), j.Actor, selectionText(j.Selection), number(j.Canary), strconv.Itoa(j.Rate), clip(j.Reason, reasonColumns))
					}
				})
			})
		},
	}
	choiceFlag(cmd, &state, "state", "", []string{"planning", "planned", "running", "paused", "finished", "aborted"}, "only those in this state")
	l.add(cmd)
	return cmd
}

func newJobShow(r *remote) *cobra.Command {
	var items bool
	var l listFlags
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a bulk replay, or its dead letters",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := jobArg(cmd, args)
			if err != nil {
				return err
			}
			page, err := l.page()
			if err != nil {
				return err
			}
			if !items {
				j, err := r.client.Job(cmd.Context(), id)
				if err != nil {
					return r.explain("read job "+id.String(), err)
				}
				return showJob(newOutput(cmd, r.format), &j)
			}
			list, err := collectOf(cmd, l, "first", r.client.AllJobItems(cmd.Context(), id, "", page))
			if err != nil {
				return r.explain("list items of job "+id.String(), err)
			}
			return newOutput(cmd, r.format).data(list, func(t *table) {
				t.head("NUMBER", "DEAD LETTER", "STATE", "CODE", "PREDICTED", "REPLAYED", "ENDED")
				for i := range list {
					item := &list[i]
					t.row(strconv.Itoa(item.Seq), item.DeadLetterID.String(), string(item.State), item.Code, string(item.Effect), timeText(item.DispatchedAt), timeText(item.EndedAt))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&items, "items", false, "its dead letters, in the order in which they go")
	cmd.Flags().IntVar(&l.limit, "limit", 50, "show at most so many")
	cmd.Flags().BoolVar(&l.all, "all", false, "show all")
	return cmd
}

func newJobWatch(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Show a bulk replay after every change, until it needs a person or has ended",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := jobArg(cmd, args)
			if err != nil {
				return err
			}
			j, err := r.followJob(cmd, id, func(j *client.Job) bool { return !j.State.Active() })
			if err != nil {
				return err
			}
			return jobEnd(&j)
		},
	}
}

// followJob prints a job after every change until it is as wanted.
func (r *remote) followJob(cmd *cobra.Command, id uuid.UUID, until func(*client.Job) bool) (client.Job, error) {
	out := newOutput(cmd, r.format)
	last := ""
	for {
		j, err := r.client.Job(cmd.Context(), id)
		if err != nil {
			return j, r.explain("read job "+id.String(), err)
		}
		if line := jobLine(&j); line != last {
			last = line
			if err := out.event(j, []string{printable(line)}); err != nil {
				return j, err
			}
		}
		if until(&j) {
			return j, nil
		}
		if !pause(cmd.Context(), 200*time.Millisecond) {
			return j, errors.New("stopped watching; the job goes on")
		}
	}
}

// jobEnd makes exit codes of how a job stands: a part of it may have failed.
func jobEnd(j *client.Job) error {
	left := j.Items[saga.JobItemFailedAgain] + j.Items[saga.JobItemRefused]
	switch {
	case j.State == saga.JobPaused:
		return withExit(exitPartial, fmt.Errorf("the job is paused%s", optional(": ", j.Why)))
	case left > 0:
		return withExit(exitPartial, fmt.Errorf("%d were not replayed with success; \"coordinator job show %s --items\" shows them", left, j.ID))
	}
	return nil
}

func newJobCommand(r *remote, command saga.JobCommand, short, question string) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: string(command) + " ID --reason TEXT", Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := jobArg(cmd, args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			j, err := r.client.Job(cmd.Context(), id)
			if err != nil {
				return r.explain("read job "+id.String(), err)
			}
			return r.commandJob(cmd, &j, command, question, reason, yes)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

// commandJob shows a job, asks, and does what was asked, to the job that was shown.
func (r *remote) commandJob(cmd *cobra.Command, j *client.Job, command saga.JobCommand, question, reason string, yes bool) error {
	if !yes { // who is not asked sees the job after it
		if err := confirmShown(cmd, yes, question, func(t *table) { jobFields(t, j) }); err != nil {
			return err
		}
	}
	var after client.Job
	var err error
	if command == saga.JobCommandStart {
		after, err = r.client.StartJob(cmd.Context(), *j, reason)
	} else {
		after, err = r.client.CommandJob(cmd.Context(), j.ID, j.Version, command, reason)
	}
	if err != nil {
		return r.explainAction(string(command)+" job "+j.ID.String(), "job show "+j.ID.String(), err)
	}
	return showJob(newOutput(cmd, r.format), &after)
}

func showJob(out output, j *client.Job) error {
	return out.data(j, func(t *table) { jobFields(t, j) })
}

func jobFields(t *table, j *client.Job) {
	t.field("Job", j.ID.String())
	t.field("State", string(j.State)+optional(": ", j.Why))
	t.field("Selection", selectionText(j.Selection))
	t.field("Canary", number(j.Canary))
	t.field("Rate", strconv.Itoa(j.Rate)+" per second")
	t.field("Plan", j.PlanSHA256)
	t.field("Predicted", effectCounts(j.Predicted))
	t.field("Dead letters", itemCounts(j.Items))
	t.field("Made", timeText(j.CreatedAt)+" by "+j.Actor)
	t.field("Reason", j.Reason)
}

func jobLine(j *client.Job) string {
	return strings.TrimSpace(string(j.State) + ": " + itemCounts(j.Items))
}

func itemCounts(counts map[saga.JobItemState]int) string {
	var parts []string
	for _, state := range saga.JobItemStates() {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

func selectionText(s client.Selection) string {
	var parts []string
	for _, p := range [][2]string{{"fingerprint", s.Fingerprint}, {"participant", s.Participant}, {"action", s.Action}, {"cause", s.Cause}, {"transaction", s.Transaction}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return strings.Join(parts, ", ")
}
