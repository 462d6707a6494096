package main

// Detectors of the pure core. The barrier's rules exist twice, in Go and in SQL; the Go ones are what the simulated
// participants obey, and what the SQL ones are compared with.
var (
	rules = tests("./saga", "TestAdmitGolden", "TestConclude", "TestResume")
	core  = tests("./saga", "TestTransitionTable", "TestScripts", "TestInvariants", "TestEndsByItself")

	// sim runs the pure decisions of coordinators, relays and participants in a modelled world.
	sim = command("./saga/sagatest/sim", "-seed", "1", "-seeds", "2000")
	// small explores every state of transactions of two steps.
	small = tests("./saga/sagatest/model", "TestTwoSteps")
)

// admission is the table of the barrier as a pure function.
func admission() []mutant {
	const admit, conclude = "saga/admit.go", "saga/conclude.go"
	by := []detector{rules, sim}
	return []mutant{
		{
			Name: "admit-tombstone", Rule: "M4", By: by,
			Without: "a cancel whose try never ran answers done and leaves no record",
			Edits: swap(admit, `return row.settle(cmd, BarrierNullCancelled, StoredReply{Outcome: OutcomeDone})`,
				`return row.answer(cmd, OutcomeDone, "", "")`),
		},
		{
			Name: "admit-hanging", Rule: "M3", By: []detector{rules, sim, small},
			Without: "a try that arrives after its cancel runs",
			Edits:   swap(admit, `return row.answer(cmd, OutcomeHanging, "", reasonHanging)`, `return Verdict{Do: DoRun}, row`),
		},
		{
			Name: "admit-stored-reply", Rule: "B3", By: by,
			Without: "a repeated try runs again and is not answered from the row",
			Edits: swap(admit, "case BarrierTried, BarrierRefused, BarrierConfirmed:\n\t\treturn Verdict{Do: DoReply, Reply: row.Reply(cmd)}, row",
				"case BarrierTried, BarrierRefused, BarrierConfirmed:\n\t\treturn Verdict{Do: DoRun}, row"),
		},
		{
			Name: "admit-content", Rule: "B1", By: by,
			Without: "other content under the same key is not noticed",
			Edits: swap(admit, `case !recorded.none() && recorded.ContentSHA256 != cmd.ContentSHA256 && !unchecked: // B1`,
				`case !recorded.none() && recorded.ContentSHA256 != cmd.ContentSHA256 && !unchecked && false:`),
		},
		{
			Name: "admit-past-retention", Rule: "B7", By: by,
			Without: "a command from below the retention floor runs",
			Edits:   swap(admit, `case row.PastRetention: // B7`, `case row.PastRetention && false: // B7`),
		},
		{
			Name: "admit-deadline", Rule: "T1", By: by,
			Without: "a try that arrives after its deadline runs",
			Edits:   swap(admit, `if row.late(cmd, now) {`, `if row.late(cmd, now) && false {`),
		},
		{
			Name: "admit-fence", Rule: "S2.6", By: by,
			Without: "the fence of an executed pivot is handled like any other cancel",
			Edits:   swap(admit, `if row.kind(cmd) == KindPivot {`, `if row.kind(cmd) == KindPivot && false {`),
		},
		{
			Name: "admit-not-tried", Rule: "I-4", By: by,
			Without: "a confirm without a committed try runs",
			Edits:   swap(admit, `return row.answerFault(cmd, FaultNotTried, reasonNotTried)`, `return Verdict{Do: DoRun}, row`),
		},
		{
			Name: "admit-lease", Rule: "U4", By: by,
			Without: "a try does not respect the live lease of another",
			Edits: swap(admit, "if now.Before(row.LeaseUntil) {\n\t\t\treturn row.answerWait(cmd, OutcomeInProgress",
				"if now.Before(row.LeaseUntil) && false {\n\t\t\treturn row.answerWait(cmd, OutcomeInProgress"),
		},
		{
			Name: "phase-two-refusal", Rule: "S2.7", By: by,
			Without: "a refusal of a confirm, cancel or retriable step is stored, so that no replay can succeed",
			Edits: swap(conclude, `if cmd.Phase != PhaseTry || row.kind(cmd) == KindRetriable { // S2.7`,
				`if (cmd.Phase != PhaseTry || row.kind(cmd) == KindRetriable) && false { // S2.7`),
		},
		{
			Name: "resume-void", Rule: "B-table", By: by,
			Without: "an absent external effect is cancelled without making downstream refuse its key",
			Edits: swap(conclude, "case !try && found == DownstreamAbsent:\n\t\treturn Verdict{Do: DoVoid}, row",
				"case !try && found == DownstreamAbsent:\n\t\treturn row.settle(cmd, BarrierCancelled, StoredReply{Outcome: OutcomeDone})"),
		},
		{
			Name: "resume-guess", Rule: "U4", By: by,
			Without: "a try in doubt that cannot be queried is run again although downstream is not idempotent",
			Edits: swap(conclude, `case try && (found == DownstreamAbsent || idempotent):`,
				`case try && (found == DownstreamAbsent || idempotent || found == DownstreamUndecided):`),
		},
	}
}

