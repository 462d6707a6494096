package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// ParticipantState is how a participant does, and what waits for it.
type ParticipantState struct {
	ParticipantFlow
	Waiting map[saga.Wait]int // operations that are not sent, by what they wait for
	Paused  []Paused          // what is paused of it, or around it: everything, it, or its actions
}

// ParticipantStates is how the participants do.
type ParticipantStates struct {
	Participants []ParticipantState // by name
	// Partial says that there are more transactions than were looked at: Waiting counts only those that are due first.
	Partial bool
}

// countedMax bounds how many transactions are looked at to count what waits.
const countedMax = 10_000

// sqlCountWaits counts, of the transactions that are due first, the operations that wait, and the transactions.
const sqlCountWaits = `
WITH unfinished AS MATERIALIZED (
    SELECT id, definition FROM transactions WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT $1
), waiting AS (
    SELECT u.definition, o.step, o.wait, count(*) AS operations
      FROM unfinished u
     CROSS JOIN LATERAL (SELECT step, wait FROM operations WHERE transaction_id = u.id AND state = 'waiting') AS o
     GROUP BY u.definition, o.step, o.wait
)
SELECT (SELECT count(*) FROM unfinished), w.definition, w.step, w.wait, w.operations
  FROM (VALUES (1)) AS one (row) LEFT JOIN waiting w ON true`

// Participants tells how the participants do that this coordinator has sent to, that something waits for, or that are
// paused. Breakers, drains and ceilings are as this coordinator sees them.
func (a Admin) Participants(ctx context.Context) (ParticipantStates, error) {
	waits, partial, err := a.c.countWaits(ctx)
	if err != nil {
		return ParticipantStates{}, err
	}
	pauses, err := a.c.pauses(ctx)
	if err != nil {
		return ParticipantStates{}, err
	}
	flows := a.c.Flows()
	names := map[string]bool{}
	for name := range flows {
		names[name] = name != "" // it stands for those beyond flow.ParticipantsMax
	}
	for name := range waits {
		names[name] = true
	}
	for i := range pauses {
		names[pauses[i].Participant] = pauses[i].Participant != ""
	}
	states := ParticipantStates{Partial: partial}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			continue
		}
		s := ParticipantState{ParticipantFlow: flows[name], Waiting: waits[name]}
		s.Participant, s.Breaker = name, cmp.Or(s.Breaker, flow.BreakerClosed)
		for i := range pauses {
			if p := &pauses[i]; p.Scope == flow.ScopeAll || p.Participant == name {
				s.Paused = append(s.Paused, *p)
			}
		}
		states.Participants = append(states.Participants, s)
	}
	return states, nil
}

// countWaits counts the operations that wait, by participant and by what they wait for, and whether it has not looked at
// all.
func (c *Coordinator) countWaits(ctx context.Context) (waits map[string]map[saga.Wait]int, partial bool, err error) {
	rows, err := c.cfg.Pool.Query(ctx, sqlCountWaits, countedMax)
	if err != nil {
		return nil, false, fmt.Errorf("counting what waits for participants: %w", err)
	}
	type counted struct {
		definition [32]byte
		step, wait string
		operations int
	}
	var found []counted
	looked := 0
	for rows.Next() {
		var definition []byte
		var step, wait *string
		var operations *int
		if err := rows.Scan(&looked, &definition, &step, &wait, &operations); err != nil {
			return nil, false, fmt.Errorf("counting what waits for participants: %w", err)
		}
		if step != nil {
			n := counted{step: *step, wait: *wait, operations: *operations}
			copy(n.definition[:], definition)
			found = append(found, n)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("counting what waits for participants: %w", err)
	}
	waits = map[string]map[saga.Wait]int{}
	for _, n := range found {
		def, err := c.store.definitions.get(ctx, n.definition)
		if err != nil {
			return nil, false, err
		}
		at := def.StepIndex(n.step)
		if at < 0 {
			continue
		}
		name := def.Steps[at].Participant
		if waits[name] == nil {
			waits[name] = map[saga.Wait]int{}
		}
		waits[name][saga.Wait(n.wait)] += n.operations
	}
	return waits, looked >= countedMax, nil
}
