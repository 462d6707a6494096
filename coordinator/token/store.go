package token

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/dlq"
)

// ErrNotFound says that there is no such token, or that it is another tenant's.
var ErrNotFound = errors.New("no such token")

// What the audit calls it.
const (
	actionCreate = "create_token"
	actionRevoke = "revoke_token"
)

// Store keeps tokens in the coordinator's database. Use New.
type Store struct {
	pool  *pgxpool.Pool
	cache cache
	slots chan struct{} // lookups that run
}

// New makes a store. The pool's owner closes it.
func New(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool, cache: newCache(), slots: make(chan struct{}, lookupsMax)}
}

// Create makes a token. The secret is what its owner has to send; nobody can be told again. The error is ErrInvalid for
// what cannot be.
func (s *Store) Create(ctx context.Context, p CreateParams) (t Token, secret string, err error) {
	if err := p.complete(); err != nil {
		return t, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return t, "", fmt.Errorf("make a token's id: %w", err)
	}
	secret, hash := newSecret()
	tenant := p.Tenant
	if tenant == AllTenants {
		tenant = ""
	}
	life := pgtype.Interval{Microseconds: p.Life.Microseconds(), Valid: p.Life > 0}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if t, err = one(ctx, tx, sqlInsert, id, hash[:], tenant, p.Client, p.Actor, p.Roles.Names(), p.By, life); err != nil {
			return err
		}
		return dlq.InsertAudit(ctx, tx, t.auditEntry(actionCreate, p.By, p.Reason))
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("make a token: %w", err)
	}
	return t, secret, nil
}

// auditEntry says what was done about a token.
func (t *Token) auditEntry(action, by, reason string) dlq.AuditEntry {
	tenant := t.Tenant
	if tenant == "" {
		tenant = AllTenants
	}
	return dlq.AuditEntry{
		Actor: by, Action: action, Object: t.ID.String(), Allowed: true, Reason: reason, Tenant: t.Tenant,
		Detail: fmt.Sprintf("tenant %s, client %q, actor %s, roles %s", tenant, t.Client, t.Actor, t.Roles),
	}
}

// RevokeParams says who revokes which token, and why.
type RevokeParams struct {
	By     string
	Reason string
	ID     uuid.UUID
	Tenant string // only one of this tenant; "": of any
}

// Revoke ends a token. Repetitions change nothing. The error is ErrNotFound if there is none, or another tenant's.
func (s *Store) Revoke(ctx context.Context, p RevokeParams) (t Token, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		t, err = one(ctx, tx, sqlRevoke, p.ID, p.Tenant)
		if errors.Is(err, ErrNotFound) {
			t, err = one(ctx, tx, sqlGet, p.ID, p.Tenant)
			return err
		}
		if err != nil {
			return err
		}
		return dlq.InsertAudit(ctx, tx, t.auditEntry(actionRevoke, p.By, p.Reason))
	})
	if err != nil {
		return Token{}, fmt.Errorf("revoke token %s: %w", p.ID, err)
	}
	s.cache.forget(p.ID)
	return t, nil
}

// Filter selects tokens.
type Filter struct {
	Tenant string    // only of this tenant; "": of any
	Before uuid.UUID // only older ones: the id of the last one seen
	Ended  bool      // those that have expired or were revoked too
	Limit  int
}

// List returns tokens, the newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Token, error) {
	before := pgtype.UUID{Bytes: f.Before, Valid: f.Before != uuid.Nil}
	rows, err := s.pool.Query(ctx, sqlList, f.Tenant, before, f.Ended, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return list, nil
}

// Bounds of a lookup. What calls without a valid token costs is bounded by them, whatever its rate.
const (
	lookupsMax    = 4 // at one time
	lookupTimeout = 3 * time.Second
	touchEvery    = 10 * time.Minute // how exact last_used_at is
)

// Find returns the active token that secret is, or ErrNotFound. All other errors are those of the database: then it is
// not known whose the secret is.
func (s *Store) Find(ctx context.Context, secret string) (Token, error) {
	if !wellFormed(secret) {
		return Token{}, ErrNotFound
	}
	hash := sha256.Sum256([]byte(secret))
	if t, ok := s.cache.get(hash); ok {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return Token{}, fmt.Errorf("look a token up: wait for other lookups: %w", ctx.Err())
	}
	if t, ok := s.cache.get(hash); ok {
		return t, nil // somebody else with the same token was faster
	}
	asked := time.Now()
	t, err := one(ctx, s.pool, sqlFind, hash[:])
	if err != nil {
		return Token{}, fmt.Errorf("look a token up: %w", err)
	}
	if !t.Active() {
		return Token{}, ErrNotFound
	}
	if time.Since(t.LastUsedAt) > touchEvery {
		every := pgtype.Interval{Microseconds: touchEvery.Microseconds(), Valid: true}
		_, _ = s.pool.Exec(ctx, sqlTouch, t.ID, every) // for people to look at: not worth refusing a call
	}
	s.cache.add(hash, t, asked)
	return t, nil
}

func one(ctx context.Context, db dlq.Querier, sql string, args ...any) (Token, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return Token{}, err
	}
	t, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return Token{}, ErrNotFound
	}
	return t, err
}

func scan(row pgx.CollectableRow) (t Token, err error) {
	var roles []string
	var expires, used, revoked pgtype.Timestamptz
	if err := row.Scan(&t.ID, &t.Tenant, &t.Client, &t.Actor, &roles, &t.CreatedAt, &t.CreatedBy, &expires, &used, &revoked, &t.Expired); err != nil {
		return t, err
	}
	t.CreatedAt, t.ExpiresAt, t.LastUsedAt, t.RevokedAt = t.CreatedAt.UTC(), utc(expires), utc(used), utc(revoked)
	t.Roles, err = ParseRoles(roles)
	return t, err
}

func utc(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
