package main

const (
	barrierSQL  = "migrations/participant/00001_barrier.sql"
	externalSQL = "migrations/participant/00002_external.sql"
)

// Detectors of the participant's side.
var (
	safeguards = tests("./participant", "TestBarrierSafeguards")
	agree      = tests("./participant", "TestBarrierAgrees")
	races      = tests("./participant", "TestBarrierPairs", "TestBarrierFenceRaces")
	stress     = tests("./participant", "TestBarrierStress")
	reorder    = tests("./participant", "TestDuplicatesAndReorderings", "TestHangingTryAndNullCancel")
)

// barrier is the barrier's SQL, which every participant in every language uses.
func barrier() []mutant {
	return []mutant{
		{
			Name: "sql-tombstone", Rule: "M4", By: []detector{safeguards, agree, stress, reorder},
			Without: "a cancel whose try never ran leaves no row",
			Edits: swap(barrierSQL, "v.keep := true; -- the row that was inserted stays: a try that comes later finds it and is refused\n",
				"DELETE FROM saga.barrier b WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;\n"),
		},
		{
			Name: "sql-hanging", Rule: "M3", By: []detector{agree, reorder},
			Without: "a try that arrives after its cancel runs",
			Edits: swap(barrierSQL, `RETURN saga.barrier_reply(p_sha256, p_revision, 'hanging', NULL, 'the cancel of the step is recorded');`,
				`v.verdict := 'run';`),
		},
		{
			Name: "sql-stored-reply", Rule: "B3", By: []detector{safeguards, agree, stress},
			Without: "a repeated operation runs its code again",
			Edits: swap(barrierSQL, "RETURN v; -- a repeated operation is answered from the row; user code is not called again\n",
				"UPDATE saga.barrier b SET state = CASE p_phase WHEN 'try' THEN 'entered' ELSE 'tried' END\n"+
					" WHERE b.transaction_id = p_transaction AND b.step = p_step AND b.tenant = p_tenant;\nv.verdict := 'run'; v.replayed := false;\n"),
		},
		{
			Name: "sql-content", Rule: "B1", By: []detector{safeguards, agree},
			Without: "other content under the same key is not noticed",
			Edits:   swap(barrierSQL, `IF recorded <> p_sha256 THEN`, `IF recorded <> p_sha256 AND false THEN`),
		},
		{
			Name: "sql-lock", Rule: "B2", By: []detector{races, stress},
			Without: "the row is read without a lock, so that two operations of a step decide on the same state",
			Edits:   swap(barrierSQL, "\n           FOR NO KEY UPDATE;", ";"),
		},
		{
			Name: "sql-wait", Rule: "B2", By: []detector{races},
			Without: "a confirm does not see that its try is not committed yet, and answers a fault",
			Edits:   swap(barrierSQL, `EXIT WHEN NOT saga.barrier_probe(p_tenant, p_transaction, p_step, p_kind);`, `EXIT;`),
		},
		{
			Name: "sql-isolation", Rule: "B-table", By: []detector{tests("./participant", "TestBarrierIsolation")},
			Without: "transactions of other isolation levels are let in, which do not see what was committed while they waited",
			Edits:   swap(barrierSQL, `IF current_setting('transaction_isolation') <> 'read committed' THEN`, `IF false THEN`),
		},
		{
			Name: "sql-not-tried", Rule: "I-4", By: []detector{agree, stress},
			Without: "a confirm without a committed try runs",
			Edits: swap(barrierSQL, `RETURN saga.barrier_reply(p_sha256, p_revision, 'fault', 'not_tried', 'the step has no committed try');`,
				`v.verdict := 'run';`),
		},
		{
			Name: "sql-fence", Rule: "S2.6", By: []detector{agree, races},
			Without: "the fence of an executed pivot is handled like any other cancel",
			Edits:   swap(barrierSQL, `IF step_kind = 'pivot' THEN`, `IF step_kind = 'pivot' AND false THEN`),
		},
		{
			Name: "sql-deadline", Rule: "B4", By: []detector{agree, tests("./participant", "TestBarrierDeadline")},
			Without: "a try that arrives after its deadline runs",
			Edits: swap(barrierSQL, `AND (clock_timestamp() > p_deadline AND p_kind <> 'retriable') IS NOT TRUE THEN`,
				`THEN`),
		},
		{
			Name: "sql-floor", Rule: "B7", By: []detector{agree, tests("./participant", "TestBarrierFloor")},
			Without: "a try from below the retention floor runs",
			Edits:   swap(barrierSQL, `AND p_verb = 'execute' AND p_transaction >= lowest`, `AND p_verb = 'execute'`),
		},
		{
			Name: "sql-entered", Rule: "M2", By: []detector{tests("./participant", "TestBarrierMisuse", "TestCommitBySQL", "TestBarrierTxEndedBySQL")},
			Without: "an effect that was committed without its record goes unnoticed",
			Edits:   swap(barrierSQL, `IF row_state = 'entered' THEN`, `IF row_state = 'entered' AND false THEN`),
		},
		{
			Name: "sql-confirmed-once", Rule: "B3", By: []detector{tests("./participant", "TestLeaveNeedsItsState")},
			Without: "a confirm is recorded whatever the row says, on a cancelled one too",
			Edits:   swap(barrierSQL, `AND b.tenant = p_tenant AND b.state = 'tried';`, `AND b.tenant = p_tenant;`),
		},
	}
}

