package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

// A repetition gets its first answer also when its deadline has passed or its own id has grown old (I2).
func TestRepetitionAfterItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	soon := bodyWith(define(saga.KindSaga, 1), map[string]any{"deadline": time.Now().Add(time.Second)})
	p := coordinator.SubmitParams{Caller: caller, RequestID: "k", Body: soon}
	first, err := c.Submit(w.ctx(10*time.Second), p)
	if err != nil {
		t.Fatal(err)
	}
	w.until("the deadline has passed", func() bool {
		return w.count(`SELECT count(*) FROM transactions WHERE deadline < clock_timestamp()`) == 1
	})
	again, err := c.Submit(w.ctx(10*time.Second), p)
	if err != nil || !again.Replayed || !bytes.Equal(first.Answer, again.Answer) {
		t.Errorf("a repetition after the deadline: %+v, %v", again, err)
	}
	if _, v, err := c.SubmitAndWait(w.ctx(10*time.Second), w.ctx(10*time.Second), p); err != nil || v.ID != first.ID {
		t.Errorf("waiting for it: %v, %v", v.ID, err)
	}
	other := p
	other.Body = append(bytes.Clone(soon), ' ')
	if _, err := c.Submit(w.ctx(10*time.Second), other); !errors.Is(err, coordinator.ErrKeyReused) {
		t.Errorf("other content after the deadline: %v", err)
	}
	p.RequestID = "fresh"
	var invalid *saga.InvalidError
	if _, err := c.Submit(w.ctx(10*time.Second), p); !errors.As(err, &invalid) {
		t.Errorf("a new key after the deadline: %v", err)
	}
}

// With an id of the client's own the same rules hold: same key and content, one answer; same key and other
// content, refused; another key, the id is taken.
func TestOwnIDsWithKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	id := newID(t)
	own := bodyWith(define(saga.KindSaga, 1), map[string]any{"id": id})
	submit := func(key string, body []byte) (coordinator.Submitted, error) {
		return c.Submit(w.ctx(10*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: key, Body: body})
	}
	if s, err := submit("k", own); err != nil || s.ID != id || s.Replayed {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err := submit("k", own); err != nil || s.ID != id || !s.Replayed {
		t.Errorf("a repetition: %+v, %v", s, err)
	}
	if _, err := submit("k", append(bytes.Clone(own), ' ')); !errors.Is(err, coordinator.ErrKeyReused) {
		t.Errorf("other content: %v", err)
	}
	if _, err := submit("k2", own); !errors.Is(err, coordinator.ErrIDTaken) {
		t.Errorf("another key: %v", err)
	}
}

// An operator's click names the version that the operator saw: after a replay that failed, the old page is stale (D2).
func TestStaleClick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", func(saga.Command) saga.Ran {
		return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultHandler, Reason: "no"}
	})
	w.submit(c, define(saga.KindSaga, 1), "")
	open := func(version int64) (l dlq.DeadLetter) {
		w.until("a dead letter is open", func() bool {
			letters, err := c.Admin().DeadLetters(w.ctx(5*time.Second), dlq.Filter{Status: saga.DeadLetterOpen})
			if err != nil || len(letters) != 1 || letters[0].Version <= version {
				return false
			}
			l = letters[0]
			return true
		})
		return l
	}
	seen := open(0)
	click := coordinator.LetterParams{Actor: "ann", DeadLetter: seen.ID, Version: seen.Version, Reason: "again"}
	if err := c.Admin().Replay(w.ctx(5*time.Second), click); err != nil {
		t.Fatal(err)
	}
	open(seen.Version)
	if err := c.Admin().Replay(w.ctx(5*time.Second), click); !errors.Is(err, coordinator.ErrStale) {
		t.Errorf("a click on the old page: %v", err)
	}
}

// Waiting is no promise: when the time is over the transaction is shown as it is then.
func TestWaitIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	id := w.submit(c, define(saga.KindSaga, 1), "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if v, err := c.Wait(ctx, caller, id); err != nil || v.Status != saga.StatusRunning {
		t.Errorf("got %s, %v", v.Status, err)
	}
}
