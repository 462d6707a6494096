package coordinator_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
)

func define(kind saga.Kind, steps int, options ...saga.StepOption) *saga.Definition {
	b := saga.Define("order")
	for i := range steps {
		name := fmt.Sprintf("s%d", i+1)
		switch kind {
		case saga.KindTCC:
			b.TCC(name, "stock", "reserve", options...)
		default:
			b.Saga(name, "stock", "reserve", options...)
		}
	}
	return b.MustBuild()
}

// quick makes attempts time out and retry fast.
var quick = []saga.StepOption{
	saga.AttemptTimeout(200 * time.Millisecond),
	saga.RetryBackoff(saga.StrategyExponential, 10*time.Millisecond, 100*time.Millisecond),
}

func refuse(step string) func(saga.Command) saga.Ran {
	return func(c saga.Command) saga.Ran {
		if c.Step == step && c.Phase == saga.PhaseTry {
			return saga.Ran{Outcome: saga.OutcomeRefused, Code: "no_stock", Reason: "sold out"}
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	}
}

func TestSagaCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	p, _ := w.participant("stock", nil)
	id := w.submit(c, define(saga.KindSaga, 3), "")
	v := w.wait(c, id)
	if v.Status != saga.StatusCommitted || v.Result != saga.ResultSucceeded {
		t.Fatalf("got %s", v.Status)
	}
	for _, step := range []string{"s1", "s2", "s3"} {
		p.expectEffects(id, step, 1, 0, saga.PhaseCancel)
	}
	w.until("the outbox is empty", func() bool { return w.count(`SELECT count(*) FROM outbox`) == 0 })
	if v.Version != 4 {
		t.Errorf("4 writes led to version %d (I-7)", v.Version)
	}
}

func TestTCCCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	p, _ := w.participant("stock", nil)
	id := w.submit(c, define(saga.KindTCC, 3, saga.Root()), "")
	if v := w.wait(c, id); v.Status != saga.StatusCommitted {
		t.Fatalf("got %s", v.Status)
	}
	for _, step := range []string{"s1", "s2", "s3"} {
		p.expectEffects(id, step, 1, 1, saga.PhaseConfirm)
	}
}

func TestRefusedIsCompensated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	p, _ := w.participant("stock", refuse("s3"))
	id := w.submit(c, define(saga.KindSaga, 3), "")
	v := w.wait(c, id)
	if v.Status != saga.StatusCancelled || v.Cause.Why != saga.WhyRefused || v.Cause.Code != "no_stock" || v.Cause.Step != "s3" {
		t.Fatalf("got %s, %+v", v.Status, v.Cause)
	}
	p.expectEffects(id, "s1", 1, 1, saga.PhaseCancel)
	p.expectEffects(id, "s2", 1, 1, saga.PhaseCancel)
	p.expectEffects(id, "s3", 0, 0, saga.PhaseCancel)
}

// A lost reply is unknown, never failed (U1): the same operation is sent again and takes no second effect.
func TestLostReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	p, _ := w.participant("stock", nil)
	p.drop = func(cmd saga.Command, _ saga.Reply) bool { return cmd.Attempt == 1 }
	id := w.submit(c, define(saga.KindTCC, 2, quick...), "")
	if v := w.wait(c, id); v.Status != saga.StatusCommitted {
		t.Fatalf("got %s, %+v", v.Status, v.Cause)
	}
	p.expectEffects(id, "s1", 1, 1, saga.PhaseConfirm)
	p.expectEffects(id, "s2", 1, 1, saga.PhaseConfirm)
	attempts, err := c.Attempts(w.ctx(5*time.Second), caller, id)
	lost := make(map[string]bool)
	for _, a := range attempts {
		lost[a.Step+"/"+string(a.Phase)] = a.Outcome == saga.OutcomeUnknown
	}
	if err != nil || len(lost) != 4 || slices.Contains(slices.Collect(maps.Values(lost)), false) {
		t.Errorf("attempts %+v, %v; want an unknown one of each operation", attempts, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := map[string]saga.Command{}
	for _, cmd := range p.seen {
		key := cmd.Key().String()
		if before, again := first[key]; again && !bytes.Equal(before.Body, cmd.Body) {
			t.Errorf("%s: attempt %d has other bytes (S1.4)", key, cmd.Attempt)
		}
		first[key] = cmd
	}
}

func TestParticipantDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	p, stop := w.participant("stock", nil)
	stop()
	id := w.submit(c, define(saga.KindSaga, 2, quick...), "")
	w.until("two attempts timed out", func() bool {
		return w.count(`SELECT count(*) FROM attempts WHERE outcome = 'unknown'`) >= 2
	})
	p.start()
	if v := w.wait(c, id); v.Status != saga.StatusCommitted {
		t.Fatalf("got %s, %+v", v.Status, v.Cause)
	}
	p.expectEffects(id, "s1", 1, 0, saga.PhaseCancel)
}

func TestDeadlineCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	def := saga.Define("order").Saga("s1", "nobody", "reserve", quick...).Timeout(time.Second).MustBuild()
	id := w.submit(c, def, "")
	w.until("it is cancelling", func() bool {
		v, err := c.Get(w.ctx(5*time.Second), caller, id)
		return err == nil && v.Status == saga.StatusCancelling && v.Cause.Why == saga.WhyDeadline
	})
	v, err := c.Get(w.ctx(5*time.Second), caller, id)
	if err != nil {
		t.Fatal(err)
	}
	if late := v.DecidedAt.Sub(v.Deadline); late < 0 || late > 20*time.Second {
		t.Errorf("decided %s after the deadline", late)
	}
}

func TestClientCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	p, stop := w.participant("stock", nil)
	stop()
	id := w.submit(c, define(saga.KindSaga, 2, quick...), "")
	v, err := c.Cancel(w.ctx(5*time.Second), caller, id, "changed my mind")
	if err != nil || v.Status != saga.StatusCancelling {
		t.Fatalf("got %s, %v", v.Status, err)
	}
	p.start()
	if v := w.wait(c, id); v.Status != saga.StatusCancelled || v.Cause.Why != saga.WhyClient {
		t.Fatalf("got %s, %+v", v.Status, v.Cause)
	}
	if _, err := c.Cancel(w.ctx(5*time.Second), caller, id, "again"); err != nil {
		t.Errorf("a repeated cancel: %v (S2.9)", err)
	}
	done := w.submit(c, define(saga.KindSaga, 1), "")
	w.wait(c, done)
	var state *saga.StateError
	if _, err := c.Cancel(w.ctx(5*time.Second), caller, done, ""); !errors.As(err, &state) || state.Code != saga.CodeNotCancellable {
		t.Errorf("cancel of a committed transaction: %v", err)
	}
}

// Panics end as a dead letter; a replay sends the same operation, and only once (D1, D2).
func TestPanicDeadLetterReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	var mu sync.Mutex
	broken := true
	p, _ := w.participant("stock", func(cmd saga.Command) saga.Ran {
		mu.Lock()
		defer mu.Unlock()
		if broken && cmd.Step == "s2" {
			return saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodePanic, Reason: "panic: nil map"}
		}
		return saga.Ran{Outcome: saga.OutcomeDone}
	})
	again := saga.RetryBackoff(saga.StrategyExponential, 10*time.Millisecond, 100*time.Millisecond) // each attempt has the time it needs
	id := w.submit(c, define(saga.KindSaga, 2, again, saga.Attempts(3)), "")
	var letters []dlq.DeadLetter
	w.until("a dead letter is open", func() bool {
		var err error
		letters, err = c.Admin().DeadLetters(w.ctx(5*time.Second), dlq.Filter{Status: saga.DeadLetterOpen})
		return err == nil && len(letters) == 1
	})
	l := letters[0]
	if l.Cause != saga.DeadLetterPanic || l.TransactionID != id || l.Step != "s2" || l.Attempt != 3 || len(l.Message.Data) == 0 {
		t.Errorf("dead letter %+v", l)
	}
	if v, _ := c.Get(w.ctx(5*time.Second), caller, id); !v.Suspended || v.Result != saga.ResultUnknown || v.Status != saga.StatusRunning {
		t.Errorf("got %s, suspended %v, result %s", v.Status, v.Suspended, v.Result)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	if err := c.Admin().Replay(w.ctx(5*time.Second), coordinator.LetterParams{Actor: "ann", DeadLetter: l.ID, Version: l.Version, Reason: "fixed"}); err != nil {
		t.Fatal(err)
	}
	second := c.Admin().Replay(w.ctx(5*time.Second), coordinator.LetterParams{Actor: "bob", DeadLetter: l.ID, Reason: "me too"})
	var state *saga.StateError
	if !errors.As(second, &state) {
		t.Errorf("a second click: %v", second)
	}
	if v := w.wait(c, id); v.Status != saga.StatusCommitted {
		t.Fatalf("got %s", v.Status)
	}
	p.expectEffects(id, "s2", 1, 0, saga.PhaseCancel)
	d, err := c.Admin().DeadLetter(w.ctx(5*time.Second), l.ID)
	if err != nil || d.Status != saga.DeadLetterClosed || len(d.Attempts) != 3 || len(d.Audit) != 2 {
		t.Errorf("dead letter %+v, %v", d, err)
	}
}

