package main

// messages are what travels.
func messages() []mutant {
	wire := tests("./saga/wire", "TestMessageIDs", "TestGoldenCommands", "TestGoldenReplies", "TestDecodeRefusesBadHeaders",
		"TestSubjectAndHeaderAgree", "TestCommandRoundTrip", "TestDecodeReplyRefusesResults")
	return []mutant{
		{
			Name: "message-id", Rule: "C3", By: []detector{wire},
			Without: "the message id lacks the attempt, so that NATS swallows intended repetitions",
			Edits: swap("saga/wire/writer.go", "w.number(HeaderAttempt, attempt)\n",
				"end := len(w.text)\n\tw.number(HeaderAttempt, attempt)\n\tw.fields[w.n-1] = field{name: HeaderAttempt, value: string(w.text[end:])}\n\tw.text = w.text[:end]\n"),
		},
		{
			Name: "command-content", Rule: "S1.4", By: []detector{wire},
			Without: "a command whose body is not what its hash says is carried out",
			Edits:   swap("saga/wire/command.go", `case saga.ContentSHA256(c.Action, c.Body) != c.ContentSHA256:`, `case saga.ContentSHA256(c.Action, c.Body) != c.ContentSHA256 && false:`),
		},
		{
			Name: "reply-subject", Rule: "I-14", By: []detector{wire},
			Without: "a participant answers in the name of another",
			Edits:   swap("saga/wire/reply.go", "if m.Subject != \"\" {\n", "if m.Subject == \"\" {\n"),
		},
	}
}

// doors are who may see and do what.
func doors() []mutant {
	const api = "./coordinator/api"
	return []mutant{
		{
			Name: "client", Rule: "I-14", By: []detector{tests(api, "TestTransactionsBelongToTheirClient")},
			Without: "a client reads another client's transaction",
			Edits:   swap("coordinator/query.go", `if r == nil || !caller.reaches(r) {`, `if r == nil {`),
		},
		{
			Name: "client-of-list", Rule: "I-14", By: []detector{tests(api, "TestTransactionsBelongToTheirClient", "TestListPages")},
			Without: "a client's list shows the transactions of others",
			Edits:   swap("coordinator/sql.go", `AND ($2::text IS NULL OR t.client = $2)`, `AND ($2::text IS NULL OR true)`),
		},
		{
			Name: "operators-only", Rule: "I1", By: []detector{tests(api, "TestIdentityComesFromTheCredential", "TestDeadLetterReplay", "TestTransactionsBelongToTheirClient", "TestTokenIdentity", "TestResolve")},
			Without: "clients do what only operators may",
			Edits:   swap("coordinator/api/access.go", `case !id.Roles.Any(rt.access.roles()):`, `case id.Roles == 0:`),
		},
		{
			Name: "token", Rule: "I1", By: []detector{tests(api, "TestTokenIsNeeded")},
			Without: "any token is let in",
			Edits:   swap("coordinator/api/configured.go", `if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {`, `if subtle.ConstantTimeCompare(got[:], want[:]) > 1 {`),
		},
		{
			Name: "rebinding", Rule: "I1", By: []detector{tests(api, "TestLoopbackRefusesOtherHosts")},
			Without: "a web page whose name points to this machine is let in",
			Edits:   swap("coordinator/api/identity.go", `if !isLoopbackHost(r.Host) {`, `if !isLoopbackHost(r.Host) && false {`),
		},
		{
			Name: "cross-origin", Rule: "I1", By: []detector{tests(api, "TestCrossOriginWritesAreRefused")},
			Without: "a web page of another origin sends requests",
			Edits:   swap("coordinator/api/api.go", `if err := h.origins.Check(c.r); err != nil {`, `if err := h.origins.Check(c.r); err != nil && false {`),
		},
	}
}
