package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

// webhookAdmin is what an Admin has that tells webhooks; coordinator.Admin is one.
type webhookAdmin interface {
	CreateWebhook(ctx context.Context, p coordinator.WebhookParams) (notify.Webhook, string, error)
	Webhooks(ctx context.Context) ([]notify.Webhook, error)
	DeleteWebhook(ctx context.Context, p coordinator.WebhookAction) (notify.Webhook, error)
	TestWebhook(ctx context.Context, p coordinator.WebhookAction) (uuid.UUID, error)
	Deliveries(ctx context.Context, f notify.DeliveryFilter) ([]notify.Delivery, error)
}

// Webhook is a target that is told what people have to know of.
type Webhook struct {
	ID        string    `json:"id" format:"uuid"`
	URL       string    `json:"url"`
	Kinds     []string  `json:"kinds" nullable:"false" doc:"what it is told of; none: everything"`
	Secret    string    `json:"secret,omitempty" doc:"only in the answer that registers it without one: it is not shown again"`
	Actor     string    `json:"actor"`
	CreatedAt time.Time `json:"created_at"`
	Links     Links     `json:"links"`
}

// Webhooks lists the webhooks, the oldest first, at most 50.
type Webhooks struct {
	Webhooks []Webhook `json:"webhooks" nullable:"false"`
}

// WebhookForm is the body that registers a webhook.
type WebhookForm struct {
	URL    string   `json:"url" maxLength:"2048" doc:"https, of the public internet unless the coordinator allows others"`
	Kinds  []string `json:"kinds,omitempty" doc:"what to tell of: suspended, dead_letter, breaker_open, paused, break_glass, job_ended; none: everything"`
	Secret string   `json:"secret,omitempty" doc:"whsec_ and 24 to 64 random bytes in base64, which sign; none: one is made"`
	Reason string   `json:"reason" maxLength:"1024" doc:"text for people"`
}

// Delivery is one message to a webhook.
type Delivery struct {
	ID        string          `json:"id" format:"uuid" doc:"also in the header webhook-id"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status" enum:"pending,delivered,failed"`
	Attempts  int             `json:"attempts"`
	NextAt    time.Time       `json:"next_at,omitzero" doc:"of the next attempt"`
	Answer    int             `json:"answer,omitempty" doc:"HTTP status of the last attempt"`
	Problem   string          `json:"problem,omitempty" doc:"of the last attempt"`
	CreatedAt time.Time       `json:"created_at"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
	Event     json.RawMessage `json:"event" doc:"the CloudEvent that is sent"`
}

// Deliveries is a page of a webhook's deliveries, the newest first.
type Deliveries struct {
	Deliveries []Delivery `json:"deliveries" nullable:"false"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// Testing is the answer to a webhook's test.
type Testing struct {
	ID    string `json:"id" format:"uuid" doc:"of the delivery"`
	Links Links  `json:"links"`
}

var deliveryStatuses = []string{string(notify.StatusPending), string(notify.StatusDelivered), string(notify.StatusFailed)}

func webhookRoutes() []route {
	webhook := reflect.TypeFor[Webhook]()
	codes := []string{
		"invalid_id", "invalid_json", codeMissingReason, codeInvalidReason, codeIncomplete, codeSlow, saga.CodeTooLarge, codeMediaType,
		codeDuplicateHeader, codeNotFound, codeOutcomeUnknown,
	}
	return []route{
		{
			method: http.MethodPost, path: "/v1/webhooks", access: accessOperator, handle: (*Handler).createWebhook, name: "createWebhook",
			summary: "Register a target that is told what people have to know of",
			request: reflect.TypeFor[WebhookForm](), required: true, answers: []answerDoc{{201, "it is registered", webhook, nil}},
			codes: []string{
				"invalid_json", "invalid_utf8", "duplicate_member", "invalid_value", codeMissingReason, codeInvalidReason, codeIncomplete, codeSlow,
				saga.CodeTooLarge, codeMediaType, codeDuplicateHeader, notify.CodeInvalidURL, notify.CodeInvalidSecret, notify.CodeTooManyWebhooks,
				codeOutcomeUnknown,
			},
		},
		{
			method: http.MethodGet, path: "/v1/webhooks", access: accessOperator, handle: (*Handler).listWebhooks, name: "listWebhooks",
			summary: "List the webhooks", answers: []answerDoc{{200, "the oldest first, at most 50", reflect.TypeFor[Webhooks](), nil}},
		},
		{
			method: http.MethodDelete, path: "/v1/webhooks/{id}", access: accessOperator, handle: (*Handler).deleteWebhook, name: "deleteWebhook",
			summary: "Remove a webhook, and what it was not told yet",
			request: reflect.TypeFor[ReasonForm](), required: true, answers: []answerDoc{{200, "the webhook that is gone", webhook, nil}}, codes: codes,
		},
		{
			method: http.MethodPost, path: "/v1/webhooks/{id}/test", access: accessOperator, handle: (*Handler).testWebhook, name: "testWebhook",
			summary: "Tell a webhook that this is a test",
			request: reflect.TypeFor[ReasonForm](), required: true,
			answers: []answerDoc{{202, "it will be told", reflect.TypeFor[Testing](), nil}}, codes: codes,
		},
		{
			method: http.MethodGet, path: "/v1/webhooks/{id}/deliveries", access: accessOperator, handle: (*Handler).listDeliveries, name: "listDeliveries",
			summary: "List what a webhook was told and will be told, the newest first; what has ended is forgotten after a week",
			params: append([]*huma.Param{
				param("query", "status", "only those", stringSchema(deliveryStatuses...)),
			}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[Deliveries](), nil}},
			codes:   []string{"invalid_id", codeInvalidQuery, codeInvalidCursor, codeNotFound},
		},
	}
}

