package participanttest

import "github.com/sagacity-tx/sagacity/saga"

// cancelChecks are about the cancel of saga and tcc steps.
func cancelChecks() []check {
	return []check{
		{
			name: "cancel", rules: "S2.2, B3, I-3", kinds: compensated,
			must: "A cancel undoes the try, once; its reply is repeated byte for byte.",
			fix:  "Undo what the try did, in one local transaction with the barrier row, and only if the row says tried. " + fixStore,
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(), done, t.action.tried())
				x.repeat(x.cancel, x.do(x.cancel(), done, none), none)
			},
		},
		{
			name: "cancel-without-result", rules: "S2.5", kinds: compensated,
			must: "A cancel works without the try's result, which may have been lost.",
			fix:  "Let the try write, beside its change, which step it was for, and find it by that (in Go: Settle.Try is nil).",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(), done, t.action.tried())
				x.do(x.cancel(blind), done, none)
			},
		},
		{
			name: "cancel-conflict", rules: "B1", kinds: compensated,
			must: "The same cancel with other content is the fault conflict, and nothing runs.",
			fix:  fixContent, run: conflict(saga.PhaseCancel),
		},
		{
			name: "null-cancel", rules: "M4, B table", kinds: compensated,
			must: "The cancel of a step whose try never ran is recorded, is done, and does nothing.",
			fix:  "If there is no barrier row, record the cancel, answer done, and do not call the code that undoes.",
			run: func(t *trial) {
				x := t.begin()
				x.repeat(x.cancel, x.do(x.cancel(), done, none), none)
			},
		},
		{
			name: "late-try", rules: "M3, I-6", kinds: compensated,
			must: "A try that comes after its cancel is answered with hanging, and never runs.",
			fix:  fixTombstone,
			run: func(t *trial) {
				x := t.begin()
				first := x.do(x.cancel(), done, none)
				x.do(x.try(), hanging, none)
				x.do(x.try(copied), hanging, none)
				x.do(x.cancel(), again(first), none)
			},
		},
		{
			name: "try-after-cancel", rules: "M3, I-6", kinds: compensated,
			must: "A copy of the try that comes after the try was cancelled is answered with hanging, and never runs.",
			fix:  "Keep the barrier row of a cancelled step, and answer hanging to a try when the row says cancelled.",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(), done, t.action.tried())
				first := x.do(x.cancel(), done, none)
				x.do(x.try(copied), hanging, none)
				x.do(x.try(), hanging, none)
				x.do(x.cancel(), again(first), none)
			},
		},
	}
}

// confirmChecks are about the confirm of tcc steps.
func confirmChecks() []check {
	final := Effect{Final: 1}
	return []check{
		{
			name: "confirm", rules: "S2.2, B3, I-3", kinds: confirmed,
			must: "A confirm uses what the try has reserved, once; its reply is repeated byte for byte.",
			fix:  "Run a confirm only if the barrier row says tried, and record it in the same local transaction. " + fixStore,
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(), done, t.action.tried())
				x.repeat(x.confirm, x.do(x.confirm(), done, final), final)
			},
		},
		{
			name: "confirm-conflict", rules: "B1", kinds: confirmed,
			must: "The same confirm with other content is the fault conflict, and nothing runs.",
			fix:  fixContent, run: conflict(saga.PhaseConfirm),
		},
		{
			name: "confirm-without-try", rules: "I-4", kinds: confirmed,
			must: "A confirm without a committed try is the fault not_tried, and nothing is recorded.",
			fix:  "Run a confirm only if the barrier row says tried; otherwise roll back and answer the fault not_tried.",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.confirm(), fault(saga.FaultNotTried), none)
				x.do(x.try(), done, t.action.tried())
				x.do(x.confirm(), done, final)
			},
		},
		{
			name: "confirm-after-cancel", rules: "I-1", kinds: confirmed,
			must: "A cancelled step is never confirmed: fault contradicts, whether its try ran or not.",
			fix:  "Answer the fault contradicts to a confirm when the barrier row says cancelled or null_cancelled, and run nothing.",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(), done, t.action.tried())
				x.do(x.cancel(), done, none)
				x.do(x.confirm(), fault(saga.FaultContradicts), none)
				y := t.begin()
				y.do(y.cancel(), done, none)
				y.do(y.confirm(), fault(saga.FaultContradicts), none)
			},
		},
		{
			name: "cancel-after-confirm", rules: "I-1, B3", kinds: confirmed,
			must: "A confirmed step is never cancelled: fault contradicts; the stored replies stay.",
			fix:  "Answer the fault contradicts to a cancel when the barrier row says confirmed, and run nothing.",
			run: func(t *trial) {
				x := t.begin()
				tried := x.do(x.try(), done, t.action.tried())
				first := x.do(x.confirm(), done, final)
				x.do(x.cancel(), fault(saga.FaultContradicts), final)
				x.do(x.try(), again(tried), final)
				x.do(x.confirm(), again(first), final)
			},
		},
	}
}

// repeat sends a copy of an operation and its next attempts.
func (x *transaction) repeat(next func(...twist) op, first answer, stands Effect) {
	if x.t.over() {
		return
	}
	x.do(next(copied), again(first), stands)
	for range 2 {
		x.do(next(), again(first), stands)
	}
}

// pivotChecks are about the pivot and its fence, which is a cancel command.
func pivotChecks() []check {
	return []check{
		{
			name: "fence-before-try", rules: "S2.6, I-6", kinds: pivot,
			must: "A fence that comes before the pivot's try is done, and the try never runs: hanging.",
			fix:  fixTombstone,
			run: func(t *trial) {
				x := t.begin()
				first := x.do(x.cancel(), done, none)
				x.do(x.try(), hanging, none)
				x.do(x.cancel(), again(first), none)
				x.do(x.try(copied), hanging, none)
			},
		},
		{
			name: "fence-after-try", rules: "S2.6", kinds: pivot,
			must: "A fence that comes after the pivot's try is the fault contradicts with the try's stored result, and changes nothing: the pivot has executed.",
			fix:  "When Saga-Step-Kind is pivot and the barrier row says tried, answer a cancel with the fault contradicts and the stored result of the try. Never undo a pivot.",
			run: func(t *trial) {
				x := t.begin()
				first := x.do(x.try(), done, t.action.tried())
				executed := fault(saga.FaultContradicts).with(first.reply.Result)
				x.do(x.cancel(), executed, t.action.tried())
				x.do(x.try(), again(first), t.action.tried())
				x.do(x.cancel(), executed, t.action.tried())
			},
		},
	}
}
