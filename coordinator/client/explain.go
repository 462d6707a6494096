package client

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga"
)

// Explanation says in sentences what a transaction does, why it waits, what happens next and what can be done.
// The words of its texts may change with any version.
type Explanation struct {
	ID        saga.ID           `json:"id"`
	At        time.Time         `json:"at"` // of the coordinator database's clock
	Status    saga.Status       `json:"status"`
	Result    saga.Result       `json:"result"`
	Suspended bool              `json:"suspended"`
	Sentences []string          `json:"sentences"` // all texts that follow, in order
	State     []string          `json:"state"`
	Waits     []Waiting         `json:"waits"`
	Next      []Upcoming        `json:"next"`
	Options   []Option          `json:"options"`
	Links     map[string]string `json:"links"`
}

// Waiting is an operation that is not settled, and what it waits for.
type Waiting struct {
	Step         string              `json:"step"`
	Phase        saga.Phase          `json:"phase"`
	Participant  string              `json:"participant"`
	Action       string              `json:"action"`
	State        saga.OperationState `json:"state,omitzero"` // idle: never sent
	For          saga.WaitFor        `json:"for"`
	On           []string            `json:"on,omitzero"` // with operations: those before it, as step/phase
	Since        time.Time           `json:"since,omitzero"`
	Until        time.Time           `json:"until,omitzero"`
	Attempt      int                 `json:"attempt,omitzero"`
	AttemptsLeft int                 `json:"attempts_left,omitzero"`
	Replaying    bool                `json:"replaying,omitzero"`
	Text         string              `json:"text"`
}

// Upcoming is something that happens by itself.
type Upcoming struct {
	At   time.Time `json:"at,omitzero"` // zero: no certain time
	Text string    `json:"text"`
}

// Option is something that can be asked for, and what would come of it.
type Option struct {
	Action       string     `json:"action"` // replay, discard, resolve or cancel
	Step         string     `json:"step,omitzero"`
	Phase        saga.Phase `json:"phase,omitzero"`
	DeadLetterID uuid.UUID  `json:"dead_letter_id,omitzero"` // of replay and discard
	Possible     bool       `json:"possible"`
	Changes      bool       `json:"changes"`       // false for what is under way already
	Code         string     `json:"code,omitzero"` // if it is not possible: why
	Text         string     `json:"text"`
}

// Explain asks what the transaction does, why it waits, what happens next and what can be done.
func (c *Client) Explain(ctx context.Context, id saga.ID) (Explanation, error) {
	var e Explanation
	err := c.read(ctx, request{method: http.MethodGet, path: transactionPath(id) + "/explain"}, &e)
	return e, err
}