// Equal keys with equal content are one transaction and one answer; other content is refused (I2, I3, X3).
func TestRequestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c1, _ := w.coordinator()
	c2, _ := w.coordinator()
	w.participant("stock", nil)
	const clients = 64
	answers := make([][]byte, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := []*coordinator.Coordinator{c1, c2}[i%2]
			s, err := c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "k-1", Body: body(define(saga.KindSaga, 2))})
			if err != nil {
				t.Error(err)
			}
			answers[i] = s.Answer
		})
	}
	wg.Wait()
	for _, a := range answers {
		if !bytes.Equal(a, answers[0]) {
			t.Fatalf("answers differ: %s, %s", a, answers[0])
		}
	}
	if n := w.count(`SELECT count(*) FROM transactions`); n != 1 {
		t.Errorf("%d transactions", n)
	}
	_, err := c1.Submit(w.ctx(5*time.Second), coordinator.SubmitParams{Caller: caller, RequestID: "k-1", Body: body(define(saga.KindSaga, 3))})
	if !errors.Is(err, coordinator.ErrKeyReused) {
		t.Errorf("other content: %v", err)
	}
	v, err := c2.FindByRequest(w.ctx(5*time.Second), caller, "k-1")
	if err != nil || v.RequestID != "k-1" {
		t.Errorf("found %+v, %v", v, err)
	}
	other := coordinator.Caller{Tenant: caller.Tenant, Client: "other"}
	if _, err := c2.Get(w.ctx(5*time.Second), other, v.ID); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("another client reads it: %v (I-14)", err)
	}
}

// Two coordinators with their own caches share every transaction; each event is merged once (C9, P10).
func TestTwoCoordinators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c1, _ := w.coordinator()
	c2, _ := w.coordinator()
	rnd := random(t)
	lossy := func() bool { return rnd.IntN(10) == 0 }
	p, _ := w.participant("stock", nil)
	p.drop = func(saga.Command, saga.Reply) bool { return lossy() }
	const n = 200
	list := make([]saga.ID, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := []*coordinator.Coordinator{c1, c2}[i%2]
			list[i] = w.submit(c, define(saga.KindTCC, 3, quick...), "")
			if v := w.wait(c, list[i]); v.Status != saga.StatusCommitted {
				t.Errorf("got %s, %+v", v.Status, v.Cause)
			}
		})
	}
	wg.Wait()
	for _, id := range list {
		for _, step := range []string{"s1", "s2", "s3"} {
			p.expectEffects(id, step, 1, 1, saga.PhaseConfirm)
		}
	}
	if n := w.count(`SELECT count(*) FROM incidents`); n != 0 {
		t.Errorf("%d incidents", n)
	}
	if n := w.count(`SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// A coordinator that stops leaves nothing behind that another cannot go on with (M1).
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, stop := w.coordinator()
	p, _ := w.participant("stock", nil)
	var list []saga.ID
	for range 50 {
		list = append(list, w.submit(c, define(saga.KindSaga, 3, quick...), ""))
	}
	stop()
	c, _ = w.coordinator()
	for _, id := range list {
		if v := w.wait(c, id); v.Status != saga.StatusCommitted {
			t.Errorf("got %s, %+v", v.Status, v.Cause)
		}
		p.expectEffects(id, "s3", 1, 0, saga.PhaseCancel)
	}
}

// What nobody understands is kept with its exact bytes, and nothing waits behind it (C5).
func TestUndecodableReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	w.participant("stock", nil)
	garbage := []byte("\x00\xffnot a reply")
	if err := w.nc.Publish(w.prefix+".reply.stock.3", garbage); err != nil {
		t.Fatal(err)
	}
	if v := w.wait(c, w.submit(c, define(saga.KindSaga, 2), "")); v.Status != saga.StatusCommitted {
		t.Fatalf("got %s", v.Status)
	}
	w.until("it is set aside", func() bool {
		letters, err := c.Admin().DeadLetters(w.ctx(5*time.Second), dlq.Filter{})
		return err == nil && len(letters) == 1 && letters[0].Kind == dlq.KindMessage && bytes.Equal(letters[0].Message.Data, garbage)
	})
}
