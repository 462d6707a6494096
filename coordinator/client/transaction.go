package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
)

// waitMax is how long the coordinator lets a call wait at most; pollTime is how long Wait asks it to.
const (
	waitMax  = time.Minute
	pollTime = 30 * time.Second
)

// Transaction is a transaction as the coordinator shows it.
type Transaction struct {
	ID         saga.ID     `json:"id"`
	Version    int64       `json:"version"` // what Resolve wants
	Status     saga.Status `json:"status"`
	Result     saga.Result `json:"result"` // what may be relied on
	Suspended  bool        `json:"suspended"`
	Tenant     string      `json:"tenant"`
	Client     string      `json:"client"`
	RequestID  string      `json:"request_id,omitzero"`
	Definition struct {
		Name    string `json:"name"`
		Version int    `json:"version,omitzero"` // zero in lists
	} `json:"definition"`
	Cause *struct {
		Why    saga.Why `json:"why"`
		Step   string   `json:"step,omitzero"`
		Code   string   `json:"code,omitzero"`
		Reason string   `json:"reason,omitzero"`
	} `json:"cause,omitzero"`
	CreatedAt   time.Time         `json:"created_at"`
	StartAt     time.Time         `json:"start_at,omitzero"`
	Deadline    time.Time         `json:"deadline,omitzero"`
	DecidedAt   time.Time         `json:"decided_at,omitzero"`
	FinishedAt  time.Time         `json:"finished_at,omitzero"`
	WakeAt      time.Time         `json:"wake_at,omitzero"`
	Traceparent string            `json:"traceparent,omitzero"`
	Steps       []Step            `json:"steps,omitzero"` // absent in lists
	Links       map[string]string `json:"links"`
}

// Step is one step of a transaction.
type Step struct {
	Name        string      `json:"name"`
	Kind        saga.Kind   `json:"kind"`
	Participant string      `json:"participant"`
	Action      string      `json:"action"`
	After       []string    `json:"after"`
	Operations  []Operation `json:"operations"` // those that were sent
}

// Operation is one phase of a step.
type Operation struct {
	Phase         saga.Phase          `json:"phase"`
	State         saga.OperationState `json:"state"`
	Wait          saga.Wait           `json:"wait,omitzero"`
	Replaying     bool                `json:"replaying,omitzero"`
	Attempt       int                 `json:"attempt"`
	Counted       int                 `json:"counted"`
	Revision      int                 `json:"revision"`
	ContentSHA256 string              `json:"content_sha256"`
	SentAt        time.Time           `json:"sent_at,omitzero"`
	NextAt        time.Time           `json:"next_at,omitzero"`
	Outcome       saga.Outcome        `json:"outcome,omitzero"`
	Code          string              `json:"code,omitzero"`
	Reason        string              `json:"reason,omitzero"`
	Result        json.RawMessage     `json:"result,omitzero"` // of a done try, the participant's bytes; nil if it has none or is no JSON
	ResultBase64  *struct {
		Type string `json:"type,omitzero"`
		Data []byte `json:"data"`
	} `json:"result_base64,omitzero"` // of another type than JSON
}

// Attempt is one that ended without settling its operation.
type Attempt struct {
	Step    string       `json:"step"`
	Phase   saga.Phase   `json:"phase"`
	Attempt int          `json:"attempt"`
	SentAt  time.Time    `json:"sent_at,omitzero"`
	EndedAt time.Time    `json:"ended_at"`
	Outcome saga.Outcome `json:"outcome"`
	Code    string       `json:"code,omitzero"`
	Reason  string       `json:"reason,omitzero"`
}

// Get reads a transaction.
func (c *Client) Get(ctx context.Context, id saga.ID) (Transaction, error) {
	return c.get(ctx, request{method: http.MethodGet, path: transactionPath(id)})
}

