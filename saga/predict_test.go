package saga_test

import (
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

var predictNow = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// deadFacts are those of a transaction whose first step's try is an open dead letter.
func deadFacts(t *testing.T, kind saga.Kind) saga.ReplayFacts {
	t.Helper()
	b := saga.Define("order").Timeout(time.Hour)
	switch kind {
	case saga.KindPivot:
		b = b.Pivot("s1", "stock", "reserve")
	case saga.KindRetriable:
		b = b.Retriable("s1", "stock", "reserve")
	default:
		b = b.TCC("s1", "stock", "reserve")
	}
	def := b.MustBuild()
	id, err := saga.ParseID("0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f")
	if err != nil {
		t.Fatal(err)
	}
	tx := saga.Transaction{Tenant: "acme", ID: id, Inputs: make([]saga.Payload, 1), Deadline: predictNow.Add(time.Hour)}
	step := func(ev saga.Event) {
		t.Helper()
		if tx, _, err = saga.Step(def, tx, ev, predictNow, fixedRand{}); err != nil {
			t.Fatal(err)
		}
	}
	step(saga.Submitted{})
	op := tx.Steps[0].Try
	step(saga.Replied{Reply: saga.Reply{
		Tenant: "acme", Transaction: id, Step: "s1", Phase: saga.PhaseTry, Participant: "stock", Attempt: 1, Revision: 1,
		ContentSHA256: op.ContentSHA256, Outcome: saga.OutcomeFault, Code: saga.FaultHandler,
	}})
	return saga.ReplayFacts{
		Letter: saga.Letter{
			Status: saga.DeadLetterOpen, Version: 1, Step: "s1", Phase: saga.PhaseTry, Cause: saga.FaultHandler, ContentSHA256: op.ContentSHA256,
		}, Def: def, Tx: tx,
	}
}

type fixedRand struct{}

func (fixedRand) Int64N(int64) int64 { return 0 }

func inquired(state saga.BarrierState, content [32]byte) *saga.Inquiry {
	return &saga.Inquiry{
		AskedAt: predictNow.Add(-time.Second), AnsweredAt: predictNow, Outcome: saga.OutcomeState, State: state, Revision: 1, ContentSHA256: content,
	}
}

// What forbids a replay comes first, then what would hold it, then what the participant has recorded.
func TestPredictReplay(t *testing.T) {
	t.Parallel()
	open := deadFacts(t, saga.KindTCC)
	with := func(change func(*saga.ReplayFacts)) saga.ReplayFacts {
		f := open
		change(&f)
		return f
	}
	asked := &saga.Inquiry{AskedAt: predictNow}
	for name, c := range map[string]struct {
		facts saga.ReplayFacts
		want  saga.ReplayEffect
	}{
		"never asked":                 {open, saga.ReplayUnknown},
		"silence is not absence (U1)": {with(func(f *saga.ReplayFacts) { f.Inquiry = asked }), saga.ReplayUnknown},
		"a fault": {with(func(f *saga.ReplayFacts) {
			f.Inquiry = &saga.Inquiry{AskedAt: predictNow, AnsweredAt: predictNow, Outcome: saga.OutcomeRetry}
		}), saga.ReplayUnknown},
		"absent":                {with(func(f *saga.ReplayFacts) { f.Inquiry = inquired(saga.BarrierAbsent, [32]byte{}) }), saga.ReplayGoesForward},
		"tried":                 {with(func(f *saga.ReplayFacts) { f.Inquiry = inquired(saga.BarrierTried, f.Letter.ContentSHA256) }), saga.ReplayNoOp},
		"tried, other content":  {with(func(f *saga.ReplayFacts) { f.Inquiry = inquired(saga.BarrierTried, [32]byte{9}) }), saga.ReplayConflict},
		"trying":                {with(func(f *saga.ReplayFacts) { f.Inquiry = inquired(saga.BarrierTrying, [32]byte{}) }), saga.ReplayUnknown},
		"past retention":        {with(func(f *saga.ReplayFacts) { f.Inquiry = inquired(saga.BarrierPastRetention, [32]byte{}) }), saga.ReplayConflict},
		"conflict, never asked": {with(func(f *saga.ReplayFacts) { f.Letter.Cause = saga.FaultConflict }), saga.ReplayConflict},
		"needs approval": {with(func(f *saga.ReplayFacts) {
			f.ApproveAll, f.Wait, f.Inquiry = true, saga.WaitPause, inquired(saga.BarrierAbsent, [32]byte{})
		}), saga.ReplayNeedsApproval},
		"an approval is no use against a conflict": {with(func(f *saga.ReplayFacts) { f.ApproveAll, f.Letter.Cause = true, saga.FaultConflict }), saga.ReplayConflict},
		"paused": {with(func(f *saga.ReplayFacts) {
			f.Wait, f.Inquiry = saga.WaitPause, inquired(saga.BarrierAbsent, [32]byte{})
		}), saga.ReplayPaused},
		"breaker open": {with(func(f *saga.ReplayFacts) { f.Wait = saga.WaitBreaker }), saga.ReplayBreakerOpen},
		"a message":    {saga.ReplayFacts{Letter: saga.Letter{Message: true, Status: saga.DeadLetterOpen}}, saga.ReplayNotOpen},
		"discarded": {with(func(f *saga.ReplayFacts) {
			f.Letter.Status, f.Tx.Steps = saga.DeadLetterDiscarded, []saga.StepState{{}}
		}), saga.ReplayNotOpen},
		"obsolete": {with(func(f *saga.ReplayFacts) { f.Letter.Status = saga.DeadLetterObsolete }), saga.ReplayObsolete},
		"the deadline has passed, and nobody has noticed yet": {with(func(f *saga.ReplayFacts) { f.Tx.Deadline = predictNow.Add(-time.Second) }), saga.ReplayObsolete},
		"closed by the answer": {with(func(f *saga.ReplayFacts) {
			f.Letter.Status, f.Tx.Status, f.Inquiry = saga.DeadLetterClosed, saga.StatusCommitted, inquired(saga.BarrierTried, f.Letter.ContentSHA256)
		}), saga.ReplayNoOp},
		"closed by a replay, asked before": {with(func(f *saga.ReplayFacts) {
			f.Letter.Status, f.Tx.Status, f.Inquiry = saga.DeadLetterClosed, saga.StatusCommitted, inquired(saga.BarrierAbsent, [32]byte{})
		}), saga.ReplayNotOpen},
	} {
		got := saga.PredictReplay(c.facts, predictNow)
		if got.Effect != c.want || got.Reason == "" {
			t.Errorf("%s: got %+v, want %s", name, got, c.want)
		}
	}
}

// What is predicted from the state of the row is what the barrier does with a row of that state (table B).
func TestPredictionAgreesWithTheBarrier(t *testing.T) {
	t.Parallel()
	states := []saga.BarrierState{
		saga.BarrierAbsent, saga.BarrierTrying, saga.BarrierTried, saga.BarrierRefused, saga.BarrierConfirmed, saga.BarrierCancelled, saga.BarrierNullCancelled,
	}
	for _, kind := range []saga.Kind{saga.KindTCC, saga.KindPivot} {
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
			for _, state := range states {
				if kind == saga.KindPivot && (phase == saga.PhaseConfirm || state == saga.BarrierConfirmed) {
					continue
				}
				cmd := saga.Command{Verb: saga.VerbExecute, Phase: phase, Kind: kind, Revision: 1, ContentSHA256: [32]byte{1}}
				verdict, next := saga.Admit(saga.BarrierRow{State: state, Kind: kind}, cmd, predictNow)
				facts := deadFacts(t, kind)
				facts.Letter.Phase, facts.Letter.ContentSHA256 = phase, [32]byte{1}
				facts.Def, facts.Tx = nil, saga.Transaction{} // whether it may be sent is not asked here
				if kind == saga.KindPivot {
					facts.Def, facts.Tx = deadFacts(t, kind).Def, deadFacts(t, kind).Tx
					if phase == saga.PhaseCancel {
						facts = fenceFacts(t)
					}
				}
				facts.Inquiry = inquired(state, [32]byte{})
				got := saga.PredictReplay(facts, predictNow).Effect
				want := saga.ReplayNoOp
				switch {
				case verdict.Do == saga.DoInquire:
					want = saga.ReplayUnknown
				case verdict.Do == saga.DoRun || next.State == saga.BarrierNullCancelled && state == saga.BarrierAbsent:
					want = saga.ReplayGoesForward
				case verdict.Reply.Outcome == saga.OutcomeFault && verdict.Reply.Code == saga.FaultContradicts && kind == saga.KindPivot && state == saga.BarrierTried:
					want = saga.ReplayNoOp // which is the proof that the fence is for (S2.6)
				case verdict.Reply.Outcome == saga.OutcomeFault:
					want = saga.ReplayConflict
				}
				if state == saga.BarrierTrying {
					want = saga.ReplayUnknown // its lease decides
				}
				if got != want {
					t.Errorf("%s %s of a row %s: predicted %s, the barrier: %s %s, so %s", kind, phase, state, got, verdict.Do, verdict.Reply.Code, want)
				}
			}
		}
	}
}

// fenceFacts are those of a pivot whose fence is an open dead letter.
func fenceFacts(t *testing.T) saga.ReplayFacts {
	t.Helper()
	f := deadFacts(t, saga.KindPivot)
	tx, _, err := saga.Step(f.Def, f.Tx, saga.CancelRequested{}, predictNow, fixedRand{})
	if err != nil {
		t.Fatal(err)
	}
	op := tx.Steps[0].Settle
	tx, _, err = saga.Step(f.Def, tx, saga.Replied{Reply: saga.Reply{
		Tenant: "acme", Transaction: tx.ID, Step: "s1", Phase: saga.PhaseCancel, Participant: "stock", Attempt: op.Attempt, Revision: 1,
		ContentSHA256: op.ContentSHA256, Outcome: saga.OutcomeFault, Code: saga.FaultHandler,
	}}, predictNow, fixedRand{})
	if err != nil {
		t.Fatal(err)
	}
	f.Letter.Phase, f.Tx = saga.PhaseCancel, tx
	return f
}
