package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func oneLane(cfg *coordinator.Config) { cfg.Lanes = 1 }

// publish sends a message and returns when JetStream has it.
func (w *world) publish(m wire.Message) {
	w.t.Helper()
	if w.sender == nil {
		w.sender = w.bus()
	}
	answer := make(chan error, 1)
	w.sender.Publish(w.ctx(10*time.Second), []bus.Message{m}, func(_ int, err error) { answer <- err })
	if err := <-answer; err != nil {
		w.t.Fatal(err)
	}
}

// publishReply sends a reply as a participant would.
func (w *world) publishReply(r saga.Reply) wire.Message {
	w.t.Helper()
	m, err := wire.EncodeReply(r, wire.ReplySubject(w.prefix, r.Participant, 0))
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(m)
	return m
}

func (w *world) letters(c *coordinator.Coordinator, f dlq.Filter) []dlq.DeadLetter {
	w.t.Helper()
	list, err := c.Admin().DeadLetters(w.ctx(10*time.Second), f)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// Whatever text participants send is stored clean, and the transaction goes on.
func TestTextOfReplies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	texts := []string{"nul \x00 nul", "bad \xff\xc3 utf8", strings.Repeat("ä\x00", 1024), "\x00", "\xed\xa0\x80", "line\nbreak\x1b[31m"}
	for i, text := range texts {
		for _, outcome := range []saga.Outcome{saga.OutcomeRetry, saga.OutcomeRefused, saga.OutcomeFault, saga.OutcomeUnknown} {
			id := w.submit(c, define(saga.KindSaga, 1), "")
			r := done(id, "s1", saga.PhaseTry)
			r.Outcome, r.Code, r.Reason, r.Result = outcome, text, text, saga.Payload{}
			w.publishReply(r)
			w.until(fmt.Sprintf("text %d, %s is merged", i, outcome), func() bool { return w.get(c, id).Steps[0].Operations[0].LastOutcome == outcome })
			op := w.get(c, id).Steps[0].Operations[0]
			for _, s := range []string{op.LastCode, op.LastReason, w.get(c, id).Cause.Reason} {
				if !utf8.ValidString(s) || strings.Contains(s, "\x00") || len(s) > saga.ReasonBytesMax {
					t.Errorf("text %d, %s: stored %.40q", i, outcome, s)
				}
			}
		}
	}
	if n := w.count(`SELECT count(*) FROM incidents`); n != 0 {
		t.Errorf("%d incidents", n)
	}
}

// Replies that belong to nothing become incidents with their exact bytes, are acknowledged, and others go on
// (S2.10).
func TestOrphanReplies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(oneLane, noTimers)
	id := w.submit(c, define(saga.KindSaga, 2), "")
	spoofed := func(change func(*saga.Reply)) saga.Reply {
		r := done(id, "s1", saga.PhaseTry)
		r.Attempt = 9 // with the true reply's attempt NATS would take the true one for a copy
		change(&r)
		return r
	}
	orphans := map[string]saga.Reply{
		"no such transaction":     done(newID(t), "s1", saga.PhaseTry),
		"no such step":            done(id, "s9", saga.PhaseTry),
		"no such phase":           done(id, "s1", saga.PhaseConfirm),
		"never sent":              done(id, "s2", saga.PhaseTry),
		"another's step":          spoofed(func(r *saga.Reply) { r.Participant = "mallory" }),
		"another tenant's":        spoofed(func(r *saga.Reply) { r.Tenant = "other" }),
		"attempt never sent":      spoofed(func(r *saga.Reply) { r.Attempt, r.Outcome, r.Result = 7, saga.OutcomeRetry, saga.Payload{} }),
		"a cancel nobody sent":    done(id, "s1", saga.PhaseCancel),
		"cancelled by nobody":     spoofed(func(r *saga.Reply) { r.Outcome, r.Result = saga.OutcomeHanging, saga.Payload{} }),
		"unknown, phase and step": done(newID(t), "s9", saga.PhaseCancel),
	}
	filed := 0
	for what, r := range orphans {
		m := w.publishReply(r)
		filed++
		w.until(what+" is an incident", func() bool { return w.count(`SELECT count(*) FROM incidents`) == filed })
		if n := w.count(`SELECT count(*) FROM incidents WHERE transaction_id = $1 AND tenant = $2 AND step = $3 AND phase = $4 AND body = $5`,
			r.Transaction.String(), r.Tenant, r.Step, string(r.Phase), append([]byte{}, m.Data...)); n == 0 {
			t.Errorf("%s: the incident is another's", what)
		}
	}
	if v := w.get(c, id); v.Version != 1 || v.Status != saga.StatusRunning {
		t.Errorf("they changed the transaction: %s at version %d", v.Status, v.Version)
	}
	w.publishReply(done(id, "s1", saga.PhaseTry))
	w.until("the true reply is merged", func() bool { return w.get(c, id).Version == 2 })
	w.until("all are acknowledged", func() bool { return w.stored(bus.Replies) == 0 })
	if n := w.count(`SELECT count(*) FROM incidents`); n != len(orphans) {
		t.Errorf("%d incidents of %d replies", n, len(orphans))
	}
}

