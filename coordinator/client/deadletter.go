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

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga"
)

// DeadLetter is an operation or message that was set aside.
type DeadLetter struct {
	ID            uuid.UUID             `json:"id"`
	Kind          string                `json:"kind"` // operation, or message: bytes that nobody understood
	Status        saga.DeadLetterStatus `json:"status"`
	Version       int64                 `json:"version"` // what Replay and Discard want
	Cause         string                `json:"cause"`
	Outcome       saga.Outcome          `json:"outcome,omitzero"`
	Reason        string                `json:"reason,omitzero"`
	Fingerprint   string                `json:"fingerprint"`
	Tenant        string                `json:"tenant,omitzero"`
	TransactionID saga.ID               `json:"transaction_id,omitzero"` // zero for a message
	Step          string                `json:"step,omitzero"`
	Phase         saga.Phase            `json:"phase,omitzero"`
	Participant   string                `json:"participant,omitzero"`
	Action        string                `json:"action,omitzero"`
	Attempt       int                   `json:"attempt,omitzero"`
	Revision      int                   `json:"revision,omitzero"`
	ContentSHA256 string                `json:"content_sha256,omitzero"`
	Traceparent   string                `json:"traceparent,omitzero"`
	BuriedCount   int                   `json:"buried_count"`
	BuriedAt      time.Time             `json:"buried_at"`
	UpdatedAt     time.Time             `json:"updated_at"`
	Links         map[string]string     `json:"links"`
}

// DeadLetterDetail is a dead letter with the history of its operation.
type DeadLetterDetail struct {
	DeadLetter
	Message struct {
		Subject string              `json:"subject"`
		Headers map[string][]string `json:"headers"`
		Body    []byte              `json:"body_base64"` // the exact bytes
	} `json:"message"`
	Edit        *Edit        `json:"edit,omitzero"` // what a replay sends instead; nil: nothing is edited
	Attempts    []Attempt    `json:"attempts"`
	Transaction *Transaction `json:"transaction,omitzero"`
	Audit       []AuditEntry `json:"audit"`
	Inquiry     *Inquiry     `json:"inquiry,omitzero"` // the last one, at most a day old
	Replay      Prediction   `json:"replay"`           // what a replay would do now
}

// AuditEntry is what an operator did or was not allowed to do.
type AuditEntry struct {
	ID      uuid.UUID `json:"id"`
	At      time.Time `json:"at"`
	Tenant  string    `json:"tenant,omitzero"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`
	Object  string    `json:"object"`
	Allowed bool      `json:"allowed"`
	Reason  string    `json:"reason,omitzero"`
	Detail  string    `json:"detail,omitzero"`
}

// DeadLetterFilter selects dead letters; zero fields select all.
type DeadLetterFilter struct {
	Status      saga.DeadLetterStatus
	Participant string
	Cause       string
	Transaction saga.ID
	Fingerprint string
	Limit       int    // of a page; zero: 50, at most 500
	Cursor      string // Next of the page before
}

// DeadLetterPage is a part of a list, the newest first. Next is "" on the last.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Next        string       `json:"next_cursor"`
}

// DeadLetters reads one page of dead letters.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) (DeadLetterPage, error) {
	q := url.Values{}
	set(q, "status", string(f.Status))
	set(q, "participant", f.Participant)
	set(q, "cause", f.Cause)
	set(q, "fingerprint", f.Fingerprint)
	if !f.Transaction.IsZero() {
		q.Set("transaction", f.Transaction.String())
	}
	setPage(q, f.Limit, f.Cursor)
	var page DeadLetterPage
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/dead-letters", query: q}, &page)
	return page, err
}

// AllDeadLetters goes through all dead letters that the filter selects. It ends after an error.
func (c *Client) AllDeadLetters(ctx context.Context, f DeadLetterFilter) iter.Seq2[DeadLetter, error] {
	return all(func(cursor string) ([]DeadLetter, string, error) {
		if cursor != "" {
			f.Cursor = cursor
		}
		page, err := c.DeadLetters(ctx, f)
		return page.DeadLetters, page.Next, err
	})
}

// DeadLetter reads a dead letter with all that is known about it.
func (c *Client) DeadLetter(ctx context.Context, id uuid.UUID) (DeadLetterDetail, error) {
	var d DeadLetterDetail
	err := c.read(ctx, request{method: http.MethodGet, path: deadLetterPath(id)}, &d)
	return d, err
}

// Replay sends the operation of a dead letter again, with the same identity. The version is that of the dead
// letter that the decision was made on. What is unknown or in conflict needs WithApproval or WithBreakGlass.
// Errors: *Problem; *UnknownError if no answer came: read the dead letter to see whether it was replayed.
func (c *Client) Replay(ctx context.Context, id uuid.UUID, version int64, reason string, options ...ReplayOption) error {
	form := map[string]any{"reason": reason}
	for _, o := range options {
		o(form)
	}
	_, err := c.act(ctx, deadLetterPath(id)+"/replay", version, form)
	return err
}

// Discard gives a dead letter up, and returns its transaction as it is after that; nil for a message. A try cancels
// the transaction, a pivot's try is fenced; a confirm, cancel or retriable try is never done, and its effect is not
// known from then on. Errors: as of Replay.
func (c *Client) Discard(ctx context.Context, id uuid.UUID, version int64, reason string) (*Transaction, error) {
	a, err := c.act(ctx, deadLetterPath(id)+"/discard", version, map[string]any{"reason": reason})
	if err != nil {
		return nil, err
	}
	var form struct {
		Transaction *Transaction `json:"transaction"`
	}
	err = decode(a, &form)
	return form.Transaction, err
}

// Resolve gives up all open dead letters of a transaction that is decided, and returns it as it is after that:
// resolved, or going on with what waited for them. The version is that of the transaction that the decision was
// made on. Errors: as of Replay.
func (c *Client) Resolve(ctx context.Context, id saga.ID, version int64, reason string) (Transaction, error) {
	var tx Transaction
	a, err := c.act(ctx, transactionPath(id)+"/resolve", version, map[string]any{"reason": reason})
	if err == nil {
		err = decode(a, &tx)
	}
	return tx, err
}

func deadLetterPath(id uuid.UUID) string { return "/v1/dead-letters/" + id.String() }

// act sends an operator's action, once: a second one would be another action.
func (c *Client) act(ctx context.Context, path string, version int64, form map[string]any) (answer, error) {
	return c.actBytes(ctx, path, version, func() ([]byte, error) { return json.Marshal(form) })
}

func (c *Client) actBytes(ctx context.Context, path string, version int64, encode func() ([]byte, error)) (answer, error) {
	body, err := encode()
	if err != nil {
		return answer{}, fmt.Errorf("client: %w", err)
	}
	r := request{method: http.MethodPost, path: path, body: body, once: true, header: http.Header{}}
	r.header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
	a, err := c.do(ctx, r)
	if err != nil {
		return a, unknown("", err)
	}
	return a, nil
}