// webhooks returns who tells webhooks. A coordinator in memory tells none, and does not have these routes.
func (h *Handler) webhooks() (webhookAdmin, error) {
	if a, ok := h.cfg.Admin.(webhookAdmin); ok {
		return a, nil
	}
	return nil, problemOf(codeNoRoute)
}

func webhookForm(w *notify.Webhook) Webhook {
	self := "/v1/webhooks/" + w.ID.String()
	form := Webhook{
		ID: w.ID.String(), URL: w.URL, Kinds: []string{}, Actor: w.Actor, CreatedAt: w.CreatedAt,
		Links: Links{"delete": self, "test": self + "/test", "deliveries": self + "/deliveries"},
	}
	for _, k := range w.Kinds {
		form.Kinds = append(form.Kinds, string(k))
	}
	return form
}

// createWebhook registers a webhook (E5).
func (h *Handler) createWebhook(c *call) error {
	admin, err := h.webhooks()
	if err != nil {
		return err
	}
	body, err := c.body(actionBytesMax)
	if err != nil {
		return err
	}
	var form WebhookForm
	if err := saga.UnmarshalStrict(body, "webhook", 2, &form); err != nil {
		return err
	}
	p := coordinator.WebhookParams{Actor: c.id.Actor, URL: form.URL, Secret: form.Secret}
	if p.Reason, err = requireReason(checkReason(form.Reason)); err != nil {
		return err
	}
	for _, k := range form.Kinds {
		p.Kinds = append(p.Kinds, notify.Kind(k))
	}
	ctx, cancel := c.bounded()
	defer cancel()
	w, secret, err := admin.CreateWebhook(ctx, p)
	if err != nil {
		return err
	}
	c.log.Info("a webhook is registered", "webhook", w.ID.String(), "actor", p.Actor)
	answer := webhookForm(&w)
	answer.Secret = secret
	return c.send(http.StatusCreated, newRenderer(), answer)
}

// listWebhooks answers with the webhooks.
func (h *Handler) listWebhooks(c *call) error {
	admin, err := h.webhooks()
	if err != nil {
		return err
	}
	list, err := admin.Webhooks(c.r.Context())
	if err != nil {
		return err
	}
	page := Webhooks{Webhooks: []Webhook{}}
	for i := range list {
		page.Webhooks = append(page.Webhooks, webhookForm(&list[i]))
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

// webhookAction reads an action on the webhook of the path.
func (h *Handler) webhookAction(c *call, name string) (webhookAdmin, coordinator.WebhookAction, error) {
	p := coordinator.WebhookAction{Actor: c.id.Actor}
	admin, err := h.webhooks()
	if err != nil {
		return nil, p, err
	}
	if p.Webhook, err = c.pathUUID("a webhook"); err != nil {
		return nil, p, err
	}
	p.Reason, err = requireReason(c.reason(name))
	return admin, p, err
}

// deleteWebhook removes a webhook.
func (h *Handler) deleteWebhook(c *call) error {
	admin, p, err := h.webhookAction(c, "delete")
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	w, err := admin.DeleteWebhook(ctx, p)
	if err != nil {
		return err
	}
	c.log.Info("a webhook is removed", "webhook", w.ID.String(), "actor", p.Actor)
	return c.send(http.StatusOK, newRenderer(), webhookForm(&w))
}

// testWebhook tells a webhook that this is a test.
func (h *Handler) testWebhook(c *call) error {
	admin, p, err := h.webhookAction(c, "test")
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	id, err := admin.TestWebhook(ctx, p)
	if err != nil {
		return err
	}
	links := Links{"deliveries": "/v1/webhooks/" + p.Webhook.String() + "/deliveries"}
	return c.send(http.StatusAccepted, newRenderer(), Testing{ID: id.String(), Links: links})
}

const cursorDeliveries byte = 'w'

// listDeliveries answers with a page of a webhook's deliveries.
func (h *Handler) listDeliveries(c *call) error {
	admin, err := h.webhooks()
	if err != nil {
		return err
	}
	f, err := c.deliveryFilter()
	if err != nil {
		return err
	}
	limit := f.Limit
	f.Limit++ // to see whether there is a next page
	list, err := admin.Deliveries(c.r.Context(), f)
	if err != nil {
		return err
	}
	page := Deliveries{Deliveries: []Delivery{}}
	if len(list) > limit {
		list = list[:limit]
		page.NextCursor = cursorOf(cursorDeliveries, list[limit-1].ID)
	}
	for i := range list {
		d := &list[i]
		form := Delivery{
			ID: d.ID.String(), Kind: string(d.Kind), Status: string(d.Status), Attempts: d.Attempts, Answer: d.Answer, Problem: d.Problem,
			CreatedAt: d.CreatedAt, EndedAt: d.EndedAt, Event: d.Body,
		}
		if d.Status == notify.StatusPending {
			form.NextAt = d.NextAt
		}
		page.Deliveries = append(page.Deliveries, form)
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

func (c *call) deliveryFilter() (f notify.DeliveryFilter, err error) {
	if f.Webhook, err = c.pathUUID("a webhook"); err != nil {
		return f, err
	}
	status, err := c.queryOneOf("status", deliveryStatuses)
	if err != nil {
		return f, err
	}
	f.Status = notify.Status(status)
	if f.Limit, err = c.queryLimit(); err != nil {
		return f, err
	}
	before, err := c.queryCursor(cursorDeliveries)
	f.Before = before
	return f, err
}