// A reply that cannot be read, but says which attempt it answers, sets its operation aside at once: sending that again
// would bring the same. Both the operation and the exact bytes of the message are dead letters (C5), and a replay ends it.
func TestUndecodableReplyOfAnOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	id := w.submit(c, define(saga.KindSaga, 1), "")
	m, err := wire.EncodeReply(done(id, "s1", saga.PhaseTry), wire.ReplySubject(w.prefix, "stock", 0))
	if err != nil {
		t.Fatal(err)
	}
	m.Data = []byte(`{"cut":`)
	w.publish(m)
	w.until("the operation and the message are dead letters", func() bool { return len(w.letters(c, dlq.Filter{})) == 2 })
	for _, letter := range w.letters(c, dlq.Filter{}) {
		switch {
		case letter.Cause != saga.FaultUndecodable:
			t.Errorf("a dead letter %s", letter.Cause)
		case letter.Kind == dlq.KindMessage && !bytes.Equal(letter.Message.Data, m.Data):
			t.Errorf("the message was kept as %q", letter.Message.Data)
		case letter.Kind == dlq.KindOperation:
			if err := c.Admin().Replay(w.ctx(10*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, Reason: "mended"}); err != nil {
				t.Fatal(err)
			}
			w.participant("stock", nil)
		}
	}
	if v := w.wait(c, id); v.Status != saga.StatusCommitted {
		t.Errorf("it ended %s", v.Status)
	}
	w.until("the reply is off the stream", func() bool { return w.stored(bus.Replies) == 0 })
}

// stored returns how many messages a stream has.
func (w *world) stored(s bus.Stream) int {
	w.t.Helper()
	n, err := w.sender.Messages(w.ctx(10*time.Second), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// unstorable is a reply that the wire lets pass and PostgreSQL refuses, once refuseUnstorable has seen to it.
func unstorable(id saga.ID, step string) saga.Reply {
	r := done(id, step, saga.PhaseTry)
	r.Result = saga.Payload{Data: []byte(`"unstorable"`)}
	return r
}

func (w *world) refuseUnstorable() {
	w.t.Helper()
	_, err := w.pool.Exec(w.ctx(10*time.Second), `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''unstorable'' USING ERRCODE = ''22000''; END';
		CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON operations FOR EACH ROW
			WHEN (convert_from(NEW.result, 'UTF8') = '"unstorable"') EXECUTE FUNCTION refuse()`)
	if err != nil {
		w.t.Fatal(err)
	}
}

// One event that PostgreSQL refuses fails a whole batch; only that event is set aside, with its exact bytes, and
// everything else of the batch is merged, of the same transaction too (C5).
func TestIsolation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recordVersions()
	w.refuseUnstorable()
	c, _ := w.coordinator(oneLane, noTimers)
	first := w.submit(c, define(saga.KindSaga, 1), "")
	const n = 30
	var list []saga.ID
	for range n {
		list = append(list, w.submit(c, define(saga.KindSaga, 2, saga.Root()), ""))
	}
	release := w.hold(`LOCK TABLE transactions IN EXCLUSIVE MODE`)
	w.publishReply(done(first, "s1", saga.PhaseTry)) // the lane waits with this one
	w.untilBlocked(1)
	bad := list[n/2]
	var poison wire.Message
	for _, id := range list {
		w.publishReply(done(id, "s1", saga.PhaseTry))
		if id == bad {
			poison = w.publishReply(unstorable(id, "s2"))
			continue
		}
		w.publishReply(done(id, "s2", saga.PhaseTry))
	}
	w.until("the batch has gathered", func() bool { return c.Queued() == 2*n })
	release()
	for _, id := range list {
		if id != bad {
			if v := w.wait(c, id); v.Status != saga.StatusCommitted {
				t.Errorf("got %s", v.Status)
			}
		}
	}
	w.until("it is set aside", func() bool { return len(w.letters(c, dlq.Filter{})) > 0 })
	letters := w.letters(c, dlq.Filter{})
	if len(letters) != 1 || letters[0].Kind != dlq.KindMessage || !bytes.Equal(letters[0].Message.Data, poison.Data) || letters[0].Participant != "stock" {
		t.Errorf("set aside: %+v", letters)
	}
	if v := w.get(c, bad); v.Steps[0].Operations[0].State != saga.OperationDone || v.Version != 2 {
		t.Errorf("the other reply of its batch: %s, version %d", v.Steps[0].Operations[0].State, v.Version)
	}
	if err := c.Deliver(w.ctx(10*time.Second), done(bad, "s2", saga.PhaseTry)); err != nil { // mended
		t.Fatal(err)
	}
	if v := w.wait(c, bad); v.Status != saga.StatusCommitted {
		t.Errorf("got %s", v.Status)
	}
	w.until("all are acknowledged", func() bool { return w.stored(bus.Replies) == 0 })
}

// A transaction whose rows cannot be read any more does not hold up its lane.
func TestUnreadableTransaction(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]string{
		"its definition is gone":            `DELETE FROM definitions WHERE name = 'broken'`,
		"its definition is damaged":         `UPDATE definitions SET body = '{' WHERE name = 'broken'`,
		"its submission is damaged":         `UPDATE submissions SET body = 'x' WHERE transaction_id = (SELECT id FROM transactions WHERE definition_name = 'broken')`,
		"it has a step of nobody's":         `UPDATE operations SET step = 'gone' WHERE transaction_id = (SELECT id FROM transactions WHERE definition_name = 'broken')`,
		"its dead letter is not what it is": ``,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before, stop := w.coordinator(noTimers)
			broken := w.submit(before, saga.Define("broken").Saga("s1", "stock", "reserve").MustBuild(), "")
			healthy := w.submit(before, define(saga.KindSaga, 1), "")
			if err := before.Deliver(w.ctx(10*time.Second), fault(done(broken, "s1", saga.PhaseTry), saga.FaultHandler)); err != nil {
				t.Fatal(err)
			}
			stop()
			c, _ := w.coordinator(oneLane, noTimers)
			letter := w.letters(c, dlq.Filter{})[0]
			if damage == "" {
				damage = `UPDATE dead_letters SET status = 'closed'`
			}
			if _, err := w.pool.Exec(w.ctx(10*time.Second), damage); err != nil {
				t.Fatal(err)
			}
			err := c.Admin().Replay(w.ctx(15*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: letter.ID, Reason: "try"})
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("replay: %v", err)
			}
			if err := c.Deliver(w.ctx(15*time.Second), done(healthy, "s1", saga.PhaseTry)); err != nil {
				t.Fatalf("the lane is blocked: %v", err)
			}
		})
	}
}

