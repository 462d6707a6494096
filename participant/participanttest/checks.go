package participanttest

import "github.com/sagacity-tx/sagacity/saga"

// checks returns all checks, in the order in which they run.
func checks() []check {
	var all []check
	for _, group := range [][]check{tryChecks(), refusalChecks(), cancelChecks(), confirmChecks(), pivotChecks(), retriableChecks(), stepChecks(), orderChecks(), crashChecks(), replyChecks()} {
		all = append(all, group...)
	}
	return all
}

var (
	compensated = []saga.Kind{saga.KindSaga, saga.KindTCC} // kinds with a cancel
	confirmed   = []saga.Kind{saga.KindTCC}
	pivot       = []saga.Kind{saga.KindPivot}
	retriable   = []saga.Kind{saga.KindRetriable}
	refusable   = []saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot} // kinds whose try may be refused
)

var none = Effect{}

// Advice that more than one check gives.
const (
	fixStore = "Store the reply in the barrier row, in the local transaction of the work, and send what is stored when the command comes again, " +
		"with Saga-Replayed: true. Do not work it out anew."
	fixOnce = "Do the work in the local transaction that the barrier is entered in (in Go: only with the pgx.Tx that the handler gets), " +
		"and only if the barrier's verdict is run."
	fixContent = "Before everything else compare the command's Saga-Content-Sha256 with the one in the barrier row; " +
		"if they differ answer the fault conflict and run nothing."
	fixTombstone = "Record the cancel of a step whose try never ran (a row null_cancelled), commit it, and look for it before a try runs."
)

// tryChecks are about a try alone, of every kind.
func tryChecks() []check {
	return []check{
		{
			name: "try", rules: "S3, I-3", must: "A try is done, and its effect stands.",
			fix: "See that the participant has the action with this kind, that Action.Input is one that its try accepts, and that Action.Effects counts what the try does.",
			run: func(t *trial) { x := t.begin(); x.do(x.try(), done, t.action.tried()) },
		},
		{
			name: "repeated-try", rules: "B3, I-3",
			must: "However often a try comes, it takes effect once, and its first reply is repeated byte for byte.",
			fix:  fixStore, run: repeatedTry,
		},
		{
			name: "conflict", rules: "B1",
			must: "The same operation with other content is the fault conflict, and nothing runs.",
			fix:  fixContent, run: conflict(saga.PhaseTry),
		},
		{
			name: "wrong-hash", rules: "S1.4",
			must: "A command whose body does not match its hash is the fault undecodable, and nothing runs.",
			fix:  "Compute SHA-256 over the action, a line feed and the body as it arrived, and compare it with Saga-Content-Sha256 before the barrier is asked.",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(tampered), fault(saga.FaultUndecodable), none)
				x.do(x.try(), done, t.action.tried())
			},
		},
		{
			name: "unknown-action", rules: "S3",
			must: "An action that the participant does not have is answered with retry, code unknown_action, and nothing is recorded: a deploy may be in progress.",
			fix:  "Answer retry with the code unknown_action; neither done nor a fault, which nobody would send again.",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(action("no-such-action")), unknownAction, none)
				x.do(x.try(), done, t.action.tried())
			},
		},
		{
			name: "inquire", rules: "S2.11",
			must: "An inquiry is answered with the state of the barrier row and the try's stored reply, and changes nothing.",
			fix:  "Answer the verb inquire with the outcome state, for example from saga.barrier_inquire; run nothing.",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(inquire), state(saga.BarrierAbsent), none)
				first := x.do(x.try(), done, t.action.tried())
				x.do(x.try(inquire), state(saga.BarrierTried).with(first.reply.Result), t.action.tried())
			},
		},
		{
			name: "reserve", rules: "S1.5",
			must: "After a reservation a command of a lower revision is the fault superseded and never runs; the next revision runs.",
			fix:  "Keep min_revision in the barrier row and compare it before anything runs, for example by saga.barrier_enter.",
			run: func(t *trial) {
				x := t.begin()
				x.do(x.try(reserve), reserved, none)
				x.do(x.try(), fault(saga.FaultSuperseded), none)
				x.do(x.try(revision(2)), done, t.action.tried())
				x.do(x.try(reserve, revision(2)), state(saga.BarrierTried), t.action.tried())
			},
		},
		{
			name: "late-copy", rules: "B3",
			must: "A try that was done in time is done: a copy past the deadline gets the stored reply.",
			fix:  "Look into the barrier row before the deadline is compared.",
			run: func(t *trial) {
				x := t.begin()
				first := x.do(x.try(), done, t.action.tried())
				x.do(x.try(late), again(first), t.action.tried())
			},
		},
		{
			name: "failure", rules: "S3, M2, I-3", needs: failing,
			must: "A try that fails for a passing reason is answered with retry and leaves nothing behind; the next attempt takes effect once.",
			fix:  fixOnce,
			run: func(t *trial) {
				x := t.beginWith(t.action.Failing)
				x.do(x.try(), retry, none)
				x.do(x.try(), done, t.action.tried())
			},
		},
	}
}

