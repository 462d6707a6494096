package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/sagacity-tx/sagacity/coordinator/token"
)

// Identity is who calls, as their credential says.
type Identity struct {
	Tenant     string      // whose transactions these are; may be "" with AllTenants
	Client     string      // who submits: half of what makes a request id unique (I1)
	Actor      string      // the name in the audit
	Roles      token.Roles // what it may do; none: nothing
	AllTenants bool        // may read and act for all tenants, as its roles allow
}

// Authenticator says who sent a request, by its credential only. Errors that are ErrUnauthenticated or
// ErrForbidden are answered with 401 and 403; the reason goes to the log, not to the caller.
type Authenticator func(*http.Request) (Identity, error)

// What an Authenticator may find.
var (
	// ErrUnauthenticated: there is no valid credential.
	ErrUnauthenticated = errors.New("no valid credential")
	// ErrForbidden: the caller is known and not allowed.
	ErrForbidden = errors.New("not allowed")
)

// The identity of requests without a credential on loopback.
const (
	loopbackTenant = "default"
	loopbackClient = "anonymous"
)

// Loopback lets in, as client "anonymous" of tenant "default" and as an operator, whoever is on this machine:
// the connection comes from a loopback address and the request is addressed to one. The second condition
// keeps out web pages whose host name was made to point to 127.0.0.1 (DNS rebinding). Requests that a proxy
// passed on are refused: their origin is elsewhere.
func Loopback() Authenticator {
	return func(r *http.Request) (Identity, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil || !isLoopbackIP(host) {
			return Identity{}, fmt.Errorf("%w: a request without a credential that is not from this machine", ErrUnauthenticated)
		}
		if !isLoopbackHost(r.Host) {
			return Identity{}, fmt.Errorf("%w: a request without a credential that is not addressed to loopback", ErrForbidden)
		}
		for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} {
			if len(r.Header.Values(name)) > 0 {
				return Identity{}, fmt.Errorf("%w: a request without a credential that came through a proxy", ErrUnauthenticated)
			}
		}
		return Identity{Tenant: loopbackTenant, Client: loopbackClient, Actor: loopbackClient, Roles: token.AllRoles, AllTenants: true}, nil
	}
}

// isLoopbackHost reports whether a Host header, with or without a port, names this machine.
func isLoopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.EqualFold(host, "localhost") || isLoopbackIP(host)
}

func isLoopbackIP(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
