package saga_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// Every fact that decides about the approval of a replay (D4): one thing at a time differs from a replay that goes on.
func TestJudgeApproval(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	letter := saga.Letter{
		ID: [16]byte{1}, Status: saga.DeadLetterOpen, Version: 3, Step: "a", Phase: saga.PhaseTry,
		Cause: saga.DeadLetterUnknown, Outcome: saga.OutcomeUnknown, Revision: 1, ContentSHA256: [32]byte{7},
	}
	good := letter.Binding()
	good.Approver, good.ExpiresAt = "bob", now.Add(time.Second)
	for name, c := range map[string]struct {
		change func(*saga.Letter, *saga.LetterRequest)
		want   string
	}{
		"good": {func(*saga.Letter, *saga.LetterRequest) {}, ""},
		"none": {func(_ *saga.Letter, r *saga.LetterRequest) { r.Approval = nil }, saga.CodeApprovalRequired},
		"none, a conflict": {func(l *saga.Letter, r *saga.LetterRequest) {
			r.Approval, l.Outcome, l.Cause = nil, saga.OutcomeFault, saga.FaultConflict
		}, saga.CodeApprovalRequired},
		"none, a fault": {func(l *saga.Letter, r *saga.LetterRequest) {
			r.Approval, l.Outcome, l.Cause = nil, saga.OutcomeFault, saga.FaultHandler
		}, ""},
		"none, a panic, all": {func(l *saga.Letter, r *saga.LetterRequest) {
			r.Approval, r.ApproveAll, l.Outcome = nil, true, saga.OutcomeRetry
		}, saga.CodeApprovalRequired},
		"none, timed out":           {func(l *saga.Letter, r *saga.LetterRequest) { r.Approval, l.Cause = nil, saga.DeadLetterExhausted }, saga.CodeApprovalRequired},
		"break-glass":               {func(_ *saga.Letter, r *saga.LetterRequest) { r.Approval, r.BreakGlass = nil, true }, ""},
		"no such approval":          {func(_ *saga.Letter, r *saga.LetterRequest) { r.Approval = &saga.Approval{} }, saga.CodeApprovalMismatch},
		"of another letter":         {func(l *saga.Letter, _ *saga.LetterRequest) { l.ID[0]++ }, saga.CodeApprovalMismatch},
		"of another version":        {func(l *saga.Letter, _ *saga.LetterRequest) { l.Version++ }, saga.CodeApprovalMismatch},
		"of another revision":       {func(l *saga.Letter, _ *saga.LetterRequest) { l.Revision++ }, saga.CodeApprovalMismatch},
		"of other content":          {func(l *saga.Letter, _ *saga.LetterRequest) { l.ContentSHA256[31]++ }, saga.CodeApprovalMismatch},
		"used":                      {func(_ *saga.Letter, r *saga.LetterRequest) { r.Approval.Used = true }, saga.CodeApprovalUsed},
		"used, and it failed again": {func(l *saga.Letter, r *saga.LetterRequest) { r.Approval.Used, l.Version = true, 5 }, saga.CodeApprovalUsed},
		"revoked":                   {func(_ *saga.Letter, r *saga.LetterRequest) { r.Approval.Revoked = true }, saga.CodeApprovalRevoked},
		"expired":                   {func(_ *saga.Letter, r *saga.LetterRequest) { r.Approval.ExpiresAt = now }, saga.CodeApprovalExpired},
		"one's own":                 {func(_ *saga.Letter, r *saga.LetterRequest) { r.Actor = "bob" }, saga.CodeApprovalOwn},
		"obsolete":                  {func(l *saga.Letter, r *saga.LetterRequest) { l.Status, r.Approval = saga.DeadLetterObsolete, nil }, saga.CodeObsolete},
	} {
		l, a := letter, good
		r := saga.LetterRequest{Action: saga.LetterReplay, Actor: "ann", Seen: 0, Approval: &a}
		c.change(&l, &r)
		err := saga.JudgeLetter(l, r, now)
		got := ""
		if state, ok := errors.AsType[*saga.StateError](err); ok {
			got = state.Code
		} else if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "transaction is :") || !strings.Contains(err.Error(), "a/try")) {
			t.Errorf("%s says %q", name, err)
		}
	}
}

// Only an open dead letter of an operation can be approved.
func TestJudgeApprove(t *testing.T) {
	approve := saga.LetterRequest{Action: saga.LetterApprove, Actor: "bob", Seen: 3, ApproveAll: true}
	for status, want := range map[saga.DeadLetterStatus]string{
		saga.DeadLetterOpen: "", saga.DeadLetterReplaying: saga.CodeNotDeadLetter, saga.DeadLetterClosed: saga.CodeNotDeadLetter,
		saga.DeadLetterDiscarded: saga.CodeNotDeadLetter, saga.DeadLetterObsolete: saga.CodeObsolete,
	} {
		for message, want := range map[bool]string{false: want, true: saga.CodeNotDeadLetter} {
			err := saga.JudgeLetter(saga.Letter{Message: message, Status: status, Version: 3}, approve, time.Time{})
			state, _ := errors.AsType[*saga.StateError](err)
			if want == "" && err != nil || want != "" && (state == nil || state.Code != want) {
				t.Errorf("%s, message %t: %v, want %q", status, message, err, want)
			}
		}
	}
	if err := saga.JudgeLetter(saga.Letter{Status: saga.DeadLetterOpen, Version: 4}, approve, time.Time{}); !errors.Is(err, saga.ErrStale) {
		t.Errorf("another version: %v", err)
	}
}

func TestApprovalExpiry(t *testing.T) {
	for _, c := range []struct{ asked, configured, want time.Duration }{
		{0, 0, saga.ApprovalExpiryDefault},
		{0, time.Hour, time.Hour},
		{time.Minute, time.Hour, time.Minute},
		{saga.ApprovalExpiryMax, 0, saga.ApprovalExpiryMax},
		{saga.ApprovalExpiryMax + 1, 0, 0},
		{-1, 0, 0},
		{1, 0, 0},
		{0, -1, 0},
	} {
		got, err := saga.ApprovalExpiry(c.asked, c.configured)
		if got != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("asked %s of %s: %s, %v", c.asked, c.configured, got, err)
		}
	}
}
