package main

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/sagacity-tx/sagacity/coordinator/client"
)

func deadLetterRows(t *table, list []client.DeadLetter) {
	t.head("ID", "STATUS", "CAUSE", "PARTICIPANT", "ACTION", "STEP", "PHASE", "TRANSACTION", "UPDATED", "REASON")
	for i := range list {
		d := &list[i]
		t.row(d.ID.String(), string(d.Status), d.Cause, d.Participant, d.Action, d.Step, string(d.Phase), transactionText(d),
			timeText(d.UpdatedAt), clip(d.Reason, reasonColumns))
	}
}

func transactionText(d *client.DeadLetter) string {
	if d.TransactionID.IsZero() {
		return ""
	}
	return d.TransactionID.String()
}

// number returns a number for people; nothing for zero.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func deadLetterFields(t *table, d *client.DeadLetterDetail) {
	t.field("ID", d.ID.String())
	t.field("Kind", d.Kind)
	t.field("Status", string(d.Status))
	t.field("Version", strconv.FormatInt(d.Version, 10))
	t.field("Cause", d.Cause)
	t.field("Outcome", string(d.Outcome))
	t.field("Reason", d.Reason)
	t.field("Fingerprint", d.Fingerprint)
	t.field("Tenant", d.Tenant)
	t.field("Transaction", transactionText(&d.DeadLetter))
	if d.Transaction != nil {
		t.field("  status", statusText(d.Transaction))
	}
	t.field("Step", d.Step)
	t.field("Phase", string(d.Phase))
	t.field("Participant", d.Participant)
	t.field("Action", d.Action)
	t.field("Attempt", number(d.Attempt))
	t.field("Revision", number(d.Revision))
	t.field("Inquiry", inquiryText(d.Inquiry))
	t.field("Replay", predictionText(d.Replay))
	t.field("Set aside", fmt.Sprintf("%d times, first at %s", d.BuriedCount, timeText(d.BuriedAt)))
	t.field("Updated", timeText(d.UpdatedAt))
	t.field("Trace", d.Traceparent)
	t.field("Subject", d.Message.Subject)
	t.field("Message", messageText(d.Message.Body))
	editFields(t, d)
	if len(d.Attempts) > 0 {
		attemptRows(t, d.Attempts)
	}
	if len(d.Audit) > 0 {
		t.head("AT", "ACTOR", "ACTION", "ALLOWED", "REASON", "DETAIL")
		for _, a := range d.Audit {
			t.row(timeText(a.At), a.Actor, a.Action, strconv.FormatBool(a.Allowed), a.Reason, a.Detail)
		}
	}
}

// messageColumns bounds how much of a message is shown; -o json has all of it.
const messageColumns = 2000

func messageText(body []byte) string {
	if !utf8.Valid(body) {
		return fmt.Sprintf("%d bytes that are not text; see -o json", len(body))
	}
	return clip(string(body), messageColumns)
}

// replayPreview shows what a replay will send.
func replayPreview(t *table, d *client.DeadLetterDetail) {
	t.field("Dead letter", fmt.Sprintf("%s, version %d, %s", d.ID, d.Version, d.Status))
	t.field("Operation", fmt.Sprintf("%s of step %s, attempt %d so far", d.Phase, d.Step, d.Attempt))
	t.field("Participant", fmt.Sprintf("%s, action %s", d.Participant, d.Action))
	if d.Transaction != nil {
		t.field("Transaction", fmt.Sprintf("%s (%s, %s)", d.Transaction.ID, d.Transaction.Definition.Name, statusText(d.Transaction)))
	}
	t.field("Set aside", d.Cause+optional(": ", d.Reason))
	t.field("Inquiry", inquiryText(d.Inquiry))
	t.field("Replay", predictionText(d.Replay))
	t.field("Message", messageText(d.Message.Body))
	editFields(t, d)
}

// editFields show what a replay sends instead.
func editFields(t *table, d *client.DeadLetterDetail) {
	if d.Edit == nil {
		return
	}
	reserved := "not reserved yet"
	if d.Edit.Reserved {
		reserved = "reserved"
	}
	t.field("Edited", fmt.Sprintf("revision %d, %s", d.Edit.Revision, reserved))
	t.field("New input", messageText(d.Edit.Input))
}

func optional(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}
