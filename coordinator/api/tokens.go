package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/saga"
)

// Tokens is where tokens are kept; *token.Store is one.
type Tokens interface {
	Find(ctx context.Context, secret string) (token.Token, error)
	Create(ctx context.Context, p token.CreateParams) (t token.Token, secret string, err error)
	Revoke(ctx context.Context, p token.RevokeParams) (token.Token, error)
	List(ctx context.Context, f token.Filter) ([]token.Token, error)
}

// Token is a bearer token without the token itself, which is stored nowhere.
type Token struct {
	ID         string    `json:"id" format:"uuid"`
	Tenant     string    `json:"tenant" doc:"*: all tenants"`
	Client     string    `json:"client,omitempty" doc:"whose request ids and transactions they are"`
	Actor      string    `json:"actor" doc:"the name in the audit"`
	Roles      []string  `json:"roles" nullable:"false" enum:"client,viewer,operator,approver,admin"`
	State      string    `json:"state" enum:"active,expired,revoked"`
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  string    `json:"created_by"`
	ExpiresAt  time.Time `json:"expires_at,omitzero" doc:"absent: never"`
	LastUsedAt time.Time `json:"last_used_at,omitzero" doc:"to within ten minutes; absent: never"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	Links      Links     `json:"links" doc:"revoke while it is active"`
}

// NewToken is the answer to the making of a token.
type NewToken struct {
	Token
	Secret string `json:"token" doc:"the token: it is shown this once"`
}

// TokenPage is a part of a list of tokens.
type TokenPage struct {
	Tokens     []Token `json:"tokens" nullable:"false"`
	NextCursor string  `json:"next_cursor,omitempty"`
}

// TokenForm is the body that makes a token.
type TokenForm struct {
	Tenant    string   `json:"tenant" doc:"a name, or * for all tenants"`
	Client    string   `json:"client,omitempty" doc:"required with the role client"`
	Actor     string   `json:"actor,omitempty" doc:"absent: the client"`
	Roles     []string `json:"roles" nullable:"false" enum:"client,viewer,operator,approver,admin"`
	ExpiresIn string   `json:"expires_in,omitempty" doc:"a duration such as 720h, or never; absent: 2160h"`
	Reason    string   `json:"reason" maxLength:"1024" doc:"text for people"`
}

const codeInvalidToken = "invalid_token"

func tokenRoutes() []route {
	form := reflect.TypeFor[Token]()
	codes := []string{
		"invalid_json", codeMissingReason, codeInvalidReason, codeIncomplete, codeSlow, saga.CodeTooLarge, codeMediaType, codeDuplicateHeader, codeOverloaded,
	}
	return []route{
		{
			method: http.MethodPost, path: "/v1/tokens", access: accessAdmin, byTenant: true, handle: (*Handler).createToken, name: "createToken",
			summary: "Make a token. It is shown this once; repetitions make another",
			request: reflect.TypeFor[TokenForm](), required: true,
			answers: []answerDoc{{201, "the token", reflect.TypeFor[NewToken](), nil}},
			codes:   append([]string{codeInvalidToken, "invalid_duration", "invalid_utf8", "duplicate_member"}, codes...),
		},
		{
			method: http.MethodGet, path: "/v1/tokens", access: accessAdmin, byTenant: true, handle: (*Handler).listTokens, name: "listTokens",
			summary: "List tokens, the newest first, without the tokens themselves",
			params: append([]*huma.Param{
				param("query", "ended", "true: those that have expired or were revoked too", stringSchema("true", "false")),
			}, pageParams()...),
			answers: []answerDoc{{200, "a page", reflect.TypeFor[TokenPage](), nil}}, codes: []string{codeInvalidQuery, codeInvalidCursor},
		},
		{
			method: http.MethodDelete, path: "/v1/tokens/{id}", access: accessAdmin, byTenant: true, handle: (*Handler).revokeToken, name: "revokeToken",
			summary: "Revoke a token: within five seconds nobody is let in with it; repetitions change nothing",
			request: reflect.TypeFor[ReasonForm](), required: true,
			answers: []answerDoc{{200, "it is revoked", form, nil}}, codes: append([]string{"invalid_id", codeNotFound}, codes...),
		},
	}
}

func tokenForm(t *token.Token) Token {
	f := Token{
		ID: t.ID.String(), Tenant: t.Tenant, Client: t.Client, Actor: t.Actor, Roles: t.Roles.Names(), State: t.State(), CreatedAt: t.CreatedAt,
		CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt, LastUsedAt: t.LastUsedAt, RevokedAt: t.RevokedAt, Links: Links{},
	}
	if f.Tenant == "" {
		f.Tenant = token.AllTenants
	}
	if t.Active() {
		f.Links["revoke"] = "/v1/tokens/" + f.ID
	}
	return f
}

// createToken makes a token. An admin of one tenant makes those of its tenant.
func (h *Handler) createToken(c *call) error {
	p, err := c.tokenParams()
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	t, secret, err := h.cfg.Tokens.Create(ctx, p)
	if err != nil {
		return tokenProblem(err)
	}
	c.log.Warn("a token is made", "token", t.ID, "actor", c.id.Actor)
	return c.send(http.StatusCreated, newRenderer(), NewToken{Token: tokenForm(&t), Secret: secret})
}

func (c *call) tokenParams() (p token.CreateParams, err error) {
	body, err := c.body(actionBytesMax)
	if err != nil {
		return p, err
	}
	var form TokenForm
	if err := saga.UnmarshalStrict(body, "token", 2, &form); err != nil {
		return p, err
	}
	p = token.CreateParams{By: c.id.Actor, Tenant: form.Tenant, Client: form.Client, Actor: form.Actor}
	if p.Reason, err = requireReason(checkReason(form.Reason)); err != nil {
		return p, err
	}
	if !c.id.AllTenants && form.Tenant != c.id.Tenant {
		return p, fmt.Errorf("%w: a token of another tenant", ErrForbidden)
	}
	if p.Roles, err = token.ParseRoles(form.Roles); err != nil {
		return p, tokenProblem(err)
	}
	p.Life, err = token.ParseLife(form.ExpiresIn)
	return p, tokenProblem(err)
}

// tokenProblem says what is wrong with a token that is to be made.
func tokenProblem(err error) error {
	if !errors.Is(err, token.ErrInvalid) {
		return err
	}
	p := problemOf(codeInvalidToken)
	p.Detail = strings.TrimPrefix(err.Error(), token.ErrInvalid.Error()+": ")
	return p
}

// listTokens answers with a page of tokens.
func (h *Handler) listTokens(c *call) error {
	limit, err := c.queryLimit()
	if err != nil {
		return err
	}
	ended, err := c.queryOneOf("ended", []string{"true", "false"})
	if err != nil {
		return err
	}
	before, err := c.queryCursor(cursorTokens)
	if err != nil {
		return err
	}
	list, err := h.cfg.Tokens.List(c.r.Context(), token.Filter{
		Tenant: c.id.scope(), Before: before, Ended: ended == "true", Limit: limit + 1, // to see whether there is a next page
	})
	if err != nil {
		return err
	}
	page := TokenPage{Tokens: []Token{}}
	if len(list) > limit {
		list = list[:limit]
		page.NextCursor = cursorOf(cursorTokens, list[limit-1].ID)
	}
	for i := range list {
		page.Tokens = append(page.Tokens, tokenForm(&list[i]))
	}
	return c.send(http.StatusOK, newRenderer(), page)
}

// revokeToken ends a token.
func (h *Handler) revokeToken(c *call) error {
	id, err := c.pathUUID("a token")
	if err != nil {
		return err
	}
	reason, err := requireReason(c.reason("revoke"))
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded()
	defer cancel()
	t, err := h.cfg.Tokens.Revoke(ctx, token.RevokeParams{By: c.id.Actor, Reason: reason, ID: id, Tenant: c.id.scope()})
	if err != nil {
		return err
	}
	c.log.Warn("a token is revoked", "token", t.ID, "actor", c.id.Actor)
	return c.send(http.StatusOK, newRenderer(), tokenForm(&t))
}
