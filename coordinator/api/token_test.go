package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
)

const token = "0123456789abcdef0123456789ABCDEF"

func withToken(t *testing.T, id api.Identity) func(*api.Config) {
	t.Helper()
	auth, err := api.Token(token, id)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *api.Config) { c.Authenticate = auth }
}

// Whoever has no token, or another, learns nothing, on loopback too; health and descriptions are for everyone.
func TestTokenIsNeeded(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{}, withToken(t, api.Identity{Tenant: "default", Client: "cluster", Actor: "cluster", Operator: true}))
	for _, h := range [][]string{
		nil,
		{"Authorization", ""},
		{"Authorization", token},
		{"Authorization", "Bearer"},
		{"Authorization", "Bearer "},
		{"Authorization", "Bearer " + token[:31]},
		{"Authorization", "Bearer " + token + "0"},
		{"Authorization", "Bearer " + strings.ToLower(token)},
		{"Authorization", "Bearer x" + token[1:]},
		{"Authorization", "Bearer " + token + ", Bearer " + token},
		{"Authorization", "Bearer " + token, "Authorization", "Bearer " + token},
		{"Authorization", "Basic " + token},
	} {
		for _, e := range every {
			r := call(t, s, e.method, e.path, e.body, append([]string{"If-Match", `"1"`}, h...)...).problem(401, "unauthenticated")
			if r.header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(string(r.body), token[:8]) {
				t.Errorf("%q: got %v %s", h, r.header, r.body)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/problems/key_reused"} {
		call(t, s, "GET", path, "").expect(200)
	}
	for _, h := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
		call(t, s, "GET", "/v1/transactions", "", "Authorization", h).expect(200)
		call(t, s, "GET", "/v1/dead-letters", "", "Authorization", h, "Host", "coordinator.example").expect(200)
	}
}

// I1: who calls comes from the credential.
func TestTokenIdentity(t *testing.T) {
	t.Parallel()
	var got coordinator.Caller
	f := &fake{submit: func(_ context.Context, p coordinator.SubmitParams) (coordinator.Submitted, error) {
		got = p.Caller
		return coordinator.Submitted{ID: fakeID, Answer: []byte(`{}`)}, nil
	}}
	s := serveFake(t, f, withToken(t, api.Identity{Tenant: "acme", Client: "shop"}))
	call(t, s, "POST", "/v1/transactions", `{}`, "Authorization", "Bearer "+token).expect(202)
	if got != (coordinator.Caller{Tenant: "acme", Client: "shop"}) {
		t.Errorf("got %+v", got)
	}
	call(t, s, "GET", "/v1/dead-letters", "", "Authorization", "Bearer "+token).problem(403, "forbidden")
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", token[1:], token + "\n", token + " ", " " + token, token + "ü", strings.Repeat("a", api.TokenBytesMax+1)} {
		_, err := api.Token(bad, api.Identity{Tenant: "default"})
		var invalid *api.TokenError
		if !errors.As(err, &invalid) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
