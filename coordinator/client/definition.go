package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Definition is a registered definition.
type Definition struct {
	Name       string            `json:"name"`
	Version    int               `json:"version"`
	State      string            `json:"state"` // active, or draining: it takes no new transactions
	SHA256     string            `json:"sha256"`
	CreatedAt  time.Time         `json:"created_at"`
	Definition json.RawMessage   `json:"definition,omitzero"` // in its canonical form; nil in lists
	Links      map[string]string `json:"links"`
}

// RegisterDefinition makes a definition known by its name and version, so that submissions may name it: a
// saga.Definition's JSON, or other JSON of a definition. Repetitions change nothing; a *Problem with
// CodeDefinitionTaken says that another one has that name and version.
func (c *Client) RegisterDefinition(ctx context.Context, definition []byte) (Definition, error) {
	return c.definition(ctx, request{method: http.MethodPost, path: "/v1/definitions", body: definition})
}

// Definitions lists the registered definitions, or those of one name, by name, the newest version first; at most
// 1,000.
func (c *Client) Definitions(ctx context.Context, name string) ([]Definition, error) {
	q := url.Values{}
	set(q, "name", name)
	var page struct {
		Definitions []Definition `json:"definitions"`
	}
	err := c.read(ctx, request{method: http.MethodGet, path: "/v1/definitions", query: q}, &page)
	return page.Definitions, err
}

// Definition reads a registered definition.
func (c *Client) Definition(ctx context.Context, name string, version int) (Definition, error) {
	return c.definition(ctx, request{method: http.MethodGet, path: definitionPath(name, version)})
}

// DrainDefinition refuses new transactions of a registered definition, for the reason given; those that run keep it.
// Repetitions change nothing.
func (c *Client) DrainDefinition(ctx context.Context, name string, version int, reason string) (Definition, error) {
	body, err := reasonBody(reason)
	if err != nil {
		return Definition{}, err
	}
	return c.definition(ctx, request{method: http.MethodPost, path: definitionPath(name, version) + "/drain", body: body})
}

func (c *Client) definition(ctx context.Context, r request) (Definition, error) {
	var d Definition
	err := c.read(ctx, r, &d)
	return d, err
}

func definitionPath(name string, version int) string {
	return "/v1/definitions/" + url.PathEscape(name) + "/" + strconv.Itoa(version)
}