// transitions are the decisions about a whole transaction.
func transitions() []mutant {
	const advance, wake = "saga/advance.go", "saga/wake.go"
	by := []detector{core, sim}
	return []mutant{
		{
			Name: "cancel-set", Rule: "S2.4", By: []detector{core, sim, small},
			Without: "a step whose try is in flight at the decision is not cancelled",
			Edits: swap(advance, `(try.State == OperationDone || try.State == OperationClosed)`,
				`try.State == OperationDone`),
		},
		{
			Name: "cancel-order", Rule: "S2.4", By: by,
			Without: "a cancel does not wait for the cancels of the steps that depend on it",
			Edits: swap(advance, "for _, j := range m.def.graph.dependents[i] {\n\t\t\tready = ready && complete[j]",
				"for _, j := range m.def.graph.dependents[i] {\n\t\t\tready = ready || complete[j]"),
		},
		{
			Name: "confirm-order", Rule: "S2.3", By: by,
			Without: "a confirm does not wait for the steps before it",
			Edits: swap(advance, "for _, j := range m.def.graph.after[i] {\n\t\t\tready = ready && complete[j]",
				"for _, j := range m.def.graph.after[i] {\n\t\t\tready = ready || complete[j]"),
		},
		{
			Name: "predecessors", Rule: "S2.2", By: by,
			Without: "a try does not wait for the tries that it comes after",
			Edits:   swap(advance, `kind.cancellable() && m.predecessorsDone(i)`, `kind.cancellable()`),
		},
		{
			Name: "pivot-last", Rule: "S2.3", By: by,
			Without: "the pivot does not wait for the saga and tcc tries",
			Edits:   swap(advance, `kind == KindPivot && compensable`, `kind == KindPivot`),
		},
		{
			Name: "commit-all-tries", Rule: "S2.3", By: by,
			Without: "the commit is decided without the pivot's reply",
			Edits:   swap(advance, `if compensable && pivot {`, `if compensable && (pivot || m.pivotSent()) {`),
		},
		{
			Name: "decision-closes", Rule: "S2.12", By: by,
			Without: "the decision leaves open tries and their dead letters as they are",
			Edits:   swap(advance, "if !op.State.Open() {\n\t\t\t\tcontinue", "if !op.State.Open() || !m.tx.DecidedAt.IsZero() {\n\t\t\t\tcontinue"),
		},
		{
			Name: "deadline-and-pivot", Rule: "S2.6", By: []detector{core, sim, small},
			Without: "the deadline cancels although the pivot has been sent",
			Edits:   swap(advance, `if !m.pivotSent() {`, `if !m.pivotSent() || !m.decided() {`),
		},
		{
			Name: "client-cancel-and-pivot", Rule: "S2.9", By: by,
			Without: "a client's cancel cancels although the pivot has been sent",
			Edits: swap("saga/step.go", "if m.pivotSent() {\n\t\tm.fence(cause)\n\t} else {",
				"if m.pivotSent() && m.decided() {\n\t\tm.fence(cause)\n\t} else {"),
		},
		{
			Name: "fence-holds-try", Rule: "S2.6", By: by,
			Without: "the pivot's try is sent again beside its fence",
			Edits:   swap(advance, "if state.Try.State.active() {\n\t\tm.hold(p)\n\t}\n\t", ""),
		},
		{
			Name: "resolved", Rule: "S2.13", By: by,
			Without: "a transaction with operations given up ends as committed or cancelled",
			Edits:   swap(advance, "status = StatusResolved", "status = m.tx.Status"),
		},
		{
			Name: "deadline-first", Rule: "S2.4", By: by,
			Without: "an operation that the deadline overtakes is sent once more",
			Edits:   swap(wake, "m.advance() // the deadline first: what it overtakes is not sent again\n", "\n"),
		},
	}
}

