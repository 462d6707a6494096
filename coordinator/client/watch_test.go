package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func transactionJSON(version int, status string) string {
	return fmt.Sprintf("{\"id\":%q,\n\"version\":%d,\"status\":%q}", id, version, status)
}

// streamed answers with a stream that then ends.
func streamed(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

func answered(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// watchAll returns the versions that Watch yields, and its error.
func watchAll(t *testing.T, s *script) (versions []int64, err error) {
	t.Helper()
	c, err := client.New(s.URL, client.Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	of, _ := saga.ParseID(id)
	for tx, err := range c.Watch(ctx, of) {
		if err != nil {
			return versions, err
		}
		versions = append(versions, tx.Version)
	}
	return versions, nil
}

// A stream that breaks is begun again where it was; what came before does not come again.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t,
		streamed("retry: 1000\n\n:\n\nid: 1\nevent: changed\ndata: {\"version\":1,\ndata: \"status\":\"running\"}\n\nid: 2\ndata: {\"ver"),
		answered(503, `{"code":"unavailable","status":503}`),
		streamed("id: 1\ndata: {\"version\":1,\"status\":\"running\"}\n\nid: 3\nevent: ended\ndata: {\"version\":3,\"status\":\"committed\"}\n\n"),
	)
	versions, err := watchAll(t, s)
	if err != nil || !slices.Equal(versions, []int64{1, 3}) {
		t.Errorf("got %d, %v", versions, err)
	}
	for i, want := range []string{"", "1", "1"} {
		r := s.requests()[i]
		if r.header.Get("Last-Event-Id") != want || r.header.Get("Authorization") != "Bearer secret" || r.url != "/v1/transactions/"+id+"/events" {
			t.Errorf("request %d is %s with %v", i, r.url, r.header)
		}
	}
}

// Where there are no streams it asks again and again.
func TestWatchWithoutStreams(t *testing.T) {
	t.Parallel()
	for _, refusal := range []http.HandlerFunc{
		answered(404, `{"code":"no_such_route","status":404}`), answered(429, `{"code":"overloaded","status":429}`),
	} {
		answers := []http.HandlerFunc{refusal}
		for range 2 {
			answers = append(answers, answered(200, transactionJSON(1, "running")))
		}
		s := serve(t, append(answers, answered(200, transactionJSON(4, "committed")))...)
		if versions, err := watchAll(t, s); err != nil || !slices.Equal(versions, []int64{1, 4}) {
			t.Errorf("got %d, %v", versions, err)
		}
	}
}

// What would be answered the same again is an error.
func TestWatchOfNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, answered(404, `{"code":"not_found","status":404}`))
	_, err := watchAll(t, s)
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != client.CodeNotFound || len(s.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(s.requests()))
	}
}
