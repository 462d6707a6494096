package saga

import "fmt"

// InvalidError says what is wrong with something a user sent and what to change. Code is stable.
type InvalidError struct {
	Code    string // stable, for programs
	Field   string // what is wrong, as a path: steps[2].after
	Problem string // why
	Fix     string // what to do
}

// Error returns one line: field, problem, fix.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s %s; %s", e.Field, e.Problem, e.Fix)
}

// StateError says that an event is not allowed in the transaction's present state. It is the illegal pair
// of the transition table; nothing was changed.
type StateError struct {
	Code      string // stable: see the codes below
	Status    Status
	Event     string
	Operation string // "step/phase" where the event names one
	Problem   string
}

// Codes of a StateError.
const (
	CodeNotCancellable = "not_cancellable"   // client cancel after the decision to commit, or after the end
	CodeObsolete       = "obsolete"          // replay or discard of an operation that the decision has closed (D3)
	CodeNotDeadLetter  = "not_a_dead_letter" // replay or discard of an operation that is none, or is being replayed
	CodeFence          = "fence"             // discard of a fence
	CodeOutstanding    = "outstanding"       // resolve while something is still under way
	CodeUnknownStep    = "unknown_step"      // the event names a step or phase that the definition has not
	CodeNotReserved    = "not_reserved"      // replay of what is being edited, before the participant has reserved it (S1.5)
	CodeEditDisabled   = "edit_disabled"     // the coordinator is not configured to edit
	CodeIllegal        = "illegal_event"     // a pair that cannot happen

	CodeApprovalRequired = "approval_required" // replay of what is unknown or in conflict, without an approval (D4)
	CodeApprovalExpired  = "approval_expired"
	CodeApprovalUsed     = "approval_used"
	CodeApprovalRevoked  = "approval_revoked"
	CodeApprovalMismatch = "approval_mismatch" // of another dead letter, or it has changed since it was approved
	CodeApprovalOwn      = "approval_own"      // approved by who replays it
)

// CodeBreakGlassReason is the code of an InvalidError: the reason of who approves alone is too short (E3).
const CodeBreakGlassReason = "break_glass_reason"

// Error returns one line for a person.
func (e *StateError) Error() string {
	on := ""
	if e.Operation != "" {
		on = " of " + e.Operation
	}
	while := ""
	if e.Status != "" {
		while = " while the transaction is " + string(e.Status)
	}
	return fmt.Sprintf("%s%s is not possible%s: %s", e.Event, on, while, e.Problem)
}
