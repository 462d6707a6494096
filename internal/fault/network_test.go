package fault

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNetworkErrors(t *testing.T) {
	deadline := func(op string) error {
		return &net.OpError{Op: op, Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	call := func(op string, errno syscall.Errno) error {
		return &url.Error{Op: "Post", Err: &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError("connect", errno)}}
	}
	for name, c := range map[string]struct {
		err  error
		want Cause
	}{
		"refused":                 {call("dial", syscall.ECONNREFUSED), Unavailable},
		"refused, bare":           {syscall.ECONNREFUSED, Unavailable},
		"no route":                {call("dial", syscall.EHOSTUNREACH), Unavailable},
		"dial without an answer":  {deadline("dial"), Unavailable},
		"dial, context over":      {&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, Unavailable},
		"proxy not reached":       {&net.OpError{Op: "proxyconnect", Err: errors.New("Bad Gateway")}, Unavailable},
		"name not found":          {&net.DNSError{IsNotFound: true}, Unavailable},
		"name server is silent":   {&net.DNSError{IsTimeout: true}, Unavailable},
		"reset":                   {call("read", syscall.ECONNRESET), Lost},
		"reset, bare":             {syscall.ECONNRESET, Lost},
		"pipe":                    {call("write", syscall.EPIPE), Lost},
		"route gone":              {call("write", syscall.EHOSTUNREACH), Lost},
		"of another system":       {&net.OpError{Op: "read", Err: errors.New("wsarecv: forcibly closed")}, Lost},
		"alert of the other side": {&net.OpError{Op: "remote error", Err: errors.New("tls: internal error")}, Lost},
		"end of file":             {io.EOF, Lost},
		"half an answer":          {io.ErrUnexpectedEOF, Lost},
		"closed":                  {net.ErrClosed, Lost},
		"closed pipe":             {io.ErrClosedPipe, Lost},
		"read without an answer":  {deadline("read"), Silent},
		"kernel timeout":          {call("read", syscall.ETIMEDOUT), Silent},
		"cancelled":               {&url.Error{Op: "Post", Err: context.Canceled}, Ended},
		"deadline":                {context.DeadlineExceeded, Ended},
		"unknown authority":       {&url.Error{Op: "Post", Err: x509.UnknownAuthorityError{}}, Setup},
		"certificate expired":     {x509.CertificateInvalidError{Reason: x509.Expired}, Setup},
		"other host":              {x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}, Setup},
		"no roots":                {x509.SystemRootsError{}, Setup},
		"HTTP instead of HTTPS":   {http.ErrSchemeMismatch, Setup},
		"proxy's certificate":     {&net.OpError{Op: "proxyconnect", Err: x509.UnknownAuthorityError{}}, Setup},
		"no URL":                  {&url.Error{Op: "parse", Err: errors.New("missing scheme")}, Rejected},
		"something":               {errors.New("something"), Unrecognised},
	} {
		if got := CauseOf(fmt.Errorf("outer: %w", c.err)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What the standard library really returns.
func TestRealErrors(t *testing.T) {
	var f http.HandlerFunc
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r) })
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	gone := httptest.NewServer(handler)
	gone.Close()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		url     string
		handler http.HandlerFunc
		patient time.Duration
		want    Cause
		sent    Class
	}{
		"nobody":             {url: gone.URL, want: Unavailable, sent: Transient},
		"not a host":         {url: "http://[::1", want: Rejected, sent: Deterministic},
		"a socket of no one": {url: "http://127.0.0.1:0", want: Unavailable, sent: Transient},
		"hangs up":           {url: plain.URL, handler: hangUp, want: Lost, sent: Unknown},
		"says nothing": {
			url: plain.URL, handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			patient: 50 * time.Millisecond, want: Ended, sent: Unknown,
		},
		"unknown authority": {url: secure.URL, handler: hangUp, want: Setup, sent: Deterministic},
		"no TLS there":      {url: strings.Replace(plain.URL, "http:", "https:", 1), handler: hangUp, want: Setup, sent: Deterministic},
	} {
		f = c.handler
		client := &http.Client{Transport: &http.Transport{}, Timeout: c.patient}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, http.NoBody)
		if err == nil {
			var resp *http.Response
			if resp, err = client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}
		if cause, sent := CauseOf(err), Of(err, Sent); cause != c.want || sent != c.sent {
			t.Errorf("%s: %v: %s, %s", name, err, cause, sent)
		}
		client.CloseIdleConnections()
	}
}

func TestRealConnections(t *testing.T) {
	a, b := net.Pipe()
	if err := a.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); CauseOf(err) != Silent {
		t.Errorf("%v: %s", err, CauseOf(err))
	}
	_ = b.Close()
	if _, err := a.Write([]byte("x")); CauseOf(err) != Lost {
		t.Errorf("%v: %s", err, CauseOf(err))
	}
	_ = a.Close()
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}
	dialer := &net.Dialer{Resolver: resolver}
	if _, err := dialer.DialContext(t.Context(), "tcp", "sagacity.invalid:1"); CauseOf(err) != Unavailable {
		t.Errorf("%v: %s", err, CauseOf(err))
	}
}
