package coordinator

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/notify"
)

const (
	actionWebhookCreate = "webhook_create"
	actionWebhookDelete = "webhook_delete"
	actionWebhookTest   = "webhook_test"
)

// WebhookParams says who registers which webhook, and why.
type WebhookParams struct {
	Actor  string
	URL    string // in no audit and no log: it may hold a secret
	Secret string // "": one is made
	Kinds  []notify.Kind
	Reason string
}

// WebhookAction says who does something about which webhook, and why.
type WebhookAction struct {
	Actor   string
	Webhook uuid.UUID
	Reason  string
}

// CreateWebhook registers a webhook, and returns the secret that was made, "" if one was given; it is not shown again.
// Errors: *saga.InvalidError.
func (a Admin) CreateWebhook(ctx context.Context, p WebhookParams) (w notify.Webhook, madeSecret string, err error) {
	err = pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) (err error) {
		w, madeSecret, err = notify.Create(ctx, tx, notify.WebhookParams{
			Actor: p.Actor, URL: p.URL, Secret: p.Secret, Kinds: p.Kinds, AllowPrivate: a.c.cfg.Webhooks.AllowPrivate,
		})
		if err != nil {
			return err
		}
		return dlq.InsertAudit(ctx, tx, dlq.AuditEntry{
			Actor: p.Actor, Action: actionWebhookCreate, Object: w.ID.String(), Allowed: true, Reason: p.Reason,
		})
	})
	return w, madeSecret, writeError("registering a webhook", err)
}

// Webhooks lists the webhooks, the oldest first; there are at most 50.
func (a Admin) Webhooks(ctx context.Context) ([]notify.Webhook, error) {
	return notify.List(ctx, a.c.cfg.Pool)
}

// DeleteWebhook removes a webhook and what it has not been told yet, and returns it. The error is ErrNotFound if there is
// none.
func (a Admin) DeleteWebhook(ctx context.Context, p WebhookAction) (w notify.Webhook, err error) {
	err = a.onWebhook(ctx, actionWebhookDelete, p, func(tx pgx.Tx) (err error) {
		w, err = notify.Delete(ctx, tx, p.Webhook)
		return err
	})
	return w, err
}

// TestWebhook makes a delivery that says only that it is a test, and returns its id. The error is ErrNotFound if there is
// no such webhook.
func (a Admin) TestWebhook(ctx context.Context, p WebhookAction) (delivery uuid.UUID, err error) {
	err = a.onWebhook(ctx, actionWebhookTest, p, func(tx pgx.Tx) (err error) {
		delivery, err = notify.Test(ctx, tx, p.Webhook, a.c.cfg.Webhooks.Links)
		return err
	})
	return delivery, err
}

// Deliveries lists the deliveries of a webhook, the newest first, or returns ErrNotFound.
func (a Admin) Deliveries(ctx context.Context, f notify.DeliveryFilter) ([]notify.Delivery, error) {
	list, err := notify.Deliveries(ctx, a.c.cfg.Pool, f)
	if errors.Is(err, notify.ErrNotFound) {
		err = ErrNotFound
	}
	return list, err
}

// onWebhook carries an action out with its audit entry, or records that it was refused.
func (a Admin) onWebhook(ctx context.Context, action string, p WebhookAction, do func(pgx.Tx) error) error {
	entry := dlq.AuditEntry{Actor: p.Actor, Action: action, Object: p.Webhook.String(), Allowed: true, Reason: p.Reason}
	err := pgx.BeginFunc(ctx, a.c.cfg.Pool, func(tx pgx.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return dlq.InsertAudit(ctx, tx, entry)
	})
	if errors.Is(err, notify.ErrNotFound) {
		err = ErrNotFound
	}
	return a.recordRefusal(ctx, entry, writeError(action+" "+entry.Object, err))
}
