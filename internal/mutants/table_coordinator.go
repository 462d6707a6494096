package main

const (
	coordinatorSQL   = "coordinator/sql.go"
	coordinatorRound = "coordinator/round.go"
	coordinatorLane  = "coordinator/lane.go"
	coordinatorStore = "coordinator/store.go"
	sources          = "coordinator/sources.go"
	judge            = "saga/judge.go"
	commit           = "saga/commit.go"
	submission       = "saga/submission_judge.go"
	approval         = "saga/approval.go"
	lettersSQL       = "dlq/sql.go"
	lettersSchema    = "migrations/dlq/00001_dead_letters.sql"
)

// Detectors of the coordinator between its core and PostgreSQL.
var (
	judged = tests("./saga", "TestJudgeFromMemory", "TestJudgeForeign", "TestJudgeExpectedVersion", "TestJudgeSubmission",
		"TestAfterCommit", "TestAfterDoubt", "TestAcknowledge")
	stale = tests("./coordinator", "TestStaleReply", "TestStaleDuplicateReply", "TestStaleReplyAfterDecision", "TestStaleContradiction",
		"TestStaleCancel", "TestStaleCancelOfFencedPivot", "TestStaleWake", "TestStaleReplay")
	several   = tests("./coordinator", "TestTwoCoordinators", "TestThreeCoordinators")
	unknown   = tests("./coordinator", "TestUnknownCommits", "TestUnknownReplay", "TestUnknownSubmission")
	approvals = tests("./saga", "TestJudgeApproval", "TestJudgeApprove")
	keys      = tests("./coordinator", "TestRequestKeys", "TestOwnIDs", "TestOwnIDsWithKeys", "TestRepetitionAfterItsTime")
)

// versions are writes that are made on what was read, by several coordinators at once.
func versions() []mutant {
	return []mutant{
		{
			Name: "version", Rule: "C9", By: []detector{stale, several},
			Without: "a transaction is written whatever its version is",
			Edits:   swap(coordinatorSQL, "      FROM input u\n     WHERE t.id = u.id AND t.version = u.version\n", "      FROM input u\n     WHERE t.id = u.id\n"),
		},
		{
			Name: "version-of-timer", Rule: "C9", By: []detector{tests("./coordinator", "TestStaleWake"), several},
			Without: "a wake that changes nothing moves the timer of a transaction that has moved on",
			Edits:   swap(coordinatorSQL, "AS u (id, version, wake_at)\n     WHERE t.id = u.id AND t.version = u.version\n", "AS u (id, version, wake_at)\n     WHERE t.id = u.id\n"),
		},
		{
			Name: "reload", Rule: "S2.10", By: []detector{judged, sim, stale},
			Without: "a reply that the cached state does not expect is not judged on the reloaded row",
			Edits:   swap(judge, `case unexpected && c.mayBeStale():`, `case unexpected && c.mayBeStale() && false:`),
		},
		{
			Name: "forget", Rule: "C9", By: []detector{several, unknown, stale},
			Without: "after a conflict the batch is decided on the same cached transactions again",
			Edits:   swap(coordinatorLane, "\t\tl.cache.drop(it.id)\n", "\t\t_ = it\n"),
		},
		{
			Name: "lock-order", Rule: "C9", By: []detector{tests("./coordinator", "TestLocksInOrder")},
			Without: "batches lock rows in any order, and wait for each other in a circle",
			Edits:   swap(coordinatorSQL, `ON t.id = u.id ORDER BY t.id FOR NO KEY UPDATE OF t`, `ON t.id = u.id FOR NO KEY UPDATE OF t`),
		},
		{
			Name: "key-order", Rule: "C9", By: []detector{tests("./coordinator", "TestSameRequestsInAnyOrder")},
			Without: "batches insert request keys in any order, and wait for each other in a circle",
			Edits: []edit{
				{coordinatorSQL, "$6::bytea[])\n ORDER BY 1, 2, 3`", "$6::bytea[])`"},
				{coordinatorStore, "\tslices.SortFunc(keyed, compareKeys)", "\tslices.IsSortedFunc(keyed, compareKeys)"},
			},
		},
		{
			Name: "unknown-commit", Rule: "C9", By: []detector{tests("./coordinator", "TestUnknownSubmission")},
			Without: "a submission whose commit was not answered is not looked up before it is tried again",
			Edits:   swap(coordinatorRound, `if g[0].submit != nil && !retry && !g[0].submit.ownID {`, `if g[0].submit != nil && !g[0].submit.ownID {`),
		},
		{
			Name: "unknown-operator", Rule: "C9", By: []detector{judged, sim, unknown},
			Without: "an operator is told that nothing was done when the commit before may have done it",
			Edits:   swap(commit, "if err != nil {\n\t\t\treturn fmt.Errorf(\"%w: %s\", ErrOutcomeUnknown", "if err != nil && false {\n\t\t\treturn fmt.Errorf(\"%w: %s\", ErrOutcomeUnknown"),
		},
	}
}

