package saga_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

func TestAfterCommit(t *testing.T) {
	for name, c := range map[string]struct {
		failure saga.Failure
		batch   saga.Batch
		want    saga.Next
	}{
		"another was first":             {saga.FailureVersion, saga.Batch{Tried: 0, Transactions: 9, Events: 9}, saga.NextAgain},
		"another was first, thrice":     {saga.FailureVersion, saga.Batch{Tried: 3, Transactions: 1, Events: 1}, saga.NextAgain},
		"they keep meeting":             {saga.FailureVersion, saga.Batch{Tried: 4, Transactions: 1, Events: 1}, saga.NextApart},
		"a key is taken":                {saga.FailureKey, saga.Batch{Transactions: 9, Events: 9}, saga.NextAnswerKeys},
		"a key is taken, for the last":  {saga.FailureKey, saga.Batch{KeysTaken: 19, Transactions: 9, Events: 9}, saga.NextAnswerKeys},
		"a key is taken without end":    {saga.FailureKey, saga.Batch{KeysTaken: 20, Transactions: 9, Events: 9}, saga.NextByTransaction},
		"a key that cannot be":          {saga.FailureKey, saga.Batch{KeysTaken: 20, Transactions: 1, Events: 1}, saga.NextSetAside},
		"a fault among many":            {saga.FailurePermanent, saga.Batch{Transactions: 2, Events: 9}, saga.NextByTransaction},
		"a fault in one transaction":    {saga.FailurePermanent, saga.Batch{Transactions: 1, Events: 2}, saga.NextByEvent},
		"a fault alone":                 {saga.FailurePermanent, saga.Batch{Transactions: 1, Events: 1}, saga.NextSetAside},
		"a letter moved, among many":    {saga.FailureLetter, saga.Batch{Transactions: 2, Events: 2}, saga.NextByTransaction},
		"a letter moved, beside events": {saga.FailureLetter, saga.Batch{Transactions: 1, Events: 2}, saga.NextByEvent},
		"a letter moved":                {saga.FailureLetter, saga.Batch{Transactions: 1, Events: 1}, saga.NextStale},
		"the database is away":          {saga.FailureOutage, saga.Batch{Tried: 1000, Transactions: 1, Events: 1}, saga.NextWait},
		"nobody knows":                  {saga.FailureDoubt, saga.Batch{Tried: 1000, Transactions: 1, Events: 1}, saga.NextWait},
	} {
		if got := saga.AfterCommit(c.failure, c.batch); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A batch is never set aside for what one event of it has done (C5), and what can pass is never given up (C9).
func TestAfterCommitBlamesOneEvent(t *testing.T) {
	for _, f := range []saga.Failure{
		saga.FailureVersion, saga.FailureKey, saga.FailureLetter, saga.FailurePermanent, saga.FailureOutage, saga.FailureDoubt,
	} {
		for tried := range 40 {
			for events := 1; events <= 4; events++ {
				for transactions := 1; transactions <= events; transactions++ {
					next := saga.AfterCommit(f, saga.Batch{Tried: tried, KeysTaken: tried, Transactions: transactions, Events: events})
					ends := next == saga.NextSetAside || next == saga.NextStale
					if ends && events > 1 {
						t.Errorf("%s: %d events end as %s", f, events, next)
					}
					if passes := f == saga.FailureVersion || f == saga.FailureOutage || f == saga.FailureDoubt; ends && passes {
						t.Errorf("%s ends as %s", f, next)
					}
				}
			}
		}
	}
}

// After a commit in doubt a refusal may be the consequence of that commit: an operator is told that nobody knows,
// and never that it was refused (D2). For everybody else the answer stands.
func TestAfterDoubt(t *testing.T) {
	refused := &saga.StateError{Code: saga.CodeNotDeadLetter, Problem: "x"}
	for _, ev := range []saga.Event{saga.ReplayRequested{}, saga.DiscardRequested{}, saga.ResolveRequested{}} {
		err := saga.AfterDoubt(ev, refused)
		if !errors.Is(err, saga.ErrOutcomeUnknown) || errors.As(err, new(*saga.StateError)) {
			t.Errorf("%T: %v", ev, err)
		}
		if err := saga.AfterDoubt(ev, nil); err != nil {
			t.Errorf("%T that was carried out: %v", ev, err)
		}
	}
	for _, ev := range []saga.Event{saga.Submitted{}, saga.Replied{}, saga.Woken{}, saga.CancelRequested{}} {
		if err := saga.AfterDoubt(ev, refused); !errors.Is(err, refused) {
			t.Errorf("%T: %v", ev, err)
		}
	}
}

// A message is acknowledged only if its event is stored or will never need to be; what nobody can store is kept with
// its bytes (C5).
func TestAcknowledge(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("x: %w", err) }
	for name, c := range map[string]struct {
		err               error
		reply, submission saga.Ack
	}{
		"stored":          {nil, saga.AckDone, saga.AckDone},
		"stopping":        {wrapped(saga.ErrStopping), saga.AckAgain, saga.AckLeave},
		"unknown":         {wrapped(saga.ErrOutcomeUnknown), saga.AckLeave, saga.AckLeave},
		"cannot store":    {wrapped(saga.ErrCannotStore), saga.AckSetAside, saga.AckSetAside},
		"not found":       {saga.ErrNotFound, saga.AckDone, saga.AckLeave},
		"illegal":         {&saga.StateError{}, saga.AckDone, saga.AckLeave},
		"invalid":         {wrapped(&saga.InvalidError{}), saga.AckDone, saga.AckSetAside},
		"key reused":      {wrapped(saga.ErrKeyReused), saga.AckDone, saga.AckSetAside},
		"id taken":        {wrapped(saga.ErrIDTaken), saga.AckDone, saga.AckSetAside},
		"nobody knows it": {errors.New("x"), saga.AckDone, saga.AckLeave},
	} {
		if got := saga.AckReply(c.err, false); got != c.reply {
			t.Errorf("reply, %s: %s, want %s", name, got, c.reply)
		}
		want := c.reply
		if want == saga.AckDone {
			want = saga.AckSetAside
		}
		if got := saga.AckReply(c.err, true); got != want {
			t.Errorf("undecodable reply, %s: %s, want %s", name, got, want)
		}
		if got := saga.AckSubmission(c.err); got != c.submission {
			t.Errorf("submission, %s: %s, want %s", name, got, c.submission)
		}
	}
}
