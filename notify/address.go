package notify

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"syscall"

	"github.com/sagacity-tx/sagacity/saga"
)

// Codes of *saga.InvalidError.
const (
	CodeInvalidURL      = "invalid_webhook_url"
	CodeInvalidSecret   = "invalid_webhook_secret"
	CodeTooManyWebhooks = "too_many_webhooks"
)

// errPrivate says that a target is inside: whoever may register webhooks could reach what only this machine may.
var errPrivate = errors.New("the address is not a public one; --webhook-allow-private allows it")

// notPublic are the networks, beside those that package netip knows, that are not the public internet (RFC 6890), and
// those that lead to IPv4 addresses in other clothes.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// isPublic reports whether an address is of the public internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// refusePrivate looks at the address that is connected to, after names were resolved: a name that points elsewhere by
// then is seen through.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address cannot be read: %w", err)
	}
	if !isPublic(a.Addr()) {
		return errPrivate
	}
	return nil
}

const urlBytesMax = 2048

// checkURL refuses what is no target. The URL is not repeated: it may hold a secret.
func checkURL(text string, allowPrivate bool) error {
	invalid := func(problem, fix string) error {
		return &saga.InvalidError{Code: CodeInvalidURL, Field: "url", Problem: problem, Fix: fix}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > urlBytesMax || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return invalid("is not a URL", "use https://host/path, 2048 bytes at most")
	case u.User != nil || u.Fragment != "":
		return invalid("has a user or a fragment", "leave them out; deliveries are signed with the secret")
	case u.Scheme != "https" && !(u.Scheme == "http" && allowPrivate):
		return invalid("is not https", "use https; http needs --webhook-allow-private")
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !allowPrivate && !isPublic(a) {
		return invalid("is not public", "use an address of the public internet, or --webhook-allow-private")
	}
	return nil
}
