package e2e

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// queryer is a pool.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// heard are the commands of the participant as they were sent, by transaction.
type heard struct {
	mu   sync.Mutex
	sent map[string][]*nats.Msg
}

// listen hears every command that is sent from now on, beside JetStream.
func listen(t *testing.T, w *world) *heard {
	t.Helper()
	nc, err := nats.Connect(w.cluster.NATSURL(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	h := &heard{sent: make(map[string][]*nats.Msg)}
	_, err = nc.Subscribe(wire.CommandSubject(bus.DefaultPrefix, worksName), func(m *nats.Msg) {
		h.mu.Lock()
		defer h.mu.Unlock()
		id := m.Header.Get(wire.HeaderTransaction)
		h.sent[id] = append(h.sent[id], m)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return h
}

// attempt returns a command as it was sent.
func (h *heard) attempt(id saga.ID, n int) *nats.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.sent[id.String()] {
		if m.Header.Get(wire.HeaderAttempt) == fmt.Sprint(n) {
			return m
		}
	}
	return nil
}

// checkPoison compares a dead letter with what was submitted and with what was sent.
func checkPoison(t *testing.T, w *world, h *heard, id saga.ID, p poisoned) {
	t.Helper()
	page, err := w.client.DeadLetters(t.Context(), client.DeadLetterFilter{Transaction: id})
	if err != nil || len(page.DeadLetters) != 1 {
		t.Errorf("%s: %d dead letters, want 1: %v", p.requestID, len(page.DeadLetters), err)
		return
	}
	letter, err := w.client.DeadLetter(t.Context(), page.DeadLetters[0].ID)
	if err != nil {
		t.Error(err)
		return
	}
	if letter.Status != saga.DeadLetterOpen || letter.Outcome != saga.OutcomeFault || letter.Cause != p.code || letter.Phase != saga.PhaseTry {
		t.Errorf("%s: the dead letter is %s, %s of the %s because of %s; want an open fault %s of the try",
			p.requestID, letter.Status, letter.Outcome, letter.Phase, letter.Cause, p.code)
	}
	if want := fmt.Sprintf(`{"input":%s}`, p.input); string(letter.Message.Body) != want {
		t.Errorf("%s: the dead letter holds %q, want %q", p.requestID, letter.Message.Body, want)
	}
	sent := h.attempt(id, letter.Attempt)
	if sent == nil {
		t.Errorf("%s: the dead letter is of attempt %d, which nobody heard", p.requestID, letter.Attempt)
		return
	}
	// The floor is what the coordinator knows when it makes a message (B7): it belongs to the sending, and a dead
	// letter has that of its burial.
	delete(letter.Message.Headers, wire.HeaderFloor)
	sent.Header.Del(wire.HeaderFloor)
	if !bytes.Equal(letter.Message.Body, sent.Data) || letter.Message.Subject != sent.Subject || !reflect.DeepEqual(letter.Message.Headers, map[string][]string(sent.Header)) {
		t.Errorf("%s: the dead letter holds\n%s %v %q\nand what was sent is\n%s %v %q", p.requestID,
			letter.Message.Subject, letter.Message.Headers, letter.Message.Body, sent.Subject, sent.Header, sent.Data)
	}
	t.Logf("%s: dead letter %s after attempt %d: %s", p.requestID, letter.Cause, letter.Attempt, letter.Reason)
}
