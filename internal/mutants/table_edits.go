package main

// edits are about revisions of a body: what is reserved, and what may be sent then.
func edits() []mutant {
	const admit, operator = "saga/admit.go", "saga/operator.go"
	return []mutant{
		{
			Name: "admit-superseded", Rule: "S1.5", By: []detector{rules, sim},
			Without: "a revision below the reserved one runs",
			Edits: swap(admit, `case recorded.none() && cmd.Revision < recorded.MinRevision: // S1.5`,
				`case recorded.none() && cmd.Revision < recorded.MinRevision && false:`),
		},
		{
			Name: "reserve-under-way", Rule: "S1.5", By: []detector{rules, sim},
			Without: "the next revision of a cancel is reserved while the present one may be carried out under a lease",
			Edits:   swap(admit, `if !recorded.none() || settled || row.State == BarrierTrying {`, `if !recorded.none() || settled {`),
		},
		{
			// Not the simulator: it takes a done that was lost, a dead letter and its edit, which 2,000 seeds may not have.
			Name: "reserve-settled", Rule: "S1.5", By: []detector{rules},
			Without: "another revision is reserved of the cancel of what was refused, which has been answered done",
			Edits:   swap(admit, `settled := cmd.Phase == PhaseCancel && row.State == BarrierRefused`, `settled := false`),
		},
		{
			Name: "edit-reserved", Rule: "S1.5", By: []detector{core, sim},
			Without: "an edit is sent before its participant has reserved it",
			Edits: []edit{
				{operator, `if !op.Reserved {`, `if !op.Reserved && false {`},
				{"saga/letter.go", `l.Proposal != nil && !l.Proposal.Reserved:`, `l.Proposal != nil && !l.Proposal.Reserved && false:`},
			},
		},
		{
			Name: "edit-asked-again", Rule: "S2.10", By: []detector{core, sim},
			Without: "a copy of the answer to a reservation withdraws the edit that was proposed since",
			Edits:   swap("saga/edit.go", `case r.Attempt < op.Attempt:`, `case r.Attempt < op.Attempt && false:`),
		},
		{
			Name: "sql-reserve-under-way", Rule: "S1.5", By: []detector{agree, tests("./participant", "TestBarrierReserveUnderWay")},
			Without: "the next revision of a cancel is reserved while the present one may be carried out under a lease",
			Edits:   swap(barrierSQL, ` OR row_state = 'trying' OR p_phase = 'cancel'`, ` OR p_phase = 'cancel'`),
		},
		{
			Name: "sql-superseded", Rule: "S1.5", By: []detector{agree, tests("./participant", "TestBarrierReserve")},
			Without: "a revision below the reserved one runs",
			Edits:   swap(barrierSQL, `IF recorded IS NULL AND p_revision < min_revision THEN`, `IF recorded IS NULL AND p_revision < min_revision AND false THEN`),
		},
	}
}

// silences are about attempts that nobody answers.
func silences() []mutant {
	const wake = "saga/wake.go"
	by := []detector{core, sim}
	return []mutant{
		{
			Name: "silence", Rule: "S2.8", By: by,
			Without: "the silence of a whole participant exhausts attempts",
			Edits:   swap(wake, `.Others(own).After(op.SentAt)`, `.Others(own).After(op.SentAt) && false`),
		},
		{
			Name: "silence-own", Rule: "S2.8", By: by,
			Without: "what an operation says late of itself counts as its participant's answer to others",
			Edits:   swap("saga/heard.go", `if h.of == than {`, `if h.of == than && false {`),
		},
		{
			Name: "silence-phase-two", Rule: "S2.8", By: by,
			Without: "what must go forward exhausts by silence",
			Edits:   swap(wake, `mayExhaust := op.Phase == PhaseTry && s.Kind.cancellable()`, `mayExhaust := op.Phase != ""`),
		},
	}
}
