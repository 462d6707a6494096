package sagatest

import (
	"bytes"
	"errors"

	"github.com/sagacity-tx/sagacity/saga"
)

// Cell is a cell of the transition table: a status and an event, and for a reply also the state of its operation and what
// the reply says.
type Cell struct {
	Status saga.Status // "": not submitted
	Event  string
	State  string // of a reply's operation
	Reply  string
}

// Coverage counts how often each cell was reached: by the events of one run, or by how many runs.
type Coverage map[Cell]int

// cover counts the cell of an event that came to Step (Judge turns others away), if the transaction is as it is stored at
// this moment. Stale rows lead to cells too, in which nothing counts.
func (w *world) cover(c saga.Case, err error) {
	stored := w.database.rows[c.Tx.ID]
	turned := errors.Is(err, saga.ErrNotFound) || errors.Is(err, saga.ErrStale)
	begins := stored == nil && c.Tx.Status == ""
	if turned || c.Changed || !begins && (stored == nil || stored.tx.Version != c.Tx.Version) {
		return
	}
	cell := Cell{Status: c.Tx.Status, Event: eventName(c.Event)}
	if r, ok := c.Event.(saga.Replied); ok {
		op := operation(c.Def, &c.Tx, r.Reply.Step, r.Reply.Phase)
		answersForged := r.Reply.Code == saga.FaultNotTried || r.Reply.Outcome == saga.OutcomeFault && !op.Sent()
		if string(r.Reply.Result.Data) == forgedResult || answersForged {
			return
		}
		cell.State, cell.Reply = stateName(&op), replyName(&op, &r.Reply)
	}
	w.coverage[cell]++
}

func eventName(ev saga.Event) string {
	switch ev.(type) {
	case saga.Submitted:
		return "submit"
	case saga.Replied:
		return "reply"
	case saga.Woken:
		return "wake"
	case saga.CancelRequested:
		return "cancel"
	case saga.ReplayRequested:
		return "replay"
	case saga.EditRequested:
		return "edit"
	case saga.DiscardRequested:
		return "discard"
	case saga.ResolveRequested:
		return "resolve"
	}
	return ""
}

// stateName names the state of an operation as saga/testdata/transitions.golden does. One that still waits for its first
// sending is idle.
func stateName(op *saga.Operation) string {
	name := string(op.State)
	if !op.Sent() && op.State != saga.OperationClosed {
		name = "idle"
	}
	if op.Replaying {
		name += " replaying"
	}
	return name
}

// replyName names a reply as saga/testdata/transitions.golden does.
func replyName(op *saga.Operation, r *saga.Reply) string {
	switch {
	case r.Outcome == saga.OutcomeState:
		return "state " + string(r.State)
	case r.Outcome == saga.OutcomeRetry && op.Sent() && r.Attempt < op.Attempt:
		return "retry of older attempt"
	case r.Outcome == saga.OutcomeRetry && r.Code == saga.CodePanic:
		return "panic"
	case r.Outcome == saga.OutcomeFault && r.Code == saga.FaultContradicts:
		return "contradicts"
	case r.Outcome == saga.OutcomeFault:
		return "fault"
	case r.Outcome == saga.OutcomeDone && op.State == saga.OperationDone && op.Phase == saga.PhaseTry &&
		!bytes.Equal(op.Result.Data, r.Result.Data):
		return "other done"
	}
	return string(r.Outcome)
}

// The dimensions of the table.
var (
	statuses = []saga.Status{
		"", saga.StatusAccepted, saga.StatusRunning, saga.StatusConfirming, saga.StatusCancelling, saga.StatusCommitted,
		saga.StatusCancelled, saga.StatusResolved,
	}
	events = []string{"submit", "wake", "cancel", "replay", "edit", "discard", "resolve"}
	states = []string{
		"idle", "sent", "sent replaying", "waiting", "waiting replaying", "held", "held replaying", "dead", "done", "refused",
		"hanging", "given_up", "closed",
	}
	replyNames = []string{
		"done", "refused", "hanging", "retry", "in_progress", "unknown", "reserved", "panic", "fault", "contradicts", "other done",
		"retry of older attempt", "state absent", "state trying", "state tried", "state refused", "state confirmed",
		"state cancelled", "state past_retention",
	}
)

// Cells lists every cell of the table.
func Cells() []Cell {
	var cells []Cell
	for _, status := range statuses {
		for _, event := range events {
			cells = append(cells, Cell{Status: status, Event: event})
		}
		for _, state := range states {
			for _, reply := range replyNames {
				cells = append(cells, Cell{Status: status, Event: "reply", State: state, Reply: reply})
			}
		}
	}
	return cells
}

// String shows the cell as testdata/unreachable.txt does.
func (c Cell) String() string {
	if c.Event != "reply" {
		return statusName(c.Status) + " | " + c.Event
	}
	return statusName(c.Status) + " | " + c.State + " | " + c.Reply
}
