package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
)

// Webhook is a target that is told what people have to know of.
type Webhook struct {
	ID        uuid.UUID         `json:"id"`
	URL       string            `json:"url"`
	Kinds     []string          `json:"kinds"`           // none: everything
	Secret    string            `json:"secret,omitzero"` // only from CreateWebhook, if none was given
	Actor     string            `json:"actor"`
	CreatedAt time.Time         `json:"created_at"`
	Links     map[string]string `json:"links"`
}

// WebhookParams says what to register, and why.
type WebhookParams struct {
	URL    string   `json:"url"`
	Kinds  []string `json:"kinds,omitzero"`  // none: everything
	Secret string   `json:"secret,omitzero"` // "": one is made
	Reason string   `json:"reason"`
}

// Delivery is one message to a webhook.
type Delivery struct {
	ID        uuid.UUID       `json:"id"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"` // pending, delivered, failed
	Attempts  int             `json:"attempts"`
	NextAt    time.Time       `json:"next_at,omitzero"`
	Answer    int             `json:"answer,omitzero"`  // HTTP status of the last attempt
	Problem   string          `json:"problem,omitzero"` // of the last attempt
	CreatedAt time.Time       `json:"created_at"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
	Event     json.RawMessage `json:"event"` // the CloudEvent that is sent
}

// CreateWebhook registers a webhook. Only here its secret is told. An *UnknownError says that it may be registered: list
// the webhooks, and delete it if its secret is lost.
func (c *Client) CreateWebhook(ctx context.Context, p WebhookParams) (Webhook, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return Webhook{}, fmt.Errorf("client: %w", err)
	}
	var w Webhook
	err = c.read(ctx, request{method: http.MethodPost, path: "/v1/webhooks", body: body, once: true}, &w)
	return w, err
}

// Webhooks lists the webhooks, the oldest first.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	var page struct {
		Webhooks []Webhook `json:"webhooks"`
	}
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/webhooks"}, &page)
	return page.Webhooks, err
}

// DeleteWebhook removes a webhook, and what it was not told yet, and returns it.
func (c *Client) DeleteWebhook(ctx context.Context, id uuid.UUID, reason string) (Webhook, error) {
	body, err := reasonBody(reason)
	if err != nil {
		return Webhook{}, err
	}
	var w Webhook
	err = c.read(ctx, request{method: http.MethodDelete, path: "/v1/webhooks/" + id.String(), body: body}, &w)
	return w, err
}

// TestWebhook lets a webhook be told that this is a test, and returns the delivery's id.
func (c *Client) TestWebhook(ctx context.Context, id uuid.UUID, reason string) (uuid.UUID, error) {
	body, err := reasonBody(reason)
	if err != nil {
		return uuid.Nil, err
	}
	var made struct {
		ID uuid.UUID `json:"id"`
	}
	err = c.read(ctx, request{method: http.MethodPost, path: "/v1/webhooks/" + id.String() + "/test", body: body, once: true}, &made)
	return made.ID, err
}

// Deliveries goes through what a webhook was told and will be told, the newest first; status "" selects all. It ends
// after an error.
func (c *Client) Deliveries(ctx context.Context, webhook uuid.UUID, status string) iter.Seq2[Delivery, error] {
	return all(func(cursor string) ([]Delivery, string, error) {
		q := url.Values{}
		set(q, "status", status)
		setPage(q, 0, cursor)
		var page struct {
			Deliveries []Delivery `json:"deliveries"`
			Next       string     `json:"next_cursor"`
		}
		err := c.read(ctx, request{method: http.MethodGet, path: "/v1/webhooks/" + webhook.String() + "/deliveries", query: q}, &page)
		return page.Deliveries, page.Next, err
	})
}
