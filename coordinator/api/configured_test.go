package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
)

const aToken = "0123456789abcdef0123456789ABCDEF"

func withToken(t *testing.T, id api.Identity) func(*api.Config) {
	t.Helper()
	auth, err := api.ConfiguredToken(aToken, id)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *api.Config) { c.Authenticate = auth }
}

// Whoever has no token, or another, learns nothing, on loopback too; health and descriptions are for everyone.
func TestTokenIsNeeded(t *testing.T) {
	t.Parallel()
	s := serveFake(t, &fake{}, withToken(t, api.Identity{Tenant: "default", Client: "cluster", Actor: "cluster", Roles: token.AllRoles, AllTenants: true}))
	for _, h := range [][]string{
		nil,
		{"Authorization", ""},
		{"Authorization", aToken},
		{"Authorization", "Bearer"},
		{"Authorization", "Bearer "},
		{"Authorization", "Bearer " + aToken[:31]},
		{"Authorization", "Bearer " + aToken + "0"},
		{"Authorization", "Bearer " + strings.ToLower(aToken)},
		{"Authorization", "Bearer x" + aToken[1:]},
		{"Authorization", "Bearer " + aToken + ", Bearer " + aToken},
		{"Authorization", "Bearer " + aToken, "Authorization", "Bearer " + aToken},
		{"Authorization", "Basic " + aToken},
	} {
		for _, e := range every {
			r := call(t, s, e.method, e.path, e.body, append([]string{"If-Match", `"1"`}, h...)...).problem(401, "unauthenticated")
			if r.header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(string(r.body), aToken[:8]) {
				t.Errorf("%q: got %v %s", h, r.header, r.body)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/problems/key_reused"} {
		call(t, s, "GET", path, "").expect(200)
	}
	for _, h := range []string{"Bearer " + aToken, "bearer " + aToken, "BEARER  " + aToken} {
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
	s := serveFake(t, f, withToken(t, api.Identity{Tenant: "acme", Client: "shop", Roles: token.Client}))
	call(t, s, "POST", "/v1/transactions", `{}`, "Authorization", "Bearer "+aToken).expect(202)
	if got != (coordinator.Caller{Tenant: "acme", Client: "shop"}) {
		t.Errorf("got %+v", got)
	}
	call(t, s, "GET", "/v1/dead-letters", "", "Authorization", "Bearer "+aToken).problem(403, "forbidden")
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", aToken[1:], aToken + "\n", aToken + " ", " " + aToken, aToken + "ü", strings.Repeat("a", api.TokenBytesMax+1)} {
		_, err := api.ConfiguredToken(bad, api.Identity{Tenant: "default"})
		var invalid *api.TokenError
		if !errors.As(err, &invalid) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
