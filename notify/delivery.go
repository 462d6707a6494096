package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Status is the state of a delivery.
type Status string

// The states of deliveries.
const (
	StatusPending   Status = "pending"   // to be sent at NextAt
	StatusDelivered Status = "delivered" // the target has answered 2xx
	StatusFailed    Status = "failed"    // its attempts are used up
)

// Delivery is one message to one webhook.
type Delivery struct {
	ID        uuid.UUID
	Webhook   uuid.UUID
	Kind      Kind
	Status    Status
	Attempts  int
	NextAt    time.Time // while pending
	Answer    int       // HTTP status of the last attempt; 0: none came
	Problem   string    // of the last attempt
	CreatedAt time.Time
	EndedAt   time.Time // zero while pending
	Body      []byte    // a CloudEvent in JSON
}

// DeliveryFilter selects deliveries of a webhook; zero fields select all.
type DeliveryFilter struct {
	Webhook uuid.UUID // required
	Status  Status
	Before  uuid.UUID // only older ones: the id of the last one seen
	Limit   int       // zero: 50
}

// Deliveries lists the deliveries of a webhook, the newest first, or returns ErrNotFound. Those that have ended are
// forgotten after a week.
func Deliveries(ctx context.Context, db Querier, f DeliveryFilter) ([]Delivery, error) {
	if f.Limit == 0 {
		f.Limit = 50
	}
	if err := exists(ctx, db, f.Webhook); err != nil {
		return nil, err
	}
	var before *uuid.UUID
	if f.Before != uuid.Nil {
		before = &f.Before
	}
	rows, err := db.Query(ctx, sqlListDeliveries, f.Webhook, string(f.Status), before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("notify: list deliveries: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Delivery, err error) {
		var ended *time.Time
		err = row.Scan(&d.ID, &d.Webhook, (*string)(&d.Kind), (*string)(&d.Status), &d.Attempts, &d.NextAt, &d.Answer, &d.Problem,
			&d.CreatedAt, &ended, &d.Body)
		if d.NextAt, d.CreatedAt = d.NextAt.UTC(), d.CreatedAt.UTC(); ended != nil {
			d.EndedAt = ended.UTC()
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("notify: list deliveries: %w", err)
	}
	return list, nil
}

func exists(ctx context.Context, db Querier, id uuid.UUID) error {
	rows, err := db.Query(ctx, sqlWebhookExists, id)
	if err != nil {
		return fmt.Errorf("notify: webhook: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err == nil && !found {
		err = ErrNotFound
	}
	return err
}

// Test makes a delivery that says only that it is a test, in the caller's transaction, and returns its id.
func Test(ctx context.Context, tx pgx.Tx, webhook uuid.UUID, links Links) (uuid.UUID, error) {
	if err := exists(ctx, tx, webhook); err != nil {
		return uuid.Nil, err
	}
	now := time.Now()
	g := group{
		kind: kindTest, key: webhook.String(), code: string(kindTest), count: 1, first: now, last: now,
		object: "/v1/webhooks", summary: "This is a test: nothing has happened.",
	}
	return insertDelivery(ctx, tx, webhook, &g, links)
}

func insertDelivery(ctx context.Context, tx pgx.Tx, webhook uuid.UUID, g *group, links Links) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fmt.Errorf("notify: make an id: %w", err)
	}
	body, err := g.body(id, links)
	if err != nil {
		return id, err
	}
	if _, err := tx.Exec(ctx, sqlInsertDelivery, id, webhook, string(g.kind), g.key, body); err != nil {
		return id, fmt.Errorf("notify: store a delivery: %w", err)
	}
	return id, nil
}

// Links says where links lead.
type Links struct {
	API     string // begins the links into the API; "" leaves paths
	Runbook string // begins the links to the runbook, whose anchors are codes; "": DefaultRunbook
}

// DefaultRunbook is where the runbook is.
const DefaultRunbook = "https://github.com/sagacity-tx/sagacity/blob/main/docs/runbook.md#"

// group is what was noticed of one kind and group.
type group struct {
	kind                               Kind
	key, code, tenant, object, summary string
	count                              int
	first, last                        time.Time
}

// cloudEvent is a delivery's body: a CloudEvent 1.0 in JSON.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Time            time.Time `json:"time"`
	Subject         string    `json:"subject,omitzero"`
	DataContentType string    `json:"datacontenttype"`
	Data            eventData `json:"data"`
}

type eventData struct {
	Kind    Kind              `json:"kind"`
	Code    string            `json:"code"`
	Group   string            `json:"group"`
	Count   int               `json:"count"`
	FirstAt time.Time         `json:"first_at"`
	LastAt  time.Time         `json:"last_at"`
	Tenant  string            `json:"tenant,omitzero"`
	Summary string            `json:"summary"`
	Links   map[string]string `json:"links"`
}

func (g *group) body(id uuid.UUID, links Links) ([]byte, error) {
	runbook := links.Runbook
	if runbook == "" {
		runbook = DefaultRunbook
	}
	body, err := json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: id.String(), Source: "/sagacity/notifications", Type: "sagacity.notification." + string(g.kind),
		Time: g.last.UTC(), Subject: g.object, DataContentType: "application/json",
		Data: eventData{
			Kind: g.kind, Code: g.code, Group: g.key, Count: g.count, FirstAt: g.first.UTC(), LastAt: g.last.UTC(), Tenant: g.tenant,
			Summary: g.summary, Links: map[string]string{"object": links.API + g.object, "runbook": runbook + g.code},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("notify: encode a delivery: %w", err)
	}
	return body, nil
}
