package main

// relay is the outbox.
func relay() []mutant {
	const sql, result, poll = "outbox/sql.go", "saga/relay/result.go", "saga/relay/poll.go"
	pure := tests("./saga/relay", "TestSettle", "TestSweep", "TestIsExpired", "TestEveryRowComesAgain")
	return []mutant{
		{
			Name: "delete-after-puback", Rule: "C1", By: []detector{pure, sim, tests("./outbox", "TestLostPubAck", "TestNATSIsStoppedAndWiped")},
			Without: "a row is deleted although NATS has not acknowledged its message",
			Edits:   swap(result, `case res == Acknowledged || res == Expired:`, `case res != Permanent:`),
		},
		{
			Name: "status-not-cursor", Rule: "C2", By: []detector{pure, sim, tests("./outbox", "TestLateCommitIsNotSkipped")},
			Without: "the poll goes on after the last id that it has seen, and skips what commits late",
			Edits: swap(poll, "\tcase c.Count == 0 || !c.more(room):\n\t\treturn Sweep{}, Spread(interval, rnd)",
				"\tcase c.Count == 0:\n\t\treturn s, Spread(interval, rnd)\n\tcase !c.more(room):\n\t\treturn Sweep{After: c.Last}, Spread(interval, rnd)"),
		},
		{
			Name: "claims", Rule: "C2", By: []detector{tests("./outbox", "TestRelaysShareTheRows", "TestRelaysThatMeet", "TestOwnPollKnowsWhatIsInFlight")},
			Without: "relays take rows that another has claimed",
			Edits:   swap(sql, "\n      AND (claimed_until IS NULL OR claimed_until < now())", ""),
		},
		{
			Name: "claims-end", Rule: "C2", By: []detector{tests("./outbox", "TestRowsOfACrashAreRecovered", "TestRelaysShareTheRows", "TestLostPubAck")},
			Without: "rows that a dead relay has claimed are never sent",
			Edits:   swap(sql, `AND (claimed_until IS NULL OR claimed_until < now())`, `AND claimed_until IS NULL`),
		},
		{
			Name: "grace", Rule: "C2", By: []detector{tests("./outbox", "TestYoungRowsAreLeftToTheirOwner")},
			Without: "the poll takes rows that were handed off in memory just now",
			Edits:   swap(sql, `WHERE created_at < now() - $1::bigint * interval '1 millisecond'`, `WHERE created_at < now() + $1::bigint * interval '1 millisecond'`),
		},
		{
			Name: "full-queue", Rule: "C12", By: []detector{tests("./outbox", "TestResultOf", "TestFullQueueBlocksNoOther")},
			Without: "the full queue of one participant slows the messages of all",
			Edits:   swap("outbox/decide.go", "return relay.Blocked", "return relay.Transient"),
		},
		{
			Name: "oversized", Rule: "C5", By: []detector{tests("./outbox", "TestInsertRefuses")},
			Without: "a message that NATS can never take is inserted",
			Edits:   swap("outbox/insert.go", "e, err := newEntry(m, bytesMax, now)\n", "e, err := newEntry(m, bytesMax<<10, now)\n"),
		},
		{
			Name: "expiry", Rule: "C12", By: []detector{pure, sim, tests("./outbox", "TestExpiredRowsAreDroppedUnsent")},
			Without: "a command whose attempt is long over is sent all the same",
			Edits:   swap(result, `return !expiry.IsZero() && now.After(expiry)`, `return !expiry.IsZero() && now.After(expiry) && false`),
		},
	}
}
