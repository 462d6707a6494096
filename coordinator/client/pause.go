package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// The scopes of pauses.
const (
	ScopeAll         = "all"         // everything
	ScopeDefinition  = "definition"  // what transactions of definitions of a name send
	ScopeParticipant = "participant" // everything that is sent to a participant
	ScopeAction      = "action"      // one action of a participant
)

// Scope is what is or is to be paused: Scope, and the names that it needs.
type Scope struct {
	Scope       string `json:"scope"`
	Definition  string `json:"definition,omitzero"`  // with ScopeDefinition
	Participant string `json:"participant,omitzero"` // with ScopeParticipant and ScopeAction
	Action      string `json:"action,omitzero"`      // with ScopeAction
}

// Pause is something of which nothing is sent. Replies are merged and deadlines go on.
type Pause struct {
	ID uuid.UUID `json:"id"`
	Scope
	Reason    string            `json:"reason"`
	Actor     string            `json:"actor"`
	Automatic bool              `json:"automatic"` // a coordinator paused it: too many dead letters of one cause
	CreatedAt time.Time         `json:"created_at"`
	Links     map[string]string `json:"links"`
}

// Participant is how a participant does, as the coordinator that answered sees it.
type Participant struct {
	Name     string         `json:"name"`
	Breaker  string         `json:"breaker"`   // closed; open: it is silent, and nothing is sent; half_open: a few attempts find out
	InFlight int            `json:"in_flight"` // attempts whose reply is awaited
	Draining bool           `json:"draining"`  // what gathered while it was silent is sent at the ceiling
	Ceiling  int            `json:"ceiling"`   // commands per second while it is draining
	Waiting  map[string]int `json:"waiting"`   // operations that are not sent, by what they wait for
	Paused   []Pause        `json:"paused"`    // pauses of everything, of it and of its actions
}

// Participants lists participants by name. Partial says that Waiting counts only the 10,000 transactions that are due
// first.
type Participants struct {
	Participants []Participant `json:"participants"`
	Partial      bool          `json:"partial"`
}

// Pause holds a scope back, for the reason given. Pausing it again changes nothing and returns the pause that there is,
// with its reason. Errors: *Problem; *UnknownError if no answer came: ask again.
func (c *Client) Pause(ctx context.Context, s Scope, reason string) (Pause, error) {
	body, err := json.Marshal(struct {
		Scope
		Reason string `json:"reason"`
	}{s, reason})
	if err != nil {
		return Pause{}, fmt.Errorf("client: %w", err)
	}
	var p Pause
	err = c.read(ctx, request{method: http.MethodPost, path: "/v1/pauses", body: body}, &p)
	return p, err
}

// Resume ends a pause, for the reason given, and returns it. A *Problem with CodeNotFound says that there is no such pause,
// or no more: somebody else was faster, or an answer was lost and this was its repetition.
func (c *Client) Resume(ctx context.Context, id uuid.UUID, reason string) (Pause, error) {
	body, err := reasonBody(reason)
	if err != nil {
		return Pause{}, err
	}
	var p Pause
	err = c.read(ctx, request{method: http.MethodDelete, path: "/v1/pauses/" + id.String(), body: body}, &p)
	return p, err
}

// Pauses lists what is paused, the oldest first.
func (c *Client) Pauses(ctx context.Context) ([]Pause, error) {
	var page struct {
		Pauses []Pause `json:"pauses"`
	}
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/pauses"}, &page)
	return page.Pauses, err
}

// Participants tells how the participants do, and what waits for them.
func (c *Client) Participants(ctx context.Context) (Participants, error) {
	var p Participants
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/participants"}, &p)
	return p, err
}
