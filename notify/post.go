package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Limits of one attempt.
const (
	attemptTimeout   = 10 * time.Second
	connectTimeout   = 5 * time.Second
	answerBytesMax   = 4 << 10
	answerHeadersMax = 16 << 10
)

// Headers of a delivery, as Standard Webhooks has them.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// newHTTPClient makes a client that goes nowhere but to the target itself: it uses no proxy, follows no redirect, keeps
// no connection whose address was checked for another target, and connects to public addresses only unless allowed.
func newHTTPClient(allowPrivate bool) *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	if !allowPrivate {
		dialer.Control = refusePrivate
	}
	return &http.Client{
		Timeout:       attemptTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout, DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: answerHeadersMax,
		},
	}
}

// Sign returns the signature of a delivery: HMAC-SHA256 over id.timestamp.body with the secret's key.
func Sign(secret string, id string, at time.Time, body []byte) (string, error) {
	key, err := keyOf(secret)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// post makes one attempt. It returns the HTTP status, 0 if no answer came, and what is wrong, nil if it is delivered.
// The error does not name the URL, which may hold a secret.
func post(ctx context.Context, client *http.Client, target, secret string, id uuid.UUID, body []byte, now time.Time) (answer int, err error) {
	signature, err := Sign(secret, id.String(), now, body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the URL cannot be used")
	}
	req.Header.Set("Content-Type", "application/cloudevents+json")
	req.Header.Set("User-Agent", "sagacity-webhook/1")
	req.Header.Set(HeaderID, id.String())
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(HeaderSignature, signature)
	resp, err := client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		if errors.Is(err, errPrivate) {
			err = errPrivate
		}
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, answerBytesMax) // what it says is of no use
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return resp.StatusCode, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return resp.StatusCode, fmt.Errorf("it answers HTTP %d, and redirects are not followed", resp.StatusCode)
	}
	return resp.StatusCode, fmt.Errorf("it answers HTTP %d", resp.StatusCode)
}
