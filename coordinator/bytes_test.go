package coordinator_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Payloads are opaque: what is unusual in them arrives byte for byte, in both directions (S1.6). What is unusual
// in texts of participants ends neither the reply nor the transaction.
func TestUnusualBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	const value = "{ \"n\":12345678901234567890.5e-3, \"n\":2,\r\n\t\"nul\":\"\\u0000\", \"crlf\":\"\\r\\n\", \"bidi\":\"\u202e\" }"
	p, _ := w.participant("stock", func(cmd saga.Command) saga.Ran {
		if cmd.Step == "s2" {
			return saga.Ran{Outcome: saga.OutcomeRefused, Code: "no\r\n", Reason: "a\x00b\xff\r\nSaga-Outcome: done"}
		}
		return saga.Ran{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: []byte(value)}}
	})
	body := []byte(`{"definition":` + string(define(saga.KindSaga, 2).JSON()) + `,"input":` + value + `}`)
	s, err := c.Submit(w.ctx(10*time.Second), coordinator.SubmitParams{Caller: caller, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	v := w.wait(c, s.ID)
	if v.Status != saga.StatusCancelled || v.Cause.Why != saga.WhyRefused || strings.Contains(v.Cause.Reason, "\x00") || !utf8.ValidString(v.Cause.Reason) {
		t.Errorf("got %s, %+q", v.Status, v.Cause)
	}
	if got := string(v.Steps[0].Operations[0].Result.Data); got != value {
		t.Errorf("the result came back as %q", got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cmd := range p.seen {
		b, err := wire.ParseBody(cmd.Phase, cmd.Body)
		if err != nil || string(b.Input.Data) != value {
			t.Errorf("%s/%s: input %q, %v", cmd.Step, cmd.Phase, b.Input.Data, err)
		}
		if cmd.Phase == saga.PhaseCancel && string(b.Try.Data) != value {
			t.Errorf("%s/%s: result %q", cmd.Step, cmd.Phase, b.Try.Data)
		}
	}
}
