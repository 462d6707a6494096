package main

import (
	"fmt"
	"strconv"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// reasonColumns bounds texts in lists; a transaction or dead letter on its own shows them whole.
const reasonColumns = 60

func showTransaction(out output, tx *client.Transaction) error {
	return out.data(tx, func(t *table) { transactionFields(t, tx) })
}

// suspendedMark follows the status of a transaction that waits for a person.
const suspendedMark = " (suspended)"

func statusText(tx *client.Transaction) string {
	if tx.Suspended {
		return string(tx.Status) + suspendedMark
	}
	return string(tx.Status)
}

func transactionRows(t *table, list []client.Transaction) {
	t.head("ID", "STATUS", "RESULT", "DEFINITION", "CREATED", "FINISHED")
	for i := range list {
		tx := &list[i]
		t.row(tx.ID.String(), statusText(tx), string(tx.Result), tx.Definition.Name, timeText(tx.CreatedAt), timeText(tx.FinishedAt))
	}
}

func transactionFields(t *table, tx *client.Transaction) {
	t.field("ID", tx.ID.String())
	t.field("Status", statusText(tx))
	t.field("Result", string(tx.Result))
	t.field("Definition", fmt.Sprintf("%s version %d", tx.Definition.Name, tx.Definition.Version))
	t.field("Tenant", tx.Tenant)
	t.field("Client", tx.Client)
	t.field("Request", tx.RequestID)
	t.field("Cause", causeText(tx))
	t.field("Created", timeText(tx.CreatedAt))
	t.field("Start", timeText(tx.StartAt))
	t.field("Deadline", timeText(tx.Deadline))
	t.field("Decided", timeText(tx.DecidedAt))
	t.field("Finished", timeText(tx.FinishedAt))
	t.field("Next due", timeText(tx.WakeAt))
	t.field("Trace", tx.Traceparent)
	if len(tx.Steps) == 0 {
		return
	}
	t.head("STEP", "KIND", "PARTICIPANT", "ACTION", "PHASE", "STATE", "ATTEMPT", "OUTCOME", "CODE", "REASON")
	for _, s := range tx.Steps {
		if len(s.Operations) == 0 {
			t.row(s.Name, string(s.Kind), s.Participant, s.Action)
		}
		for _, op := range s.Operations {
			t.row(s.Name, string(s.Kind), s.Participant, s.Action, string(op.Phase), string(op.State), strconv.Itoa(op.Attempt),
				string(op.Outcome), op.Code, op.Reason)
		}
	}
}

// causeText says why a transaction was or may be cancelled.
func causeText(tx *client.Transaction) string {
	if tx.Cause == nil {
		return ""
	}
	text := string(tx.Cause.Why)
	if tx.Cause.Step != "" {
		text += " at step " + tx.Cause.Step
	}
	for _, more := range []string{tx.Cause.Code, tx.Cause.Reason} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

func attemptRows(t *table, list []client.Attempt) {
	t.head("STEP", "PHASE", "ATTEMPT", "SENT", "ENDED", "OUTCOME", "CODE", "REASON")
	for _, a := range list {
		t.row(a.Step, string(a.Phase), strconv.Itoa(a.Attempt), timeText(a.SentAt), timeText(a.EndedAt), string(a.Outcome), a.Code,
			clip(a.Reason, reasonColumns))
	}
}

// verdictOf turns the end of a transaction into the command's.
func verdictOf(tx *client.Transaction) error {
	id := tx.ID.String()
	switch {
	case tx.Result == saga.ResultSucceeded:
		return nil
	case tx.Result == saga.ResultFailed:
		return fmt.Errorf("transaction %s was cancelled: %s; no effect of it remains", id, causeText(tx))
	case tx.Status.Terminal():
		return fmt.Errorf("transaction %s was ended by an operator, and not all of its effects are known; "+
			"look at \"coordinator tx get %s\" and ask the participants whose operations were given up", id, id)
	}
	return notEnded(tx)
}

func notEnded(tx *client.Transaction) error {
	id := tx.ID.String()
	hint := "it goes on; wait again with \"coordinator tx wait " + id + "\""
	if tx.Suspended {
		hint = "it waits for a person; see \"coordinator tx explain " + id + "\" and \"coordinator dlq list --transaction " + id + "\""
	}
	return withExit(exitWaitTimeout, fmt.Errorf("transaction %s has not ended, it is %s: %s", id, statusText(tx), hint))
}
