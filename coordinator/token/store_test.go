package token_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/coordinator/token"
	"github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var migrated = testdb.Template{Name: "token", Migrate: func(ctx context.Context, dsn string) error {
	_, err := schema.Up(ctx, dsn)
	return err
}}

var shop = token.CreateParams{By: "root", Reason: "new shop", Tenant: "acme", Client: "shop", Roles: token.Client | token.Viewer}

func create(t *testing.T, s *token.Store, p token.CreateParams) (token.Token, string) {
	t.Helper()
	made, secret, err := s.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return made, secret
}

func text(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (s string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A token is found by its secret, and the secret is nowhere in the database.
func TestSecretIsNotStored(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, migrated)
	s := token.New(pool)
	made, secret := create(t, s, shop)
	if len(secret) != 47 || !strings.HasPrefix(secret, "sag_") || made.Actor != "shop" || made.ExpiresAt.Sub(made.CreatedAt).Round(time.Hour) != token.DefaultLife {
		t.Errorf("got %q, %+v", secret, made)
	}
	found, err := token.New(pool).Find(t.Context(), secret)
	if err != nil || found.ID != made.ID || found.Tenant != "acme" || found.Client != "shop" || found.Roles != shop.Roles {
		t.Errorf("got %+v, %v", found, err)
	}
	all := text(t, pool, `SELECT string_agg(t::text, '') || (SELECT string_agg(a::text, '') FROM audit a) FROM tokens t`)
	if strings.Contains(all, secret) || strings.Contains(all, secret[4:20]) {
		t.Errorf("the token is stored: %s", all)
	}
	if got := text(t, pool, `SELECT concat_ws('|', actor, action, object, allowed, reason, tenant, detail) FROM audit`); got !=
		"root|create_token|"+made.ID.String()+`|t|new shop|acme|tenant acme, client "shop", actor shop, roles client,viewer` {
		t.Errorf("audit: %s", got)
	}
	if used := text(t, pool, `SELECT (last_used_at IS NOT NULL)::text FROM tokens`); used != "true" {
		t.Error("when it was used is not known")
	}
}

func TestWhatIsNoToken(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, migrated)
	s := token.New(pool)
	_, secret := create(t, s, shop)
	pool.Close() // what cannot be a token is not asked for
	for _, bad := range []string{"", "sag_", secret[:46], secret + "A", "sab_" + secret[4:], secret[:46] + "=", "sag_" + strings.Repeat("!", 43), strings.ToUpper(secret)} {
		if _, err := s.Find(t.Context(), bad); !errors.Is(err, token.ErrNotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A revoked token is refused at once where it was revoked, and elsewhere when the cache has ended.
func TestRevocation(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, migrated)
	here, elsewhere := token.New(pool), token.New(pool)
	made, secret := create(t, here, shop)
	for _, s := range []*token.Store{here, elsewhere} {
		if _, err := s.Find(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := here.Revoke(t.Context(), token.RevokeParams{By: "root", ID: made.ID, Tenant: "other"}); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	for range 2 {
		got, err := here.Revoke(t.Context(), token.RevokeParams{By: "root", Reason: "lost", ID: made.ID, Tenant: "acme"})
		if err != nil || got.State() != "revoked" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if n := text(t, pool, `SELECT count(*)::text FROM audit WHERE action = 'revoke_token' AND reason = 'lost'`); n != "1" {
		t.Errorf("%s audit rows", n)
	}
	if _, err := here.Find(t.Context(), secret); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("here: %v", err)
	}
	elsewhere.Age(token.CacheTTL)
	if _, err := elsewhere.Find(t.Context(), secret); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("elsewhere: %v", err)
	}
	if token.CacheTTL > 5*time.Second {
		t.Errorf("revocation takes %s", token.CacheTTL)
	}
	if _, err := here.Revoke(t.Context(), token.RevokeParams{ID: uuid.New()}); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("one that there is not: %v", err)
	}
}

// The database's clock says what has expired.
func TestExpiry(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, migrated)
	s := token.New(pool)
	p := shop
	p.Life = -1
	forever, secret := create(t, s, p)
	if !forever.ExpiresAt.IsZero() {
		t.Errorf("it expires at %s", forever.ExpiresAt)
	}
	if _, err := s.Find(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE tokens SET expires_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	s.Age(token.CacheTTL)
	if _, err := s.Find(t.Context(), secret); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	active, err := s.List(t.Context(), token.Filter{Limit: 10})
	all, errAll := s.List(t.Context(), token.Filter{Limit: 10, Ended: true})
	if err != nil || errAll != nil || len(active) != 0 || len(all) != 1 || all[0].State() != "expired" {
		t.Errorf("got %+v, %v; %+v, %v", active, err, all, errAll)
	}
}

// A database that does not answer says nothing about whose a token is; what is cached goes on for its time.
func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, migrated)
	s := token.New(pool)
	_, secret := create(t, s, shop)
	_, other := create(t, s, shop)
	if _, err := s.Find(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	if _, err := s.Find(t.Context(), secret); err != nil {
		t.Errorf("cached: %v", err)
	}
	if _, err := s.Find(t.Context(), other); err == nil || errors.Is(err, token.ErrNotFound) {
		t.Errorf("not cached: %v", err)
	}
	s.Age(token.CacheTTL)
	if _, err := s.Find(t.Context(), secret); err == nil || errors.Is(err, token.ErrNotFound) {
		t.Errorf("no longer cached: %v", err)
	}
}

// Lookups of unknown tokens leave the other connections alone.
func TestLookupsAreBounded(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, migrated)
	s := token.New(pool)
	block, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = block.Rollback(context.Background()) }()
	if _, err := block.Exec(t.Context(), `LOCK TABLE tokens`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := s.Find(ctx, "sag_"+fmt.Sprintf("%042d", i)+"A")
			if err == nil || errors.Is(err, token.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		})
	}
	deadline := time.After(10 * time.Second)
	for waiting := 0; waiting < 4; {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting > 4 {
			t.Fatalf("%d lookups at one time", waiting)
		}
		select {
		case <-deadline:
			t.Fatal("no lookups")
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	all.Wait()
}

func TestWhatCannotBeMade(t *testing.T) {
	t.Parallel()
	s := token.New(nil)
	for name, change := range map[string]func(*token.CreateParams){
		"no tenant":             func(p *token.CreateParams) { p.Tenant = "" },
		"tenant":                func(p *token.CreateParams) { p.Tenant = "a b" },
		"no client":             func(p *token.CreateParams) { p.Client = "" },
		"client of all tenants": func(p *token.CreateParams) { p.Tenant = token.AllTenants },
		"client of NATS":        func(p *token.CreateParams) { p.Client = "nats" },
		"client":                func(p *token.CreateParams) { p.Client = "../x" },
		"actor":                 func(p *token.CreateParams) { p.Actor = "a\nb" },
		"no actor":              func(p *token.CreateParams) { p.Client, p.Roles = "", token.Operator },
		"no role":               func(p *token.CreateParams) { p.Roles = 0 },
		"role":                  func(p *token.CreateParams) { p.Roles = 128 },
		"short":                 func(p *token.CreateParams) { p.Life = time.Second },
		"long":                  func(p *token.CreateParams) { p.Life = 11 * 365 * 24 * time.Hour },
	} {
		p := shop
		change(&p)
		if _, _, err := s.Create(t.Context(), p); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, life := range []string{"x", "1s", "-1h", "1000000h"} {
		if _, err := token.ParseLife(life); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("life %q: %v", life, err)
		}
	}
	for _, roles := range [][]string{nil, {"root"}, {"client", "Admin"}} {
		if _, err := token.ParseRoles(roles); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("roles %q: %v", roles, err)
		}
	}
	if r, err := token.ParseRoles(token.RoleNames()); err != nil || r != token.AllRoles || r.String() != "client,viewer,operator,approver,admin" {
		t.Errorf("got %s, %v", r, err)
	}
}

func TestStatementsArePrepared(t *testing.T) {
	t.Parallel()
	conn, err := testdb.New(t, migrated).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, sql := range token.SQL {
		if _, err := conn.Conn().Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
