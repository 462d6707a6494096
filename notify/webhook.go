package notify

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// WebhooksMax bounds the webhooks: each has a goroutine while it is told something.
const WebhooksMax = 50

// ErrNotFound says that there is no webhook of that id.
var ErrNotFound = errors.New("no such webhook")

// Webhook is a target of deliveries. Its secret is not shown.
type Webhook struct {
	ID        uuid.UUID
	URL       string
	Kinds     []Kind // empty: all
	Actor     string // who registered it
	CreatedAt time.Time
}

// WebhookParams says what to register.
type WebhookParams struct {
	Actor        string
	URL          string
	Secret       string // "" makes one
	Kinds        []Kind
	AllowPrivate bool
}

// secretPrefix begins every secret; the rest is the key in base64 (Standard Webhooks).
const secretPrefix = "whsec_"

// keyOf returns the key of a secret.
func keyOf(secret string) ([]byte, error) {
	const keyBytesMin, keyBytesMax = 24, 64
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < keyBytesMin || len(key) > keyBytesMax {
		return nil, &saga.InvalidError{
			Code: CodeInvalidSecret, Field: "secret", Problem: "is not valid", Fix: "use whsec_ and 24 to 64 random bytes in base64, or none: one is made",
		}
	}
	return key, nil
}

func newSecret() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:])
}

// Create registers a webhook in the caller's transaction, and returns the secret that was made, "" if one was given.
// Errors: *saga.InvalidError, with CodeTooManyWebhooks too.
func Create(ctx context.Context, tx pgx.Tx, p WebhookParams) (w Webhook, madeSecret string, err error) {
	if err := checkURL(p.URL, p.AllowPrivate); err != nil {
		return w, "", err
	}
	if p.Secret == "" {
		madeSecret = newSecret()
		p.Secret = madeSecret
	}
	if _, err := keyOf(p.Secret); err != nil {
		return w, "", err
	}
	kinds := []string{}
	for _, k := range p.Kinds {
		if !slices.Contains(Kinds, k) {
			return w, "", &saga.InvalidError{Code: "invalid_value", Field: "kinds", Problem: "has an unknown kind", Fix: fmt.Sprintf("use some of %q, or none for all", Kinds)}
		}
		kinds = append(kinds, string(k))
	}
	slices.Sort(kinds)
	id, err := uuid.NewV7()
	if err != nil {
		return w, "", fmt.Errorf("notify: make an id: %w", err)
	}
	if _, err := tx.Exec(ctx, sqlLockWebhooks); err != nil {
		return w, "", fmt.Errorf("notify: register a webhook: %w", err)
	}
	w, err = one(ctx, tx, sqlInsertWebhook, id, p.URL, p.Secret, slices.Compact(kinds), pg.Text(p.Actor, groupBytesMax), WebhooksMax)
	if errors.Is(err, ErrNotFound) {
		err = &saga.InvalidError{Code: CodeTooManyWebhooks, Field: "webhooks", Problem: "are too many", Fix: "delete one"}
	}
	return w, madeSecret, err
}

// Delete removes a webhook and its deliveries in the caller's transaction, and returns it, or ErrNotFound.
func Delete(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Webhook, error) {
	return one(ctx, tx, sqlDeleteWebhook, id)
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List returns all webhooks, the oldest first; there are at most WebhooksMax.
func List(ctx context.Context, db Querier) ([]Webhook, error) {
	rows, err := db.Query(ctx, sqlListWebhooks)
	if err != nil {
		return nil, fmt.Errorf("notify: list webhooks: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanWebhook)
	if err != nil {
		return nil, fmt.Errorf("notify: list webhooks: %w", err)
	}
	return list, nil
}

func one(ctx context.Context, db Querier, sql string, args ...any) (Webhook, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return Webhook{}, fmt.Errorf("notify: webhook: %w", err)
	}
	w, err := pgx.CollectExactlyOneRow(rows, scanWebhook)
	if errors.Is(err, pgx.ErrNoRows) {
		return w, ErrNotFound
	}
	if err != nil {
		return w, fmt.Errorf("notify: webhook: %w", err)
	}
	return w, nil
}

func scanWebhook(row pgx.CollectableRow) (w Webhook, err error) {
	var kinds []string
	err = row.Scan(&w.ID, &w.URL, &kinds, &w.Actor, &w.CreatedAt)
	for _, k := range kinds {
		w.Kinds = append(w.Kinds, Kind(k))
	}
	w.CreatedAt = w.CreatedAt.UTC()
	return w, err
}