// order is what happens before what: commit, hand-off, acknowledgement, timers.
func order() []mutant {
	return []mutant{
		{
			Name: "commit-before-send", Rule: "I-8", By: []detector{tests("./coordinator", "TestThreeCoordinators", "TestIsolation"), unknown},
			Without: "commands are handed to the publisher before their state is committed",
			Edits: []edit{
				{coordinatorRound, "\tif err != nil {\n\t\treturn err\n\t}\n\tr.entries = entries\n", "\tl.handOff(entries...)\n\tif err != nil {\n\t\treturn err\n\t}\n\tr.entries = nil\n"},
				{coordinatorStore, "return nil, errVersionConflict", "return entries, errVersionConflict"},
				{coordinatorStore, `return nil, fmt.Errorf("storing`, `return entries, fmt.Errorf("storing`},
			},
		},
		{
			Name: "ack-after-commit", Rule: "C1", By: []detector{tests("./coordinator", "TestBlockedDatabase", "TestStopUnderLoad", "TestStopWhileBlocked"), unknown},
			Without: "a reply is acknowledged before it is committed",
			Edits: swap(sources, "\tit := &item{id: reply.Transaction, event: saga.Replied{Reply: reply}, source: d.Message}\n",
				"\tc.logFailedAck(d.Ack())\n\tit := &item{id: reply.Transaction, event: saga.Replied{Reply: reply}, source: d.Message}\n"),
		},
		{
			Name: "ack-in-doubt", Rule: "C1", By: []detector{judged, sim},
			Without: "a reply whose commit is in doubt is acknowledged",
			Edits:   swap(commit, "case errors.Is(err, ErrOutcomeUnknown):\n\t\treturn AckLeave", "case errors.Is(err, ErrOutcomeUnknown):\n\t\treturn AckDone"),
		},
		{
			Name: "timer-lease", Rule: "C4", By: []detector{tests("./coordinator", "TestTimersAreClaimedAsDecided")},
			Without: "a claimed timer is gone if its coordinator dies",
			Edits:   swap(coordinatorSQL, `SET wake_at = clock_timestamp() + $2::interval`, `SET wake_at = 'infinity'::timestamptz + $2::interval * 0`),
		},
		{
			Name: "timer-earlier", Rule: "C4", By: []detector{tests("./coordinator", "TestTimersMoveAsDecided", "TestTimerStates")},
			Without: "a timer is not moved to an earlier instant",
			Edits:   swap(coordinatorSQL, `ELSE LEAST(t.wake_at, u.wake_at) END`, `ELSE t.wake_at END`),
		},
	}
}

// identity is who is meant by a submission or a reply.
func identity() []mutant {
	return []mutant{
		{
			Name: "key-content", Rule: "I2", By: []detector{judged, sim, keys},
			Without: "a request id with other content gets the first one's answer",
			Edits: []edit{
				{submission, `case stored.ContentSHA256 != incoming.ContentSHA256 && incoming.RequestID != "":`, `case stored.ContentSHA256 != incoming.ContentSHA256 && incoming.RequestID != "" && false:`},
				{submission, `case stored.ContentSHA256 != incoming.ContentSHA256:`, `case stored.ContentSHA256 != incoming.ContentSHA256 && false:`},
			},
		},
		{
			Name: "own-id-taken", Rule: "S1.2", By: []detector{judged, sim, keys},
			Without: "a submission with an id that another client has taken gets that one's answer",
			Edits: swap(submission, `case stored.Tenant != incoming.Tenant || stored.Client != incoming.Client || stored.RequestID != incoming.RequestID:`,
				`case stored.Tenant != incoming.Tenant || stored.RequestID != incoming.RequestID:`),
		},
		{
			Name: "reply-tenant", Rule: "I-14", By: []detector{judged, sim, tests("./coordinator", "TestOrphanReplies")},
			Without: "a reply that names another tenant's transaction is merged",
			Edits:   swap(judge, `if ev.Reply.Tenant != c.Tx.Tenant {`, `if ev.Reply.Tenant != c.Tx.Tenant && false {`),
		},
		{
			Name: "reply-participant", Rule: "I-14", By: []detector{judged, sim, tests("./coordinator", "TestOrphanReplies")},
			Without: "a reply of a participant about another one's step is merged",
			Edits:   swap(judge, `i >= 0 && c.Def.Steps[i].Participant != ev.Reply.Participant {`, `i >= 0 && c.Def.Steps[i].Participant != ev.Reply.Participant && false {`),
		},
	}
}