// merging is about replies.
func merging() []mutant {
	const merge = "saga/merge.go"
	by := []detector{core, sim}
	return []mutant{
		{
			Name: "direction", Rule: "S2.10", By: by,
			Without: "replies of the direction before the decision are merged",
			Edits:   swap(merge, `case !m.inDirection(i, r.Phase):`, `case !m.inDirection(i, r.Phase) && false:`),
		},
		{
			Name: "recorded-once", Rule: "S2.10", By: by,
			Without: "a definitive reply is merged over a recorded one",
			Edits:   swap(merge, "case !op.State.Open():\n\t\tif sameReply", "case !op.State.Open() && false:\n\t\tif sameReply"),
		},
		{
			Name: "revision", Rule: "S1.5", By: by,
			Without: "a reply to another revision is merged",
			Edits:   swap(merge, `case r.Revision != op.Revision:`, `case r.Revision != op.Revision && false:`),
		},
		{
			Name: "other-content", Rule: "U3", By: by,
			Without: "a reply about other content counts as proof",
			Edits:   swap(merge, `case otherContent(*op, r):`, `case otherContent(*op, r) && false:`),
		},
		{
			// Not the simulator: whoever obeys answers only what was sent.
			Name: "never-sent", Rule: "S2.10", By: []detector{core},
			Without: "a reply to an operation that was never sent is merged",
			Edits:   swap(merge, `case !op.Sent() || op.Phase != r.Phase:`, `case (!op.Sent() || op.Phase != r.Phase) && false:`),
		},
		{
			Name: "old-attempts", Rule: "S2.10", By: by,
			Without: "a fault of an attempt before the operator's replay counts against it",
			Edits:   swap(merge, `case r.Attempt < op.Floor:`, `case r.Attempt < op.Floor && false:`),
		},
		{
			Name: "count-once", Rule: "S2.8", By: by,
			Without: "a reply that comes twice counts two attempts",
			Edits:   swap(merge, `if r.Attempt <= op.CountedTo {`, `if r.Attempt <= op.CountedTo && false {`),
		},
		{
			Name: "fence-contradicts", Rule: "S2.6", By: []detector{core, sim, small},
			Without: "the fence's answer that the pivot has executed is no proof",
			Edits:   swap(merge, `return m.isFence(step, r.Phase) && r.Code == FaultContradicts`, `return m.isFence(step, r.Phase) && r.Code == FaultContradicts && false`),
		},
		{
			// Not the simulator: its participants obey, and Conclude turns such a refusal into a fault.
			Name: "refusal-forward", Rule: "S2.7", By: []detector{core},
			Without: "a refusal is merged for an operation that must go forward",
			Edits: swap(merge, `case r.Outcome != OutcomeDone && r.Outcome != OutcomeFault && !refusable:`,
				`case r.Outcome != OutcomeDone && r.Outcome != OutcomeFault && !refusable && false:`),
		},
		{
			Name: "absent-is-no-promise", Rule: "S2.11", By: by,
			Without: "the inquiry answer absent counts as a refusal",
			Edits:   swap(merge, "case row{PhaseTry, BarrierRefused}:\n", "case row{PhaseTry, BarrierRefused}, row{PhaseTry, BarrierAbsent}:\n"),
		},
		{
			Name: "panic", Rule: "S3", By: by,
			Without: "a panic that exhausts its attempts is no dead letter but cancels",
			Edits:   swap(merge, "case panicked:", "case panicked && false:"),
		},
	}
}

// operators are what a person may do, and when.
func operators() []mutant {
	const operator = "saga/operator.go"
	by := []detector{core, sim}
	return []mutant{
		{
			Name: "obsolete-replay", Rule: "D3", By: by,
			Without: "a dead letter that the decision has made obsolete is replayed",
			Edits: []edit{
				{operator, `case m.decided() && (!m.inDirection(i, phase) || op.State == OperationClosed):`, `case m.decided() && op == nil:`},
				{operator, `case op.State != OperationDead || op.Phase != phase:`, `case op.State != OperationDead && op.State != OperationClosed || op.Phase != phase:`},
			},
		},
		{
			Name: "replay-floor", Rule: "S2.10", By: by,
			Without: "a replay does not count attempts anew",
			Edits:   swap(operator, "\top.Floor = op.Attempt\n", ""),
		},
		{
			Name: "second-click", Rule: "D2", By: by,
			Without: "a dead letter whose replay is in flight is replayed again",
			Edits: swap(operator, `case op.State != OperationDead || op.Phase != phase:`,
				`case op.State != OperationDead && !op.Replaying || op.Phase != phase:`),
		},
		{
			Name: "discard-fence", Rule: "S2.13", By: []detector{core, sim, small},
			Without: "a fence can be discarded, so that the pivot is decided without proof",
			Edits:   swap(operator, `if m.isFence(step, ev.Phase) {`, `if m.isFence(step, ev.Phase) && false {`),
		},
		{
			Name: "resolve-outstanding", Rule: "S2.13", By: by,
			Without: "a transaction is resolved while an operation is under way",
			Edits:   swap(operator, `if outstanding {`, `if outstanding && false {`),
		},
	}
}
