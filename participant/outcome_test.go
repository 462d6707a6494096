package participant_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

var (
	tenCents = bank.Move{Account: "alice", Cents: 10}
	tooMany  = bank.Move{Account: "alice", Cents: 10 * seedCents}
)

func wish(w bank.Wish) bank.Move { return bank.Move{Account: "alice", Cents: 10, Wish: w} }

// Every outcome that S3 lists and user code can cause.
func TestOutcomesOfTries(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	tests := []struct {
		name    string
		cmd     saga.Command
		outcome saga.Outcome
		code    string
		reason  string
		stored  bool
	}{
		{"done", k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents), saga.OutcomeDone, "", "", true},
		{"done of a pivot", k.command("charge", saga.KindPivot, saga.PhaseTry, tenCents), saga.OutcomeDone, "", "", true},
		{"done of a retriable", k.command("payout", saga.KindRetriable, saga.PhaseTry, tenCents), saga.OutcomeDone, "", "", true},
		{"refused", k.command("debit", saga.KindTCC, saga.PhaseTry, tooMany), saga.OutcomeRefused, bank.CodeInsufficientFunds, "does not have", true},
		{"error", k.command("debit", saga.KindTCC, saga.PhaseTry, wish(bank.Wish{FailTimes: 9})), saga.OutcomeRetry, saga.CodeError, "asked for it", false},
		{"panic", k.command("withdraw", saga.KindSaga, saga.PhaseTry, wish(bank.Wish{PanicTimes: 9})), saga.OutcomeRetry, saga.CodePanic, "panic: attempt 1", false},
		{"fault", k.command("debit", saga.KindTCC, saga.PhaseTry, wish(bank.Wish{Fault: "broken"})), saga.OutcomeFault, saga.FaultHandler, "broken", false},
		{"refused by a retriable", k.command("payout", saga.KindRetriable, saga.PhaseTry, wish(bank.Wish{Refuse: "no"})), saga.OutcomeFault, saga.FaultRefusedPhaseTwo, "no", false},
		{"no such action", k.command("steal", saga.KindTCC, saga.PhaseTry, tenCents), saga.OutcomeRetry, saga.CodeUnknownAction, "no action steal", false},
		{"another kind", k.command("debit", saga.KindSaga, saga.PhaseTry, tenCents), saga.OutcomeFault, saga.FaultUndecodable, "of kind saga, but the action debit is of kind tcc", false},
		{"an input of another shape", k.command("debit", saga.KindTCC, saga.PhaseTry, json.RawMessage(`{"cents":"ten"}`)), saga.OutcomeFault, saga.FaultUndecodable, "the input", false},
		{"a body of another shape", withBody(k.command("debit", saga.KindTCC, saga.PhaseTry, nil), []byte(`{"in":1}`)), saga.OutcomeFault, saga.FaultUndecodable, "body", false},
		{"a confirm of a step that was not tried", k.command("debit", saga.KindTCC, saga.PhaseConfirm, tenCents), saga.OutcomeFault, saga.FaultNotTried, "", false},
	}
	late := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	late.Deadline = time.Now().Add(-time.Minute)
	tests = append(tests, struct {
		name    string
		cmd     saga.Command
		outcome saga.Outcome
		code    string
		reason  string
		stored  bool
	}{"too late", late, saga.OutcomeRefused, saga.CodeDeadline, "", true})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := k.do(test.cmd)
			want(t, r, test.outcome, test.code)
			if !strings.Contains(r.Reason, test.reason) || strings.Contains(r.Reason, "goroutine") {
				t.Errorf("reason %q, want something with %q", r.Reason, test.reason)
			}
			if r.Replayed || r.Revision != 1 || r.ContentSHA256 != test.cmd.ContentSHA256 {
				t.Errorf("reply %+v", r)
			}
			// B3, I4: done and refused are stored, and nothing else is.
			inquiry := test.cmd
			inquiry.Verb = saga.VerbInquire
			state := k.do(inquiry)
			if stored := state.State != saga.BarrierAbsent; stored != test.stored {
				t.Errorf("the row is %s", state.State)
			}
			second := k.do(again(test.cmd))
			want(t, second, test.outcome, test.code)
			if second.Replayed != test.stored {
				t.Errorf("repeated from the row: %t, want %t", second.Replayed, test.stored)
			}
			if test.stored && (string(second.Result.Data) != string(r.Result.Data) || second.Reason != r.Reason) {
				t.Errorf("the second answer differs (I-5): %+v, then %+v", r, second)
			}
			runs := 0
			if test.outcome == saga.OutcomeDone {
				runs = 1
			}
			k.wantRuns(test.cmd, runs)
		})
	}
	if log := k.log.String(); !strings.Contains(log, "wish.go") {
		t.Error("the log has no stack of the panic")
	}
}

