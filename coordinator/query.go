package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// Get returns a transaction of the caller, ErrNotFound, or ErrPastRetention.
func (c *Coordinator) Get(ctx context.Context, caller Caller, id saga.ID) (View, error) {
	r, err := c.find(ctx, caller, id)
	if err != nil {
		return View{}, err
	}
	return r.view(), nil
}

func (c *Coordinator) find(ctx context.Context, caller Caller, id saga.ID) (*record, error) {
	found, err := c.store.load(ctx, []saga.ID{id})
	if err != nil {
		return nil, err
	}
	r := found[id]
	if r == nil || !caller.reaches(r) {
		return nil, c.store.absent(ctx, id)
	}
	return r, nil
}

// absent says why there is no such transaction: of what is past retention nothing can be confirmed, whoever asks and
// whether there ever was one (I-9).
func (s *store) absent(ctx context.Context, id saga.ID) error {
	var past bool
	if err := s.pool.QueryRow(ctx, sqlPastRetention, pg.UUID(id)).Scan(&past); err != nil {
		return fmt.Errorf("looking for the retention floor: %w", err)
	}
	if past {
		return ErrPastRetention
	}
	return ErrNotFound
}

// FindByRequest returns the transaction that the caller submitted with the request id, ErrNotFound, or
// ErrPastRetention (U5).
func (c *Coordinator) FindByRequest(ctx context.Context, caller Caller, requestID string) (View, error) {
	if err := saga.CheckRequestID(requestID); err != nil {
		return View{}, err
	}
	key := requestKey{tenant: caller.Tenant, client: caller.Client, requestID: requestID}
	found, err := c.store.findRequests(ctx, []requestKey{key})
	if err != nil {
		return View{}, err
	}
	stored, ok := found[key]
	if !ok {
		return View{}, ErrNotFound
	}
	if stored.Forgotten {
		return View{}, ErrPastRetention
	}
	return c.Get(ctx, caller, stored.Transaction)
}

// Filter selects transactions of a caller; zero fields select all.
type Filter struct {
	Before     saga.ID // only older ones: the id of the last one seen
	Status     saga.Status
	Definition string
	Suspended  *bool
	Limit      int // zero: 50
}

// List returns transactions of the caller, the newest first, without their steps.
func (c *Coordinator) List(ctx context.Context, caller Caller, f Filter) ([]View, error) {
	if f.Limit == 0 {
		f.Limit = 50
	}
	before := pgtype.UUID{Bytes: f.Before, Valid: !f.Before.IsZero()}
	tenant, client := caller.selects()
	rows, err := c.cfg.Pool.Query(ctx, sqlListTransactions, tenant, client, before, string(f.Status),
		f.Definition, f.Suspended, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("listing transactions: %w", err)
	}
	defer rows.Close()
	views := []View{}
	for rows.Next() {
		r, err := scanTransaction(rows)
		if err != nil {
			return nil, fmt.Errorf("listing transactions: %w", err)
		}
		views = append(views, r.summary())
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing transactions: %w", err)
	}
	return views, nil
}

// attemptsShown bounds how much of a long history is returned.
const attemptsShown = 1000

// Attempts returns the attempts of a transaction of the caller that ended without settling their operation,
// the oldest first, at most 1,000.
func (c *Coordinator) Attempts(ctx context.Context, caller Caller, id saga.ID) ([]saga.AttemptEnd, error) {
	if _, err := c.find(ctx, caller, id); err != nil {
		return nil, err
	}
	return c.attempts(ctx, id, "", "")
}

func (c *Coordinator) attempts(ctx context.Context, id saga.ID, step string, phase saga.Phase) ([]saga.AttemptEnd, error) {
	rows, err := c.cfg.Pool.Query(ctx, sqlListAttempts, uuid.UUID(id), step, string(phase), attemptsShown)
	if err != nil {
		return nil, fmt.Errorf("listing attempts of %s: %w", id, err)
	}
	attempts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (saga.AttemptEnd, error) {
		var a saga.AttemptEnd
		var sentAt pgtype.Timestamptz
		err := row.Scan(&a.Step, (*string)(&a.Phase), &a.Attempt, &sentAt, &a.EndedAt, (*string)(&a.Outcome), &a.Code, &a.Reason)
		a.SentAt, a.EndedAt = timeFrom(sentAt), a.EndedAt.UTC()
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing attempts of %s: %w", id, err)
	}
	return attempts, nil
}

// Wait returns the caller's transaction once it has ended. When ctx ends first it returns the transaction as
// it is then, and no error: waiting is no promise.
func (c *Coordinator) Wait(ctx context.Context, caller Caller, id saga.ID) (View, error) {
	waiter := c.waiters.add(id, false)
	defer c.waiters.remove(id, waiter)
	r, err := c.find(ctx, caller, id)
	if err != nil && ctx.Err() != nil {
		return c.getNow(ctx, caller, id)
	}
	if err != nil {
		return View{}, err
	}
	if r.tx.Status.Terminal() {
		return r.view(), nil
	}
	select {
	case ended := <-waiter.ch:
		return ended.view(), nil
	case <-ctx.Done():
	case <-c.stopping:
	}
	return c.getNow(ctx, caller, id)
}

// getNow reads a transaction for a caller whose time to wait is over.
func (c *Coordinator) getNow(ctx context.Context, caller Caller, id saga.ID) (View, error) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return c.Get(last, caller, id)
}

// Cancel asks to cancel the caller's transaction (S2.9). The returned view tells what came of it: cancelling
// or cancelled; running while a pivot's outcome is being found out. A *saga.StateError says that it is too
// late. Who cancels what is not its own is recorded in the audit (D6).
func (c *Coordinator) Cancel(ctx context.Context, caller Caller, id saga.ID, reason string) (View, error) {
	r, err := c.find(ctx, caller, id)
	if err != nil {
		return View{}, err
	}
	it := &item{id: id, event: saga.CancelRequested{Reason: text(reason)}}
	if caller.owns(r) {
		return c.cancel(ctx, it)
	}
	entry := dlq.AuditEntry{Actor: caller.Actor, Action: actionCancel, Object: id.String(), Allowed: true, Reason: reason, Tenant: r.tx.Tenant}
	it.audit = &entry
	view, err := c.cancel(ctx, it)
	return view, c.Admin().recordRefusal(ctx, entry, err)
}

func (c *Coordinator) cancel(ctx context.Context, it *item) (View, error) {
	o, err := c.ask(ctx, it)
	if err != nil {
		return View{}, err
	}
	return o.rec.view(), nil
}
