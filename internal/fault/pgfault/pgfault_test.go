package pgfault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

// unsent is what pgx says of errors that came before anything was sent.
type unsent struct{ err error }

func (e unsent) Error() string     { return e.err.Error() }
func (e unsent) Unwrap() error     { return e.err }
func (e unsent) SafeToRetry() bool { return true }

func TestPgxErrors(t *testing.T) {
	_, parse := pgconn.ParseConfig("postgres://u@h/d?port=none")
	for name, c := range map[string]struct {
		err  error
		want fault.Cause
		sent fault.Class
	}{
		"none":              {nil, "", ""},
		"rolled back":       {pgx.ErrTxCommitRollback, fault.Aborted, fault.Transient},
		"tx closed":         {pgx.ErrTxClosed, fault.Aborted, fault.Transient},
		"no rows":           {pgx.ErrNoRows, fault.Rejected, fault.Deterministic},
		"too many rows":     {pgx.ErrTooManyRows, fault.Rejected, fault.Deterministic},
		"configuration":     {parse, fault.Setup, fault.Deterministic},
		"closed":            {pgconn.ErrConnClosed, fault.Lost, fault.Unknown},
		"closed before":     {unsent{pgconn.ErrConnClosed}, fault.Lost, fault.Transient},
		"cancelled":         {context.Canceled, fault.Ended, fault.Unknown},
		"cancelled before":  {unsent{context.Canceled}, fault.Ended, fault.Transient},
		"deadline":          {context.DeadlineExceeded, fault.Ended, fault.Unknown},
		"end of file":       {io.ErrUnexpectedEOF, fault.Lost, fault.Unknown},
		"something":         {errors.New("something"), fault.Unrecognised, fault.Unknown},
		"something before":  {unsent{errors.New("something")}, fault.Unrecognised, fault.Transient},
		"a kind of our own": {fault.New(fault.Busy, "busy"), fault.Busy, fault.Transient},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("outer: %w", err)
		}
		if cause, sent := CauseOf(err), Of(err, fault.Sent); cause != c.want || sent != c.sent {
			t.Errorf("%s: %s, %s, want %s, %s", name, cause, sent, c.want, c.sent)
		}
		if held := Of(err, fault.Held); held == fault.Unknown {
			t.Errorf("%s: %s before anything was sent", name, held)
		}
	}
}

// A connection that was not made has sent nothing, so nothing is Unknown, whatever ended the attempt.
func TestConnecting(t *testing.T) {
	answering := func(code string) func(net.Conn) {
		return func(conn net.Conn) {
			b := pgproto3.NewBackend(conn, conn)
			if _, err := b.ReceiveStartupMessage(); err != nil {
				t.Error(err)
			}
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code})
			if err := b.Flush(); err != nil {
				t.Error(err)
			}
		}
	}
	closed := listen(t, nil)
	for name, c := range map[string]struct {
		dsn  string
		want fault.Cause
	}{
		"refused":            {"host=127.0.0.1 sslmode=disable port=" + closed, fault.Unavailable},
		"no socket":          {"host=" + t.TempDir() + " port=1", fault.Unavailable},
		"hangs up":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, func(net.Conn) {}), fault.Unavailable},
		"no TLS":             {"host=127.0.0.1 sslmode=require port=" + listen(t, refuseTLS), fault.Unavailable},
		"unknown authority":  {"host=127.0.0.1 sslmode=verify-full port=" + listen(t, speakTLS(t)), fault.Setup},
		"password":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("28P01")), fault.Setup},
		"no right":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("42501")), fault.Setup},
		"protocol":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("0A000")), fault.Setup},
		"no database":        {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("3D000")), fault.Setup},
		"too many":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("53300")), fault.Exhausted},
		"starting":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("57P03")), fault.Unavailable},
		"stopping":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("57P01")), fault.Unavailable},
		"a pooler's trouble": {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("08P01")), fault.Unavailable},
		"internal":           {"host=127.0.0.1 sslmode=disable port=" + listen(t, answering("XX000")), fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := pgx.Connect(ctx, c.dsn+" user=u dbname=d")
			if got := CauseOf(err); got != c.want {
				t.Errorf("%v: %s, want %s", err, got, c.want)
			}
			if got := Of(err, fault.Sent); got == fault.Unknown || got == "" {
				t.Errorf("%v: %s", err, got)
			}
		})
	}
	t.Run("context over", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := pgx.Connect(ctx, "host=127.0.0.1 port=1 user=u sslmode=disable")
		if got := Of(err, fault.Sent); got != fault.Transient {
			t.Errorf("%v: %s", err, got)
		}
	})
}

// listen serves every connection with f, and returns the port; with f nil nobody listens there any more.
func listen(t *testing.T, f func(net.Conn)) string {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f(conn)
			if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return port
}

// readSSLRequest reads the eight bytes with which a client asks for TLS.
func readSSLRequest(conn net.Conn) error {
	_, err := io.ReadFull(conn, make([]byte, 8))
	return err
}

func refuseTLS(conn net.Conn) {
	if readSSLRequest(conn) == nil {
		_, _ = conn.Write([]byte("N")) // the client sees what comes of it
	}
}

// speakTLS answers with a certificate of an authority that nobody knows.
func speakTLS(t *testing.T) func(net.Conn) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	return func(conn net.Conn) {
		if readSSLRequest(conn) != nil {
			return
		}
		if _, err := conn.Write([]byte("S")); err != nil {
			return
		}
		_ = tls.Server(conn, web.TLS).HandshakeContext(t.Context()) // the client does not like it
	}
}