func TestTCCConfirmsAndCancels(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	want(t, k.do(try), saga.OutcomeDone, "")
	if held, err := bank.HeldTotal(t.Context(), k.pool); err != nil || held != 10 {
		t.Fatalf("held %d, %v", held, err)
	}
	confirm := with(try, saga.PhaseConfirm, tenCents)
	want(t, k.do(confirm), saga.OutcomeDone, "")
	want(t, k.do(with(try, saga.PhaseCancel, tenCents)), saga.OutcomeFault, saga.FaultContradicts)
	if r := k.do(again(confirm)); r.Outcome != saga.OutcomeDone || !r.Replayed {
		t.Errorf("the second confirm: %+v", r)
	}
	k.wantRuns(confirm, 1)

	// S2.5: the cancel does not know what the try returned.
	other := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	want(t, k.do(other), saga.OutcomeDone, "")
	want(t, k.do(with(other, saga.PhaseCancel, tenCents)), saga.OutcomeDone, "")
	want(t, k.do(with(other, saga.PhaseConfirm, tenCents)), saga.OutcomeFault, saga.FaultContradicts)
	if balance, err := bank.Balance(t.Context(), k.pool, "alice"); err != nil || balance != seedCents-10 {
		t.Errorf("balance %d, %v", balance, err)
	}
	if held, err := bank.HeldTotal(t.Context(), k.pool); err != nil || held != 0 {
		t.Errorf("held %d, %v (I-12)", held, err)
	}
}

// S2.7: a refusal where there is no way back is a fault, nothing is kept, and a replay can succeed.
func TestPhaseTwoCannotRefuse(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	for _, phase := range []saga.Phase{saga.PhaseConfirm, saga.PhaseCancel} {
		t.Run(string(phase), func(t *testing.T) {
			move := wish(bank.Wish{Phase: phase, RefuseWhile: string(phase)})
			if err := bank.Switch(t.Context(), k.pool, string(phase), true); err != nil {
				t.Fatal(err)
			}
			try := k.command("debit", saga.KindTCC, saga.PhaseTry, move)
			want(t, k.do(try), saga.OutcomeDone, "")
			settle := with(try, phase, move)
			want(t, k.do(settle), saga.OutcomeFault, saga.FaultRefusedPhaseTwo)
			k.wantRuns(settle, 0)
			if err := bank.Switch(t.Context(), k.pool, string(phase), false); err != nil {
				t.Fatal(err)
			}
			want(t, k.do(again(settle)), saga.OutcomeDone, "")
			k.wantRuns(settle, 1)
		})
	}
}

// M3: a try that comes after its cancel is refused. M4: a cancel whose try never ran succeeds and calls nobody, not
// even when nobody knows the action.
func TestHangingTryAndNullCancel(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	for action, kind := range map[string]saga.Kind{"debit": saga.KindTCC, "withdraw": saga.KindSaga, "charge": saga.KindPivot, "steal": saga.KindTCC} {
		t.Run(action, func(t *testing.T) {
			cancel := k.command(action, kind, saga.PhaseCancel, tenCents)
			want(t, k.do(cancel), saga.OutcomeDone, "")
			k.wantRuns(cancel, 0)
			try := with(cancel, saga.PhaseTry, tenCents)
			want(t, k.do(try), saga.OutcomeHanging, "")
			k.wantRuns(try, 0)
		})
	}
}

// S2.6: the fence of a pivot that has executed is answered with the try's reply.
func TestFenceOfAnExecutedPivot(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	try := k.command("charge", saga.KindPivot, saga.PhaseTry, tenCents)
	done := k.do(try)
	fence := k.do(with(try, saga.PhaseCancel, tenCents))
	want(t, fence, saga.OutcomeFault, saga.FaultContradicts)
	if string(fence.Result.Data) != string(done.Result.Data) || len(done.Result.Data) == 0 {
		t.Errorf("the fence has the result %s, the try had %s", fence.Result.Data, done.Result.Data)
	}
}

// B1: the same operation with other content is a conflict and runs nothing.
func TestConflict(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	want(t, k.do(try), saga.OutcomeDone, "")
	other := again(withInput(try, bank.Move{Account: "alice", Cents: 11}))
	want(t, k.do(other), saga.OutcomeFault, saga.FaultConflict)
	k.wantRuns(try, 1)
}

// S1.5: after a reservation the older revision never executes, and the newer one does.
func TestReserve(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.run(k.bank())
	try := k.command("debit", saga.KindTCC, saga.PhaseTry, tenCents)
	reserve := try
	reserve.Verb = saga.VerbReserve
	want(t, k.do(reserve), saga.OutcomeReserved, "")
	want(t, k.do(try), saga.OutcomeFault, saga.FaultSuperseded)
	edited := again(withInput(try, bank.Move{Account: "bob", Cents: 10}))
	edited.Revision = 2
	want(t, k.do(edited), saga.OutcomeDone, "")
	late := again(reserve)
	if r := k.do(late); r.Outcome != saga.OutcomeFault || r.Code != saga.FaultConflict {
		t.Errorf("a reservation of what is executed with other content: %+v", r)
	}
}
