package coordinatortest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/flow"
)

// pauseRecheck is how long what is paused waits before it asks again.
const pauseRecheck = 2 * time.Second

// Ask holds back what is paused (saga.Gate), and nothing else: there are no budgets, breakers or limits in memory.
func (e *engine) Ask(r saga.SendRequest, now time.Time) (saga.Wait, time.Time) {
	for i := range e.pauses {
		if e.pauses[i].Holds(r) {
			return saga.WaitPause, now.Add(pauseRecheck)
		}
	}
	return saga.WaitNone, time.Time{}
}

// paused reports whether the transaction would only ask again whether it is still paused.
func (e *engine) paused(k *kept) bool {
	if len(e.pauses) == 0 {
		return false
	}
	for i := range k.Tx.Steps {
		for _, op := range [2]*saga.Operation{&k.Tx.Steps[i].Try, &k.Tx.Steps[i].Settle} {
			if op.State == saga.OperationWaiting && op.Wait == saga.WaitPause && op.NextAt.Equal(k.WakeAt) {
				return true
			}
		}
	}
	return false
}

// Pause holds what is in a scope back (E2).
func (e *engine) Pause(_ context.Context, p coordinator.PauseParams) (paused coordinator.Paused, created bool, err error) {
	if err := p.What.Check(); err != nil {
		return paused, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	for _, known := range e.pauses {
		if known.Pause == p.What {
			return known, false, nil
		}
	}
	e.record(dlq.AuditEntry{Actor: p.Actor, Action: "pause", Object: p.What.String(), Allowed: true, Reason: p.Reason})
	e.note("%s is paused: %+q", p.What.String(), p.Reason)
	paused = coordinator.Paused{Pause: p.What, ID: uuid.Must(uuid.NewV7()), Reason: p.Reason, Actor: p.Actor, CreatedAt: e.now}
	e.pauses = append(e.pauses, paused)
	return paused, true, nil
}

// Resume ends a pause (E2).
func (e *engine) Resume(_ context.Context, p coordinator.ResumeParams) (coordinator.Paused, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	entry := dlq.AuditEntry{Actor: p.Actor, Action: "resume", Object: p.ID.String(), Allowed: true, Reason: p.Reason}
	at := slices.IndexFunc(e.pauses, func(known coordinator.Paused) bool { return known.ID == p.ID })
	if at < 0 {
		return coordinator.Paused{}, e.refuse(entry, coordinator.ErrNotFound)
	}
	paused := e.pauses[at]
	entry.Object = paused.String()
	e.record(entry)
	e.note("%s is resumed: %+q", paused.String(), p.Reason)
	e.pauses = slices.Delete(e.pauses, at, at+1)
	e.pump(time.Time{})
	return paused, nil
}

// Pauses lists what is paused, the oldest first.
func (e *engine) Pauses(context.Context) ([]coordinator.Paused, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.pauses), nil
}

// Participants tells what waits for the participants that transactions which have not ended name. There are no breakers.
func (e *engine) Participants(context.Context) (coordinator.ParticipantStates, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	states := coordinator.ParticipantStates{}
	of := func(name string) *coordinator.ParticipantState {
		at, found := slices.BinarySearchFunc(states.Participants, name, func(s coordinator.ParticipantState, name string) int {
			return cmp.Compare(s.Participant, name)
		})
		if !found {
			states.Participants = slices.Insert(states.Participants, at, coordinator.ParticipantState{
				ParticipantFlow: coordinator.ParticipantFlow{Participant: name, Breaker: flow.BreakerClosed}, Waiting: map[saga.Wait]int{},
			})
		}
		return &states.Participants[at]
	}
	for _, p := range e.pauses {
		if p.Participant != "" {
			of(p.Participant)
		}
	}
	for _, k := range e.live {
		for i := range k.Tx.Steps {
			s := of(k.Def.Steps[i].Participant)
			for _, op := range [2]*saga.Operation{&k.Tx.Steps[i].Try, &k.Tx.Steps[i].Settle} {
				switch op.State {
				case saga.OperationSent:
					s.InFlight++
				case saga.OperationWaiting:
					s.Waiting[op.Wait]++
				default:
				}
			}
		}
	}
	for i := range states.Participants {
		s := &states.Participants[i]
		for _, p := range e.pauses {
			if p.Scope == flow.ScopeAll || p.Participant == s.Participant {
				s.Paused = append(s.Paused, p)
			}
		}
	}
	return states, nil
}
