package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
)

func newTxWatch(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Print what changes in a transaction until it ends", ValidArgsFunction: r.completeTransactions,
		Long: "watch prints what changes in a transaction until it ends. Its exit code is that of \"tx wait\". As JSON it prints\n" +
			"the transaction on one line after every change.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := transactionArg(cmd, args)
			if err != nil {
				return err
			}
			if err := r.connect(0); err != nil {
				return err
			}
			out := newOutput(cmd, r.format)
			w := watcher{style: out.style, seen: map[string]string{}}
			var last client.Transaction
			for tx, err := range r.client.Watch(cmd.Context(), id) {
				if cmd.Context().Err() != nil {
					return fmt.Errorf("watch transaction %s: interrupted; it goes on", id)
				}
				if err != nil {
					return r.explain("watch transaction "+id.String(), err)
				}
				if err := out.event(tx, w.changes(time.Now(), &tx)); err != nil {
					return err
				}
				last = tx
			}
			return verdictOf(&last)
		},
	}
}

// watcher knows what was printed.
type watcher struct {
	style style
	seen  map[string]string
}

// changes returns a line for everything that is not as it was.
func (w *watcher) changes(now time.Time, tx *client.Transaction) []string {
	var lines []string
	at := now.Format("15:04:05.000")
	note := func(what, state, more string) {
		if w.seen[what] == state+more {
			return
		}
		w.seen[what] = state + more
		if more != "" {
			more = "  " + printable(more)
		}
		lines = append(lines, fmt.Sprintf("%s  %-24s  %s%s", at, printable(what), w.style.paint(colourOf(state), printable(state)), more))
	}
	for _, s := range tx.Steps {
		for _, op := range s.Operations {
			more := fmt.Sprintf("attempt %d", op.Attempt)
			for _, text := range []string{string(op.Outcome), op.Code, op.Reason} {
				if text != "" {
					more += ", " + text
				}
			}
			note(s.Name+" "+string(op.Phase), string(op.State), more)
		}
	}
	more := causeText(tx)
	if tx.Suspended {
		more = "suspended: waits for a person"
	}
	note("transaction", string(tx.Status), more)
	return lines
}