func repeatedTry(t *trial) {
	x := t.begin()
	first := x.do(x.try(), done, t.action.tried())
	x.do(x.try(copied), again(first), t.action.tried())
	for range 2 {
		x.do(x.try(), again(first), t.action.tried())
	}
}

// conflict sends an operation, the same with other content, and the first one again.
func conflict(phase saga.Phase) func(*trial) {
	return func(t *trial) {
		x := t.begin()
		stands := t.action.tried()
		if phase != saga.PhaseTry {
			x.do(x.try(), done, stands)
			stands = none
		}
		if phase == saga.PhaseConfirm {
			stands = Effect{Final: 1}
		}
		first := x.do(x.op(phase, nil), done, stands)
		x.do(x.op(phase, []twist{other}), fault(saga.FaultConflict), stands)
		x.do(x.op(phase, nil), again(first), stands)
	}
}

// refusalChecks are about a try that must not take effect, of the kinds that may say so.
func refusalChecks() []check {
	return []check{
		{
			name: "deadline", rules: "B table, T1, B3", kinds: refusable,
			must: "A try that comes after its deadline is refused with the code deadline, which is recorded: it never runs, nor does any other copy.",
			fix:  "Compare Saga-Deadline with the clock of the participant's database before the try runs, and store the refusal.",
			run: func(t *trial) {
				x := t.begin()
				first := x.do(x.try(late), pastDeadline, none)
				x.do(x.try(), again(first), none)
				x.do(x.cancel(), done, none)
			},
		},
		{
			name: "refusal", rules: "S3, B3, I4", kinds: refusable, needs: refusing,
			must: "A refusal is final and recorded: it leaves no effect, and every copy of the try gets it again, byte for byte.",
			fix: "Go back to the savepoint before the work (in Go that is done, if the handler uses only the pgx.Tx that it gets), " +
				"store the refusal in the barrier row in the same local transaction, and repeat it.",
			run: func(t *trial) {
				x := t.beginWith(t.action.Refusing)
				first := x.do(x.try(), refused, none)
				x.do(x.try(copied), again(first), none)
				x.do(x.try(), again(first), none)
			},
		},
		{
			name: "cancel-after-refusal", rules: "B table", kinds: refusable, needs: refusing,
			must: "The cancel of a refused try is done, without any work: there is nothing to undo.",
			fix:  "Answer done when the barrier row says refused, and run nothing; the refusal stays.",
			run: func(t *trial) {
				x := t.beginWith(t.action.Refusing)
				first := x.do(x.try(), refused, none)
				x.do(x.cancel(), done, none)
				x.do(x.try(), again(first), none)
			},
		},
		{
			name: "confirm-after-refusal", rules: "I-4", kinds: confirmed, needs: refusing,
			must: "A refused try cannot be confirmed: fault not_tried.",
			fix:  "Run a confirm only if the barrier row says tried.",
			run: func(t *trial) {
				x := t.beginWith(t.action.Refusing)
				x.do(x.try(), refused, none)
				x.do(x.confirm(), fault(saga.FaultNotTried), none)
			},
		},
	}
}

// retriableChecks are about steps that must go forward.
func retriableChecks() []check {
	return []check{
		{
			name: "no-deadline", rules: "S2.7", kinds: retriable,
			must: "A retriable step has to go forward: a deadline does not stop it.",
			fix:  "Do not compare the deadline of a step whose Saga-Step-Kind is retriable.",
			run:  func(t *trial) { x := t.begin(); x.do(x.try(late), done, t.action.tried()) },
		},
		{
			name: "refusal", rules: "S2.7", kinds: retriable, needs: refusing,
			must: "A retriable step cannot refuse: nothing is stored, and the answer is the fault refused_phase_two, so that a replay can succeed.",
			fix:  "Roll everything back, the barrier row included, and answer the fault refused_phase_two.",
			run: func(t *trial) {
				x := t.beginWith(t.action.Refusing)
				x.do(x.try(), fault(saga.FaultRefusedPhaseTwo), none)
				x.do(x.try(), fault(saga.FaultRefusedPhaseTwo), none)
				x.do(x.try(inquire), state(saga.BarrierAbsent), none)
			},
		},
	}
}
