package coordinatortest

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/saga"
)

// What the HTTP API calls for clients (api.Coordinator).

var _ api.Coordinator = (*engine)(nil)

// authenticator lets everyone in as one caller, who is an operator too.
func authenticator(caller coordinator.Caller) api.Authenticator {
	return func(*http.Request) (api.Identity, error) {
		return api.Identity{Tenant: caller.Tenant, Client: caller.Client, Actor: caller.Client, Roles: token.AllRoles, AllTenants: true}, nil
	}
}

// Submit starts a transaction.
func (e *engine) Submit(_ context.Context, p coordinator.SubmitParams) (coordinator.Submitted, error) {
	s, _, err := e.submit(p)
	return s, err
}

// SubmitAndWait is Submit and Wait.
func (e *engine) SubmitAndWait(_, waitCtx context.Context, p coordinator.SubmitParams) (coordinator.Submitted, coordinator.View, error) {
	s, k, err := e.submit(p)
	if err != nil {
		return s, coordinator.View{}, err
	}
	return s, e.awaitEnd(waitCtx, k), nil
}

func (e *engine) submit(p coordinator.SubmitParams) (coordinator.Submitted, *kept, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readClock()
	read, dated, err := coordinator.ReadSubmission(p, e.now, e.findDefinition)
	var byKey *kept
	if p.RequestID != "" {
		byKey = e.requests[p.RequestID]
	}
	if err != nil {
		return e.tooLate(p, byKey, dated, err)
	}
	k := &kept{Kept: *read}
	stored := byKey
	if taken := e.transactions[k.Tx.ID]; taken != nil {
		stored = taken
	}
	if stored != nil {
		return again(stored, *k.Request())
	}
	e.transactions[k.Tx.ID] = k
	e.submitted, e.live = append(e.submitted, k), append(e.live, k)
	if k.RequestID != "" {
		e.requests[k.RequestID] = k
	}
	e.note("%s submitted: %s", short(k.Tx.ID), k.Def.Name)
	if err := e.do(k, saga.Submitted{}, nil, 0); err != nil {
		return coordinator.Submitted{}, nil, err
	}
	return coordinator.Submitted{ID: k.Tx.ID, Answer: k.Answer()}, k, nil
}

// again answers a submission whose key or id is known.
func again(stored *kept, incoming saga.Request) (coordinator.Submitted, *kept, error) {
	if _, err := saga.JudgeSubmission(stored.Request(), incoming, false); err != nil {
		return coordinator.Submitted{}, nil, err
	}
	return coordinator.Submitted{ID: stored.Tx.ID, Answer: stored.Answer(), Replayed: true}, stored, nil
}

// tooLate answers a submission that is not valid. If only time or the meaning of a name is to blame, a repetition
// of one that was accepted gets its answer (I2).
func (e *engine) tooLate(p coordinator.SubmitParams, byKey *kept, dated bool, err error) (coordinator.Submitted, *kept, error) {
	if !dated || byKey == nil {
		return coordinator.Submitted{}, nil, err
	}
	return again(byKey, saga.Request{
		Tenant: p.Caller.Tenant, Client: p.Caller.Client, RequestID: p.RequestID,
		ContentSHA256: (&saga.Submission{Body: p.Body}).ContentSHA256(),
	})
}

// find returns a transaction. There is one caller, and all are its own.
func (e *engine) find(id saga.ID) (*kept, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.transactions[id]; k != nil {
		return k, nil
	}
	return nil, coordinator.ErrNotFound
}

func (e *engine) last() saga.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.submitted) == 0 {
		return saga.ID{}
	}
	return e.submitted[len(e.submitted)-1].Tx.ID
}

// Get returns a transaction.
func (e *engine) Get(_ context.Context, _ coordinator.Caller, id saga.ID) (coordinator.View, error) {
	k, err := e.find(id)
	if err != nil {
		return coordinator.View{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return k.View(), nil
}

// Wait returns a transaction at its end, or when nothing more can happen by itself.
func (e *engine) Wait(ctx context.Context, _ coordinator.Caller, id saga.ID) (coordinator.View, error) {
	k, err := e.find(id)
	if err != nil {
		return coordinator.View{}, err
	}
	return e.awaitEnd(ctx, k), nil
}

// FindByRequest returns the transaction of a request id.
func (e *engine) FindByRequest(ctx context.Context, caller coordinator.Caller, requestID string) (coordinator.View, error) {
	e.mu.Lock()
	k := e.requests[requestID]
	e.mu.Unlock()
	if k == nil {
		return coordinator.View{}, coordinator.ErrNotFound
	}
	return e.Get(ctx, caller, k.Tx.ID)
}

// List returns transactions, the newest first, without their steps.
func (e *engine) List(_ context.Context, _ coordinator.Caller, f coordinator.Filter) ([]coordinator.View, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	byID := slices.SortedFunc(slices.Values(e.submitted), func(a, b *kept) int { return cmp.Compare(b.Tx.ID.String(), a.Tx.ID.String()) })
	views := []coordinator.View{}
	for _, k := range byID {
		if len(views) == f.Limit {
			break
		}
		if (f.Before.IsZero() || k.Tx.ID.String() < f.Before.String()) && (f.Status == "" || k.Tx.Status == f.Status) &&
			(f.Definition == "" || k.Def.Name == f.Definition) && (f.Suspended == nil || k.Tx.Suspended() == *f.Suspended) {
			views = append(views, k.Summary())
		}
	}
	return views, nil
}

// attemptsShown bounds a list of attempts, as the coordinator does.
const attemptsShown = 1000

// Attempts returns the attempts of a transaction that ended without settling their operation.
func (e *engine) Attempts(_ context.Context, _ coordinator.Caller, id saga.ID) ([]saga.AttemptEnd, error) {
	k, err := e.find(id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(k.attempts[:min(len(k.attempts), attemptsShown)]), nil
}

// Explain says why a transaction waits.
func (e *engine) Explain(_ context.Context, _ coordinator.Caller, id saga.ID) (coordinator.Explained, error) {
	k, err := e.find(id)
	if err != nil {
		return coordinator.Explained{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readClock()
	x := coordinator.Explained{View: k.View(), Explanation: saga.Explain(k.Def, k.Tx, e.now), DeadLetters: map[string]uuid.UUID{}}
	for _, l := range e.letters {
		if l.TransactionID == id && l.Status == saga.DeadLetterOpen {
			x.DeadLetters[l.Step+"/"+string(l.Phase)] = l.ID
		}
	}
	return x, nil
}

// Cancel asks to cancel a transaction (S2.9).
func (e *engine) Cancel(_ context.Context, _ coordinator.Caller, id saga.ID, reason string) (coordinator.View, error) {
	k, err := e.find(id)
	if err != nil {
		return coordinator.View{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.do(k, saga.CancelRequested{Reason: saga.CleanText(reason, saga.ReasonBytesMax)}, nil, 0); err != nil {
		return coordinator.View{}, err
	}
	return k.View(), nil
}
