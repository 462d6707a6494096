package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
)

// CauseOf returns the cause of an error of the standard library or of our own; "" if err is nil. The order
// matters: an error that tells that nothing was sent comes before the timeout or broken connection behind it.
func CauseOf(err error) Cause {
	if err == nil {
		return ""
	}
	if cause, ok := declared(err); ok {
		return cause
	}
	var invalid *url.Error
	switch {
	case isTrust(err):
		return Setup
	case isDial(err):
		return Unavailable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Ended
	case isTimeout(err):
		return Silent
	case isBroken(err):
		return Lost
	case errors.As(err, &invalid) && invalid.Op == "parse":
		return Rejected
	}
	return Unrecognised
}

// isTrust reports whether the two sides do not agree on how to talk or whom to trust. It is found out before
// the first byte of a request leaves. An alert of the other side is not of this kind: it may come at any time.
func isTrust(err error) bool {
	return as[*tls.CertificateVerificationError](err) || as[tls.RecordHeaderError](err) ||
		as[x509.UnknownAuthorityError](err) || as[x509.HostnameError](err) || as[x509.CertificateInvalidError](err) ||
		as[x509.SystemRootsError](err) || errors.Is(err, http.ErrSchemeMismatch)
}

// isDial reports whether no connection was made. A name that is not found may be one that is not there yet.
func isDial(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) {
		switch op.Op {
		case "dial", "proxyconnect", "socks connect":
			return true
		}
	}
	return as[*net.DNSError](err) || errors.Is(err, syscall.ECONNREFUSED)
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) ||
		errors.As(err, &network) && network.Timeout()
}

func isBroken(err error) bool {
	for _, broken := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED, syscall.ENOTCONN, syscall.ENETRESET,
		syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return as[*net.OpError](err) // reading, writing, and what other systems call the same
}

func as[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