// letters are what is set aside, and what operators do about it.
func letters() []mutant {
	return []mutant{
		{
			Name: "isolation", Rule: "C5", By: []detector{tests("./coordinator", "TestIsolation")},
			Without: "one event that cannot be stored takes its whole batch with it",
			Edits: swap(coordinatorLane, "case saga.NextByTransaction:\n\t\tfor _, g := range groups {\n\t\t\tl.process(ctx, g)\n",
				"case saga.NextByTransaction:\n\t\tfor _, g := range groups {\n\t\t\tfailAll(g, fmt.Errorf(\"%w: %w\", saga.ErrCannotStore, err))\n"),
		},
		{
			Name: "kept-bytes", Rule: "C5", By: []detector{tests("./coordinator", "TestUndecodableReply", "TestMessageDeadLetter")},
			Without: "a message that cannot be understood is dropped",
			Edits: swap("coordinator/notices.go", `err := dlq.BuryMessage(ctx, tx, m, participant, saga.FaultUndecodable, cause.Error()); err != nil {`,
				`err := ctx.Err(); err != nil && participant == dlq.CodeMoved {`),
		},
		{
			Name: "dead-letter-version", Rule: "D2", By: []detector{tests("./dlq", "TestStaleVersion")},
			Without: "an operator's action is carried out on a dead letter that has changed since it was shown",
			Edits:   swap(lettersSQL, `AND ($6::bigint = 0 OR version = $6)`, `AND ($6::bigint >= 0)`),
		},
		{
			Name: "stale-look", Rule: "D2", By: []detector{judged, sim, tests("./coordinator", "TestStaleClick", "TestStaleReplay")},
			Without: "an operator's action is carried out on a transaction that has changed since it was looked at",
			Edits:   swap(judge, `if c.Expected != 0 && (c.Expected != c.Tx.Version || c.Changed) {`, `if c.Expected != 0 && false {`),
		},
		{
			Name: "approval-needed", Rule: "D4", By: []detector{approvals, sim},
			Without: "what nobody knows the outcome of, or somebody has edited, is replayed with nobody's approval",
			Edits:   swap(approval, `return inDoubt(l.Outcome, l.Cause) || l.Proposal != nil`, `return inDoubt(l.Outcome, l.Cause) && l.Proposal != nil && false`),
		},
		{
			Name: "approval-own", Rule: "D4", By: []detector{approvals, sim},
			Without: "an operator approves what the same operator replays",
			Edits:   swap(approval, `case a.Approver == r.Actor:`, `case a.Approver == r.Actor && false:`),
		},
		{
			Name: "approval-binding", Rule: "D4", By: []detector{approvals, sim},
			Without: "an approval is good for what the dead letter has become since",
			Edits: []edit{
				{approval, `case a.Version != is.Version:`, `case a.Version != is.Version && false:`},
				{approval, `case a.Revision != is.Revision || a.ContentSHA256 != is.ContentSHA256:`, `case a.Revision != is.Revision && false:`},
			},
		},
		{
			Name: "one-dead-letter", Rule: "D1", By: []detector{tests("./dlq", "TestStates"), tests("./coordinator", "TestOneDeadLetterPerOperation")},
			Without: "an operation that fails again opens a second dead letter",
			Edits: []edit{
				{lettersSchema, "CREATE UNIQUE INDEX dead_letters_operation", "CREATE INDEX dead_letters_operation"},
				{lettersSQL, "ON CONFLICT (transaction_id, step, phase) WHERE", "ON CONFLICT (id) WHERE"},
			},
		},
	}
}
