package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// bulkFlags say which dead letters are replayed together, and how.
type bulkFlags struct {
	selection    client.Selection
	canary, rate int
	dryRun       bool
}

func (b *bulkFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.selection.Fingerprint, "group", "", "all open ones of this fingerprint, as a job")
	cmd.Flags().StringVar(&b.selection.Participant, "participant", "", "all open ones of this participant, as a job")
	cmd.Flags().StringVar(&b.selection.Action, "action", "", "all open ones of this action, as a job")
	choiceFlag(cmd, &b.selection.Cause, "cause", "", deadLetterCauses, "all open ones with this cause, as a job")
	cmd.Flags().StringVar(&b.selection.Transaction, "transaction", "", "all open ones of the transaction with this id, as a job")
	cmd.Flags().IntVar(&b.canary, "canary", 5, "of a job: how many go first; the rest only if all of them are settled well; 0 for none")
	cmd.Flags().IntVar(&b.rate, "rate", saga.JobRateDefault, "of a job: replays per second")
	cmd.Flags().BoolVar(&b.dryRun, "dry-run", false, "of a job: only say what it would do; start it later with \"coordinator job start\"")
}

func (b *bulkFlags) given() bool { return b.selection != client.Selection{} }

// run makes a job, shows its plan, asks, and starts it.
func (b *bulkFlags) run(cmd *cobra.Command, r *remote, reason string, yes bool) error {
	if b.rate < 1 || b.rate > saga.JobRateMax { // the API takes 0 for the default
		return usageError("--rate is %d; use 1 to %d", b.rate, saga.JobRateMax)
	}
	j, err := r.client.CreateJob(cmd.Context(), client.JobForm{Selection: b.selection, Canary: b.canary, Rate: b.rate, Reason: reason})
	if err != nil {
		return r.explainAction("make a job", "job list", err)
	}
	for j.State == saga.JobPlanning {
		if !pause(cmd.Context(), 4*inquiryLook) {
			return fmt.Errorf("stopped waiting for the dry run of job %s; see \"coordinator job show %s\"", j.ID, j.ID)
		}
		if j, err = r.client.Job(cmd.Context(), j.ID); err != nil {
			return r.explain("read job "+j.ID.String(), err)
		}
	}
	if b.dryRun {
		fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: nothing was replayed; start it with \"coordinator job start %s\", or abort it\n", j.ID)
		return showJob(newOutput(cmd, r.format), &j)
	}
	if err := r.commandJob(cmd, &j, saga.JobCommandStart, "Start it?", reason, yes); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: follow it with \"coordinator job watch %s\"\n", j.ID)
	return nil
}
