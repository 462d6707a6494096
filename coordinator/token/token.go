package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/saga"
)

// Token is what is known about a bearer token: everything but the token.
type Token struct {
	ID         uuid.UUID
	Tenant     string // "": all tenants
	Client     string // "": not a client
	Actor      string
	Roles      Roles
	CreatedAt  time.Time
	CreatedBy  string
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // to within some minutes; zero: never
	RevokedAt  time.Time // zero: it was not
	Expired    bool      // by the clock of the database
}

// Active reports whether the token lets anyone in.
func (t *Token) Active() bool { return t.RevokedAt.IsZero() && !t.Expired }

// CreateParams says whose token to make, and who makes it.
type CreateParams struct {
	By     string        // the actor who makes it
	Reason string        // for the audit
	Tenant string        // AllTenants, or the name of one
	Client string        // required with the role Client
	Actor  string        // "": the client
	Roles  Roles         // one at least
	Life   time.Duration // 0: DefaultLife; negative: it never expires
}

// AllTenants stands for all tenants where a tenant is named; no tenant can have this name.
const AllTenants = "*"

// How long tokens live.
const (
	DefaultLife = 90 * 24 * time.Hour
	LifeMin     = time.Minute
	LifeMax     = 10 * 365 * 24 * time.Hour
)

// ReservedClient is the client of submissions that come over NATS. Tokens cannot have it: their request ids would mix.
const ReservedClient = "nats"

// complete checks p and fills in its defaults.
func (p *CreateParams) complete() error {
	if p.Tenant != AllTenants && saga.CheckName("tenant", p.Tenant) != nil {
		return fmt.Errorf("%w: tenant: use a name of 1 to 64 letters, digits, '-' or '_', or %s for all tenants", ErrInvalid, AllTenants)
	}
	if p.Client != "" && saga.CheckName("client", p.Client) != nil || p.Client == ReservedClient {
		return fmt.Errorf("%w: client: use a name of 1 to 64 letters, digits, '-' or '_', and not %q", ErrInvalid, ReservedClient)
	}
	if p.Actor == "" {
		p.Actor = p.Client
	}
	if saga.CheckName("actor", p.Actor) != nil {
		return fmt.Errorf("%w: actor: use a name of 1 to 64 letters, digits, '-' or '_'", ErrInvalid)
	}
	switch {
	case p.Roles == 0 || p.Roles&^AllRoles != 0:
		return fmt.Errorf("%w: no role; use %s", ErrInvalid, strings.Join(roleNames, ", "))
	case p.Roles.Any(Client) && (p.Tenant == AllTenants || p.Client == ""):
		return fmt.Errorf("%w: the role client needs one tenant and a client: they are whose request ids and transactions it submits", ErrInvalid)
	case p.Life == 0:
		p.Life = DefaultLife
	case p.Life > 0 && (p.Life < LifeMin || p.Life > LifeMax):
		return fmt.Errorf("%w: expires_in: use %s to %s, or never", ErrInvalid, LifeMin, LifeMax)
	}
	return nil
}

// secretPrefix makes tokens recognisable to scanners that look for secrets in the wrong places.
const secretPrefix = "sag_"

const secretRandomBytes = 32

var secretLength = len(secretPrefix) + base64.RawURLEncoding.EncodedLen(secretRandomBytes)

// newSecret draws a token.
//
// What is stored of it is a plain SHA-256, without salt and without stretching. Both are for secrets that people choose:
// they make a dictionary, or many databases at once, expensive to search. Here there is no dictionary. Whoever has the
// hashes has to try half of 2^256 tokens for one of them, and a salt or a slower hash would change nothing about that.
// A slow hash would make every call slow.
func newSecret() (secret string, hash [sha256.Size]byte) {
	var random [secretRandomBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	return secret, sha256.Sum256([]byte(secret))
}

// wellFormed reports whether a text can be a token, so that the database is not asked about anything else.
func wellFormed(secret string) bool {
	if len(secret) != secretLength || !strings.HasPrefix(secret, secretPrefix) {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(secret[len(secretPrefix):])
	return err == nil
}

// ParseLife reads how long a token is to live: a duration, "never", or "" for the default.
func ParseLife(text string) (time.Duration, error) {
	switch text {
	case "":
		return 0, nil
	case "never":
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < LifeMin || d > LifeMax {
		return 0, fmt.Errorf("%w: expires_in: use a duration of %s to %s, such as 720h, or never", ErrInvalid, LifeMin, LifeMax)
	}
	return d, nil
}

// State returns active, expired or revoked.
func (t *Token) State() string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked"
	case t.Expired:
		return "expired"
	default:
		return "active"
	}
}
