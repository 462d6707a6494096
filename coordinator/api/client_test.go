package api_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

// The Go client against the real API: every call once.
func TestClientAgainstAPI(t *testing.T) {
	t.Parallel()
	l := newLetters(t)
	c, err := client.New(l.server.URL, client.Options{HTTPClient: l.server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	def := saga.Define("ill").TCC("a", "ill", "work").MustBuild()
	s := client.Submission{Definition: def, Input: map[string]int{"cents": 5}}
	first, err := c.Submit(ctx, s, client.SubmitOptions{})
	if err != nil || first.Replayed {
		t.Fatalf("got %+v, %v", first, err)
	}
	again, err := c.Submit(ctx, s, client.SubmitOptions{RequestID: first.RequestID})
	if err != nil || !again.Replayed || !bytes.Equal(first.Answer, again.Answer) || again.ID != first.ID {
		t.Errorf("got %+v, %v", again, err)
	}
	s.Input = 6
	var p *client.Problem
	if _, err := c.Submit(ctx, s, client.SubmitOptions{RequestID: first.RequestID}); !errors.As(err, &p) || p.Code != client.CodeKeyReused {
		t.Errorf("got %v", err)
	}

	var letters []client.DeadLetter
	l.until("a dead letter", func() bool {
		letters = nil
		for d, err := range c.AllDeadLetters(ctx, client.DeadLetterFilter{Transaction: first.ID, Status: saga.DeadLetterOpen}) {
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, d)
		}
		return len(letters) == 1
	})
	d, err := c.DeadLetter(ctx, letters[0].ID)
	if err != nil || d.Version != letters[0].Version || d.TransactionID != first.ID || d.Transaction == nil || !bytes.Contains(d.Message.Body, []byte(`{"cents":5}`)) {
		t.Errorf("got %+v, %v", d, err)
	}
	if err := c.Replay(ctx, d.ID, d.Version+7, "stale"); !errors.As(err, &p) || p.Code != client.CodeStale {
		t.Errorf("got %v", err)
	}
	l.repaired.Store(true)
	if err := c.Replay(ctx, d.ID, d.Version, "repaired"); err != nil {
		t.Fatal(err)
	}
	tx, err := c.Wait(ctx, first.ID)
	if err != nil || tx.Status != saga.StatusCommitted || tx.Result != saga.ResultSucceeded || len(tx.Steps) != 1 || len(tx.Steps[0].Operations) != 2 {
		t.Fatalf("got %+v, %v", tx, err)
	}
	if attempts, err := c.Attempts(ctx, first.ID); err != nil || len(attempts) == 0 || attempts[0].Outcome != saga.OutcomeFault {
		t.Errorf("got %+v, %v", attempts, err)
	}
	if found, err := c.FindByRequest(ctx, first.RequestID); err != nil || found.ID != first.ID {
		t.Errorf("got %+v, %v", found, err)
	}
	if _, err := c.Cancel(ctx, first.ID, "too late"); !errors.As(err, &p) || p.Code != client.CodeNotCancellable || p.State != "committed" {
		t.Errorf("got %v", err)
	}
	later, err := c.Submit(ctx, client.Submission{Definition: def, StartAt: time.Now().Add(time.Hour)}, client.SubmitOptions{Wait: time.Second})
	if err != nil || later.Transaction == nil || later.Transaction.Result != saga.ResultAccepted {
		t.Fatalf("got %+v, %v", later, err)
	}
	if tx, err := c.Cancel(ctx, later.ID, "no more"); err != nil || tx.Status != saga.StatusCancelled || tx.Cause.Why != saga.WhyClient {
		t.Errorf("got %+v, %v", tx, err)
	}
	n := 0
	for tx, err := range c.All(ctx, client.Filter{Limit: 1}) {
		if n++; err != nil || tx.Definition.Name != "ill" {
			t.Fatalf("got %+v, %v", tx, err)
		}
	}
	if n != 2 {
		t.Errorf("%d transactions", n)
	}
}
