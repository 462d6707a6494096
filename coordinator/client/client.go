package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sagacity-tx/sagacity/internal/fault"
)

// Options say how to call the coordinator. Every zero value has a meaning.
type Options struct {
	HTTPClient *http.Client // default: one of its own, with timeouts for connecting; it follows no redirects
	Token      string       // bearer token; "" for none

	AttemptTimeout time.Duration // for one answer, beside what it waits for; default 15s
	RetryTime      time.Duration // how long one call goes on trying, within ctx; default 1m, negative: one attempt
}

// Client calls one coordinator.
type Client struct {
	base    string
	http    *http.Client
	options Options
}

// New makes a client of the coordinator at baseURL, such as https://sagacity.example.com. It does not connect.
func New(baseURL string, o Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, errors.New("client: the base URL cannot be parsed")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: the base URL must be http(s)://host[:port], without user, query or fragment")
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("client: the token has characters that a header cannot carry")
	}
	if o.AttemptTimeout == 0 {
		o.AttemptTimeout = 15 * time.Second
	}
	if o.RetryTime == 0 {
		o.RetryTime = time.Minute
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), http: o.HTTPClient, options: o}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport(), CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirect could take the token elsewhere
		}}
	}
	return c, nil
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: 60 * time.Second, MaxIdleConnsPerHost: 64,
	}
}

// request is one call of the API, attempted once or more.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
	wait         time.Duration // that the server may take on purpose
	once         bool          // a repetition would not be safe unless nothing was done
}

// reasonBody is the body of an action that needs nothing but a reason.
func reasonBody(reason string) ([]byte, error) {
	body, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return body, nil
}

// answer is what the coordinator said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// answerBytesMax bounds what is read of an answer: 128 steps with results of 64 KiB fit.
const answerBytesMax = 32 << 20

// do sends the request until there is an answer that a repetition would not change. The error is a *Problem,
// or an *UnknownError.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	var giveUp time.Time
	if c.options.RetryTime > 0 {
		giveUp = time.Now().Add(c.options.RetryTime)
	}
	for attempt := 1; ; attempt++ {
		a, err := c.attempt(ctx, r)
		if err == nil {
			return a, nil
		}
		pause := max(backoff(attempt), retryAfter(err))
		if !r.worthRepeating(err) || ctx.Err() != nil || time.Now().Add(pause).After(giveUp) || !sleep(ctx, pause) {
			return a, err
		}
	}
}

// worthRepeating reports whether the same request may get another answer, and is safe to send again.
func (r *request) worthRepeating(err error) bool {
	var p *Problem
	class := fault.Of(err, fault.Sent)
	if errors.As(err, &p) {
		if cause := fault.HTTP(p.Status); cause == fault.Unrecognised || cause.Class(fault.Sent) == fault.Deterministic {
			return false // it would be answered the same again
		}
		class = p.class()
	}
	return class == fault.Transient || class == fault.Unknown && !r.once
}

// attempt sends the request once.
func (c *Client) attempt(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.AttemptTimeout+r.wait)
	defer cancel()
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, &UnknownError{Err: err}
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.options.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // readAnswer closes it
	if err != nil {
		return answer{}, &UnknownError{Err: err}
	}
	return readAnswer(resp)
}

// readAnswer reads an answer to its end.
func readAnswer(resp *http.Response) (answer, error) {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax+1))
	if err == nil && len(body) > answerBytesMax {
		err = fmt.Errorf("the answer has more than %d bytes", answerBytesMax)
	}
	if err != nil {
		return answer{}, &UnknownError{Err: err}
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: body}
	if a.status >= 200 && a.status < 300 {
		return a, nil
	}
	return a, problemOf(a)
}

// Bounds of the pause between attempts.
const (
	backoffBase = 100 * time.Millisecond
	backoffCap  = 5 * time.Second
)

// backoff draws a pause with full jitter, so that clients that failed together do not come back together.
func backoff(attempt int) time.Duration {
	ceiling := backoffBase << min(attempt-1, 10)
	return jitter(min(ceiling, backoffCap))
}

// retryAfter returns the pause that the coordinator asked for, and up to a quarter more.
func retryAfter(err error) time.Duration {
	var p *Problem
	if !errors.As(err, &p) || p.RetryAfter <= 0 {
		return 0
	}
	return p.RetryAfter + jitter(p.RetryAfter/4+time.Millisecond)
}

// jitter returns a random duration up to d.
func jitter(d time.Duration) time.Duration {
	return rand.N(d) + 1
}

// sleep reports whether it slept to the end; it does not begin if ctx would end before.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryAfterOf reads the header: seconds or a date (RFC 9110, section 10.2.3). More than a minute counts as one.
func retryAfterOf(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, time.Minute)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(at), 0), time.Minute)
	}
	return 0
}
