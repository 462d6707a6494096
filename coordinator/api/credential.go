package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/sagacity-tx/sagacity/coordinator/token"
)

// Bearer lets in whoever sends a token that is kept and active, with the identity that the token has. If the database
// does not answer, the caller is told so (503), and is not taken for unknown.
func Bearer(tokens Tokens) Authenticator {
	return func(r *http.Request) (Identity, error) {
		secret, err := bearer(r)
		if err != nil {
			return Identity{}, err
		}
		t, err := tokens.Find(r.Context(), secret)
		if errors.Is(err, token.ErrNotFound) {
			return Identity{}, fmt.Errorf("%w: a token that is not known, has expired or was revoked", ErrUnauthenticated)
		}
		if err != nil {
			return Identity{}, err
		}
		return Identity{Tenant: t.Tenant, Client: t.Client, Actor: t.Actor, Roles: t.Roles, AllTenants: t.Tenant == ""}, nil
	}
}

// Either asks first, and next where first does not know the caller.
func Either(first, next Authenticator) Authenticator {
	return func(r *http.Request) (Identity, error) {
		id, err := first(r)
		if errors.Is(err, ErrUnauthenticated) {
			return next(r)
		}
		return id, err
	}
}

// WithoutCredential asks anonymous about requests that carry no credential, and otherwise about those that do: one that
// is not valid is never ignored.
func WithoutCredential(anonymous, otherwise Authenticator) Authenticator {
	return func(r *http.Request) (Identity, error) {
		if len(r.Header.Values("Authorization")) == 0 {
			return anonymous(r)
		}
		return otherwise(r)
	}
}