// Wait returns the transaction once it has ended. When ctx ends first it returns the transaction as it was seen
// last, and an error that wraps ctx's: it goes on without the caller.
func (c *Client) Wait(ctx context.Context, id saga.ID) (Transaction, error) {
	var last Transaction
	for attempt := 1; ; attempt++ {
		wait := pollTime
		if deadline, ok := ctx.Deadline(); ok {
			wait = max(min(wait, time.Until(deadline)-time.Second), 0)
		}
		began := time.Now()
		tx, err := c.get(ctx, request{
			method: http.MethodGet, path: transactionPath(id), query: url.Values{"wait": {wait.String()}}, wait: wait,
		})
		if err != nil {
			if ctx.Err() != nil {
				return last, fmt.Errorf("sagacity: transaction %s has not ended: %w", id, context.Cause(ctx))
			}
			return last, err
		}
		last = tx
		if tx.Status.Terminal() {
			return tx, nil
		}
		if time.Since(began) >= time.Second {
			attempt = 0
			continue
		}
		if !pause(ctx, backoff(attempt)) { // a coordinator that is stopping answers at once
			return last, fmt.Errorf("sagacity: transaction %s has not ended: %w", id, context.Cause(ctx))
		}
	}
}

// pause waits for d, or less if ctx ends before: then it reports false.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// FindByRequest reads the transaction that this client submitted with the request id. A *Problem with
// CodeNotFound means that no such submission has arrived so far.
func (c *Client) FindByRequest(ctx context.Context, requestID string) (Transaction, error) {
	return c.get(ctx, request{method: http.MethodGet, path: "/v1/requests", query: url.Values{"id": {requestID}}})
}

// Cancel asks to cancel the transaction; repetitions change nothing. Status tells what came of it: cancelling
// or cancelled, or running while a pivot's outcome is being found out. A *Problem with CodeNotCancellable says
// that it is too late.
func (c *Client) Cancel(ctx context.Context, id saga.ID, reason string) (Transaction, error) {
	body, err := reasonBody(reason)
	if err != nil {
		return Transaction{}, err
	}
	return c.get(ctx, request{method: http.MethodPost, path: transactionPath(id) + "/cancel", body: body})
}

// Attempts lists the attempts that ended without settling their operation, the oldest first, at most 1,000.
func (c *Client) Attempts(ctx context.Context, id saga.ID) ([]Attempt, error) {
	var page struct {
		Attempts []Attempt `json:"attempts"`
	}
	err := c.read(ctx, request{method: http.MethodGet, path: transactionPath(id) + "/attempts"}, &page)
	return page.Attempts, err
}

// Filter selects transactions; zero fields select all.
type Filter struct {
	Status     saga.Status
	Definition string
	Suspended  *bool
	Limit      int    // of a page; zero: 50, at most 500
	Cursor     string // Next of the page before
}

// Page is a part of a list, the newest first. Next is "" on the last.
type Page struct {
	Transactions []Transaction `json:"transactions"`
	Next         string        `json:"next_cursor"`
}

// List reads one page of this client's transactions, without their steps.
func (c *Client) List(ctx context.Context, f Filter) (Page, error) {
	q := url.Values{}
	set(q, "status", string(f.Status))
	set(q, "definition", f.Definition)
	if f.Suspended != nil {
		q.Set("suspended", strconv.FormatBool(*f.Suspended))
	}
	setPage(q, f.Limit, f.Cursor)
	var page Page
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/transactions", query: q}, &page)
	return page, err
}

// All goes through all of this client's transactions that the filter selects. It ends after an error.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[Transaction, error] {
	return all(func(cursor string) ([]Transaction, string, error) {
		if cursor != "" {
			f.Cursor = cursor
		}
		page, err := c.List(ctx, f)
		return page.Transactions, page.Next, err
	})
}

func all[T any](next func(cursor string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor, more := "", true; more; more = cursor != "" {
			entries, following, err := next(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			cursor = following
		}
	}
}

func transactionPath(id saga.ID) string { return "/v1/transactions/" + id.String() }

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setPage(q url.Values, limit int, cursor string) {
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	set(q, "cursor", cursor)
}

func (c *Client) get(ctx context.Context, r request) (Transaction, error) {
	var tx Transaction
	err := c.read(ctx, r, &tx)
	return tx, err
}

func (c *Client) read(ctx context.Context, r request, into any) error {
	a, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	return decode(a, into)
}

func decode(a answer, into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("sagacity: an answer (HTTP %d) cannot be read: %w", a.status, err)
	}
	return nil
}
