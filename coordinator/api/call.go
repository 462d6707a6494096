package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
)

// call is one request on its way through the API.
type call struct {
	h         *Handler
	w         *answer
	r         *http.Request
	route     *route
	id        Identity
	query     map[string]string
	requestID string // of this HTTP request, not of a submission
	log       *slog.Logger
	began     time.Time
	held      int64 // bytes of the body, in the Handler's account
	err       error // what the answer is a problem for
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

const headerRequestID = "X-Request-Id"

func (h *Handler) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{h: h, w: &answer{ResponseWriter: w}, requestID: requestIDOf(r), began: time.Now()}
	c.log = h.cfg.Log.With("http_request", c.requestID)
	if trace := traceparentOf(r); trace != "" {
		c.log = c.log.With("trace", trace[3:35])
	}
	c.r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	header := w.Header()
	header.Set(headerRequestID, c.requestID)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	return c
}

// requestIDOf returns the id that the caller gave the HTTP request, or a new one.
func requestIDOf(r *http.Request) string {
	const bytesMax = 128
	values := r.Header.Values(headerRequestID)
	if len(values) == 1 && len(values[0]) >= 1 && len(values[0]) <= bytesMax &&
		strings.Trim(values[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:/+=@-") == "" {
		return values[0]
	}
	return uuid.NewString()
}

// finish answers a panic, gives back what the call held and writes the access log.
func (c *call) finish() {
	p := recover()
	c.release()
	if p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		c.log.Error("a request panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if c.w.status != 0 {
			panic(http.ErrAbortHandler) // too late for an answer: cut the connection
		}
		c.fail(problemOf(codeInternal))
	}
	level := slog.LevelDebug
	if c.w.status >= 500 && c.w.status != http.StatusServiceUnavailable {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.Int("status", c.w.status), slog.Duration("took", time.Since(c.began))}
	if c.route != nil {
		attrs = append(attrs, slog.String("route", c.route.method+" "+c.route.path))
	}
	if c.id.Tenant != "" {
		attrs = append(attrs, slog.String("tenant", c.id.Tenant), slog.String("client", c.id.Client))
	}
	if c.err != nil {
		attrs = append(attrs, slog.String("error", c.err.Error()))
	}
	c.log.LogAttrs(c.r.Context(), level, "request", attrs...)
}

// fail answers with the problem that the error is. Who was not let in is in the audit before it is answered (D6).
func (c *call) fail(err error) {
	c.err = err
	p := translate(err)
	if e := c.denied(p); e != nil && !coordinator.Recorded(err) {
		c.h.denials.record(c.r.Context(), *e)
	}
	c.writeProblem(p)
}

// failUnrouted answers a request that no route fits.
func (c *call) failUnrouted(allowed []string) {
	if len(allowed) == 0 {
		c.fail(problemOf(codeNoRoute))
		return
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	c.fail(problemOf(codeMethod))
}

// write answers with bytes of JSON.
func (c *call) write(status int, body []byte) {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // a caller that has gone needs no answer
}

// bounded returns a context for calls whose outcome may take long to be known.
func (c *call) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.r.Context(), c.h.cfg.SubmitTimeout)
}

// answer remembers the status of what was written.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write notes the implied status.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets an http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