// effects are effects outside of the participant's database.
func effects() []mutant {
	const run = "participant/external_run.go"
	external := tests("./participant", "TestExternalLeaseLive", "TestExternalLeaseOver", "TestExternalStaleOwner", "TestExternalSQL", "TestExternalOutcomes")
	return []mutant{
		{
			Name: "lease-token-try", Rule: "B6", By: []detector{tests("./participant", "TestBarrierLease"), external},
			Without: "the stale owner of a lease writes the result of its try",
			Edits: swap(barrierSQL, "OR b.state = 'trying' AND b.lease_token = p_lease_token)\n           AND (p_outcome",
				"OR b.state = 'trying')\n           AND (p_outcome"),
		},
		{
			Name: "lease-token-cancel", Rule: "B6", By: []detector{tests("./participant", "TestStaleLeaseOfACancel", "TestLeaseOfACancel", "TestLeaveNeedsItsState")},
			Without: "the stale owner of a lease records its cancel",
			Edits: swap(barrierSQL, "OR b.state = 'trying' AND b.lease_token = p_lease_token);",
				"OR b.state = 'trying');"),
		},
		{
			Name: "lease-token-found", Rule: "B6", By: []detector{external},
			Without: "the stale owner of a lease writes what it found out",
			Edits: swap(externalSQL, "AND b.state = 'trying' AND b.lease_token = p_lease_token\n       AND (p_outcome",
				"AND b.state = 'trying'\n       AND (p_outcome"),
		},
		{
			Name: "lease-token-release", Rule: "B6", By: []detector{external},
			Without: "the stale owner of a lease ends the lease of another",
			Edits: swap(externalSQL, "AND b.state = 'trying' AND b.lease_token = p_lease_token;\n    RETURN FOUND;",
				"AND b.state = 'trying';\n    RETURN FOUND;"),
		},
		{
			Name: "lease-live", Rule: "U4", By: []detector{agree, external},
			Without: "a try does not respect the live lease of another",
			Edits: swap(barrierSQL, "IF p_now < r.lease_until THEN\n                v := saga.barrier_reply(p_sha256, p_revision, 'in_progress'",
				"IF false THEN\n                v := saga.barrier_reply(p_sha256, p_revision, 'in_progress'"),
		},
		{
			Name: "void", Rule: "B-table", By: []detector{external},
			Without: "an absent effect is cancelled without making downstream refuse its key",
			Edits: swap(run, "case verdict.Do == saga.DoVoid && e.calls.void != nil:\n\t\treturn e.void(ctx)",
				"case verdict.Do == saga.DoVoid && e.calls.void != nil:\n\t\tdone, _ := saga.Conclude(saga.BarrierRow{}, e.cmd, saga.Ran{Outcome: saga.OutcomeDone})\n\t\treturn e.store(ctx, done.Reply)"),
		},
		{
			Name: "lease-kept", Rule: "U4", By: []detector{external, tests("./participant", "TestExternalRunsAgain")},
			Without: "the lease of a try whose outcome is unknown is given back at once",
			Edits:   swap(run, `if ended == nil && (nothing || e.x.idempotent) {`, `if ended == nil {`),
		},
	}
}

