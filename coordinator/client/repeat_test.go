package client

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// X1: an operator's action, which must not be repeated unless nothing was done, and a request that is safe to repeat.
func TestWorthRepeating(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err        error
		once, safe bool
	}{
		{&UnknownError{Err: dial}, true, true},
		{&UnknownError{Err: &net.DNSError{IsNotFound: true}}, true, true},
		{&UnknownError{Err: io.ErrUnexpectedEOF}, false, true},
		{&UnknownError{Err: syscall.ECONNRESET}, false, true},
		{&UnknownError{Err: context.DeadlineExceeded}, false, true},
		{&UnknownError{Err: errors.New("something")}, false, true},
		{&UnknownError{Err: x509.UnknownAuthorityError{}}, false, false},
		{&Problem{Status: 429}, true, true},
		{&Problem{Status: 503}, false, true}, // it may be outcome_unknown
		{&Problem{Status: 502}, false, true},
		{&Problem{Status: 504}, false, true},
		{&Problem{Status: 500}, false, false},
		{&Problem{Status: 501}, false, false},
		{&Problem{Status: 520}, false, false},
		{&Problem{Status: 302}, false, false},
		{&Problem{Status: 400}, false, false},
		{&Problem{Status: 401}, false, false},
		{&Problem{Status: 404}, false, false},
		{&Problem{Status: 409}, false, false},
		{&Problem{Status: 413}, false, false},
		{&Problem{Status: 422}, false, false},
	} {
		if once := (&request{once: true}).worthRepeating(c.err); once != c.once {
			t.Errorf("%v: an action is repeated: %t", c.err, once)
		}
		if safe := (&request{}).worthRepeating(c.err); safe != c.safe {
			t.Errorf("%v: a safe request is repeated: %t", c.err, safe)
		}
	}
}

// U1: what is answered with 5xx, or not at all, is never taken for failed.
func TestUnknown(t *testing.T) {
	for status := 300; status < 600; status++ {
		var open *UnknownError
		if got := errors.As(unknown("id", &Problem{Status: status}), &open); got != (status >= 500) {
			t.Errorf("%d is unknown: %t", status, got)
		}
	}
}
