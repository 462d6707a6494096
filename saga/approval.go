package saga

import (
	"fmt"
	"time"
)

// Limits of approvals (D4, E3).
const (
	ApprovalExpiryDefault    = 15 * time.Minute
	ApprovalExpiryMin        = time.Second
	ApprovalExpiryMax        = 24 * time.Hour
	BreakGlassReasonBytesMin = 30 // whoever approves a replay alone says why, in a sentence
)

// Approval is a second person's consent to one replay (D4): of this dead letter, at this version, with this content.
// Whatever has changed since then needs a new one.
type Approval struct {
	DeadLetter    [16]byte
	Version       int64 // of the dead letter that was approved
	Revision      int
	ContentSHA256 [32]byte
	Approver      string
	ExpiresAt     time.Time
	Used          bool
	Revoked       bool
}

// Binding is what an approval of the dead letter, as it is now, is good for.
func (l Letter) Binding() Approval {
	a := Approval{DeadLetter: l.ID, Version: l.Version, Revision: l.Revision, ContentSHA256: l.ContentSHA256}
	if l.Proposal != nil {
		a.Revision, a.ContentSHA256 = l.Proposal.Revision, l.Proposal.ContentSHA256
	}
	return a
}

// NeedsApproval reports whether a replay of the dead letter needs an approval: what became of the operation is not
// known, the participant holds other content (D4), or it would send what somebody has edited (S1.5).
func (l Letter) NeedsApproval() bool {
	return inDoubt(l.Outcome, l.Cause) || l.Proposal != nil
}

// inDoubt reports whether nobody knows what became of an operation, or its participant holds other content.
func inDoubt(outcome Outcome, cause string) bool {
	return outcome == OutcomeUnknown || cause == FaultConflict
}

// judgeApproval says why a replay may not go on without another approval: a code of a StateError, and the problem.
func judgeApproval(l Letter, r LetterRequest, now time.Time) (code, problem string) {
	a, is := r.Approval, l.Binding()
	switch {
	case a == nil && (r.ApproveAll || l.NeedsApproval()):
		return CodeApprovalRequired, "it needs the approval of a second person"
	case a == nil:
		return "", ""
	case a.DeadLetter != is.DeadLetter:
		return CodeApprovalMismatch, "it has no such approval"
	}
	if code, problem := a.ended(now); code != "" {
		return code, problem
	}
	switch {
	case a.Version != is.Version:
		return CodeApprovalMismatch, fmt.Sprintf("version %d was approved, and it has version %d", a.Version, is.Version)
	case a.Revision != is.Revision || a.ContentSHA256 != is.ContentSHA256:
		return CodeApprovalMismatch, "other content was approved than would be sent"
	case a.Approver == r.Actor:
		return CodeApprovalOwn, "whoever approves it must be somebody else than who replays it"
	}
	return "", ""
}

// ended says why an approval is no more: it was used or revoked, or its time is over.
func (a *Approval) ended(now time.Time) (code, problem string) {
	switch {
	case a.Used:
		return CodeApprovalUsed, "the approval has been used, and it was good for one replay"
	case a.Revoked:
		return CodeApprovalRevoked, "the approval was revoked"
	case !now.Before(a.ExpiresAt):
		return CodeApprovalExpired, "the approval expired at " + a.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return "", ""
}

// JudgeRevoke decides whether an approval can still be revoked. The error is a *StateError with the code
// approval_used, approval_revoked or approval_expired.
func JudgeRevoke(a Approval, now time.Time) error {
	if code, problem := a.ended(now); code != "" {
		return &StateError{Code: code, Event: "revoke", Problem: problem}
	}
	return nil
}

// ApprovalExpiry returns how long an approval lasts: as long as is asked for, else as the coordinator is configured.
// The error is an *InvalidError with the code invalid_duration.
func ApprovalExpiry(asked, configured time.Duration) (time.Duration, error) {
	switch {
	case asked == 0 && configured == 0:
		return ApprovalExpiryDefault, nil
	case asked == 0:
		asked = configured
	}
	if asked < ApprovalExpiryMin || asked > ApprovalExpiryMax {
		return 0, &InvalidError{
			Code: "invalid_duration", Field: "expires_in", Problem: "is " + asked.String(),
			Fix: fmt.Sprintf("use %s to %s", ApprovalExpiryMin, ApprovalExpiryMax),
		}
	}
	return asked, nil
}

// CheckBreakGlass returns an *InvalidError with the code break_glass_reason unless the reason is long enough for an
// action that nobody else has looked at (E3).
func CheckBreakGlass(reason string) error {
	if len(reason) >= BreakGlassReasonBytesMin {
		return nil
	}
	return &InvalidError{
		Code: CodeBreakGlassReason, Field: "reason", Problem: fmt.Sprintf("has %d bytes, and nobody else looks at this", len(reason)),
		Fix: fmt.Sprintf("say in at least %d why no second person can approve it, and how you know that it is right", BreakGlassReasonBytesMin),
	}
}