// participants is the participant's program around the barrier.
func participants() []mutant {
	const entry, execute, intake = "participant/barrier.go", "participant/execute.go", "participant/intake.go"
	return []mutant{
		{
			Name: "ack-before-reply", Rule: "B5", By: []detector{tests("./participant", "TestCrashBetweenCommitAndReply", "TestPublishIsRepeated", "TestDrainTimeout")},
			Without: "a command is acknowledged before its reply is published",
			Edits: swap(intake, "\tif !in.publish(j, reply) {\n\t\treturn\n\t}",
				"\t_ = j.delivery.Ack()\n\tif !in.publish(j, reply) {\n\t\treturn\n\t}"),
		},
		{
			Name: "ack-before-commit", Rule: "B5", By: []detector{tests("./participant", "TestConnectionLostBeforeCommit", "TestCrashBetweenCommitAndReply", "TestDrainTimeout", "TestConnectionLostInHandler")},
			Without: "a command is acknowledged before it is carried out",
			Edits:   swap(intake, "\treply, ok := in.answer(j)\n", "\t_ = j.delivery.Ack()\n\treply, ok := in.answer(j)\n"),
		},
		{
			Name: "commit-unknown", Rule: "X1", By: []detector{tests("./participant", "TestBarrierCommitUnknown", "TestConnectionLostBeforeCommit")},
			Without: "a commit whose answer was lost counts as rolled back",
			Edits:   swap(entry, "case pg.CommitUnknown(err):\n\t\tclosing", "case pg.CommitUnknown(err) && false:\n\t\tclosing"),
		},
		{
			Name: "refusal-undone", Rule: "I4", By: []detector{tests("./participant", "TestBarrierRefusal", "TestOutcomesOfTries")},
			Without: "what a handler did before it refused stays",
			Edits:   swap(entry, `if verdict.Reply.Outcome == saga.OutcomeRefused {`, `if verdict.Reply.Outcome == saga.OutcomeRefused && e.tx == nil {`),
		},
		{
			Name: "transaction-owned", Rule: "M2", By: []detector{tests("./participant", "TestBarrierTxOwned", "TestMisuseOfTheTransaction")},
			Without: "a handler can commit the transaction, without the record of the operation",
			Edits: swap("participant/tx.go", "return t.guard.refuse(\"Commit\")",
				"return t.guard.use(func() error { return t.tx.Commit(ctx) })"),
		},
		{
			Name: "poison", Rule: "S3", By: []detector{tests("./participant", "TestPoison", "TestSuspectsRunAlone"), tests("./participant", "TestKillersArePoison")},
			Without: "a command that kills its process is run for ever",
			Edits:   swap(execute, `if s.poison {`, `if s.poison && false {`),
		},
		{
			Name: "wrong-kind", Rule: "S3", By: []detector{tests("./participant", "TestOutcomesOfTries", "TestExternalWrongCommands", "TestUndecodable", "TestPhaseTwoCannotRefuse")},
			Without: "an action of one kind carries out steps of another",
			Edits:   swap(execute, `case cmd.Kind != h.kind:`, `case cmd.Kind != h.kind && false:`),
		},
	}
}
