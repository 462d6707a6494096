package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// Limits of a bearer token. 32 characters of 16 possible ones are 128 bits.
const (
	TokenBytesMin = 32
	TokenBytesMax = 1024
)

// TokenError says what is wrong with a token, without the token.
type TokenError struct{ Fix string }

// Error returns what to change.
func (e *TokenError) Error() string { return "the token is not valid: " + e.Fix }

// ConfiguredToken lets in, with the given identity, whoever sends the token (RFC 6750, section 2.1). It is one token for
// everyone: it says that the caller is allowed, not who it is. Digests are compared, in constant time, so that
// neither the length nor a common beginning shows.
func ConfiguredToken(token string, id Identity) (Authenticator, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) (Identity, error) {
		given, err := bearer(r)
		if err != nil {
			return Identity{}, err
		}
		got := sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return Identity{}, fmt.Errorf("%w: another token", ErrUnauthenticated)
		}
		return id, nil
	}, nil
}

func checkToken(token string) error {
	switch {
	case len(token) < TokenBytesMin:
		return &TokenError{Fix: fmt.Sprintf("use at least %d characters, as of \"openssl rand -hex 32\"", TokenBytesMin)}
	case len(token) > TokenBytesMax:
		return &TokenError{Fix: fmt.Sprintf("use at most %d characters", TokenBytesMax)}
	case strings.ContainsFunc(token, func(r rune) bool { return !isTokenRune(r) }):
		return &TokenError{Fix: "use letters, digits and -._~+/= only"}
	}
	return nil
}

// isTokenRune reports whether the character may be in a b64token.
func isTokenRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/=", r)
}

// bearer returns the token that a request carries.
func bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", fmt.Errorf("%w: %d Authorization headers", ErrUnauthenticated, len(values))
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", fmt.Errorf("%w: an Authorization header that is no bearer token", ErrUnauthenticated)
	}
	return strings.TrimLeft(token, " "), nil
}