// Submissions over NATS follow the rules of the door: once per request id, and what cannot be a transaction is
// set aside with its exact bytes and does not come again.
func TestSubmissionsOverNATS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	submission := func(data []byte, requestID string, more ...string) wire.Message {
		m := wire.Message{Subject: w.prefix + ".submit." + caller.Tenant, Data: data, Header: wire.Header{}}
		if requestID != "" {
			m.Header["Saga-Request-Id"] = []string{requestID}
		}
		for i := 0; i < len(more); i += 2 {
			m.Header[more[i]] = []string{more[i+1]}
		}
		return m
	}
	good := body(define(saga.KindSaga, 1))
	for range 3 {
		w.publish(submission(good, "over-nats"))
	}
	client := coordinator.Caller{Tenant: caller.Tenant, Client: "nats"}
	w.until("it has ended", func() bool {
		v, err := c.FindByRequest(w.ctx(10*time.Second), client, "over-nats")
		return err == nil && v.Status == saga.StatusCommitted
	})
	bad := [][]byte{[]byte("\x00{"), []byte(`{}`), {}, body(define(saga.KindSaga, 2))}
	for i, data := range bad {
		w.publish(submission(data, []string{"", "", "", "over-nats"}[i]))
	}
	w.until("the bad ones are set aside", func() bool { return len(w.letters(c, dlq.Filter{})) == len(bad) })
	for _, l := range w.letters(c, dlq.Filter{}) {
		found := false
		for _, data := range bad {
			found = found || bytes.Equal(l.Message.Data, data)
		}
		if !found || l.Kind != dlq.KindMessage {
			t.Errorf("set aside %q, %s", l.Message.Data, l.Kind)
		}
	}
	// Tracing must never stop a transaction, whatever the headers hold.
	w.publish(submission(good, "traced", "traceparent", "\xff\xfe", "tracestate", strings.Repeat("x", 5000)))
	w.until("the traced one has ended", func() bool {
		v, err := c.FindByRequest(w.ctx(10*time.Second), client, "traced")
		return err == nil && v.Status == saga.StatusCommitted
	})
	w.until("all are acknowledged", func() bool { return w.stored(bus.Submissions) == 0 })
	if n := w.count(`SELECT count(*) FROM transactions`); n != 2 {
		t.Errorf("%d transactions", n)
	}
}

// The same trouble at the other door.
func TestTraceHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	for i, trace := range []string{"\x00", "\xff", strings.Repeat("ü", 3000), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		s, err := c.Submit(w.ctx(10*time.Second), coordinator.SubmitParams{
			Caller: caller, RequestID: fmt.Sprint("t", i), Body: body(define(saga.KindSaga, 1)), Traceparent: trace, Tracestate: trace,
		})
		if err != nil {
			t.Errorf("trace %.20q: %v", trace, err)
			continue
		}
		if v := w.wait(c, s.ID); v.Status != saga.StatusCommitted {
			t.Errorf("trace %.20q: %s", trace, v.Status)
		}
	}
}
