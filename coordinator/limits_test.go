package coordinator_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Every limit holds exactly, and what is one past it is refused with its name (S1.4, S1.7).
func TestLimitsOfSubmissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	name := func(n int) string { return strings.Repeat("n", n) }
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	one := define(saga.KindSaga, 1)
	definition := func(steps string) []byte {
		return []byte(`{"definition":{"name":"order","steps":[` + steps + `]},"input":{}}`)
	}
	step := func(name, participant, action, more string) string {
		return fmt.Sprintf(`{"name":%q,"kind":"saga","participant":%q,"action":%q%s}`, name, participant, action, more)
	}
	steps := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = step(fmt.Sprint("s", i), "stock", "reserve", "")
		}
		return strings.Join(list, ",")
	}
	after := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"s%d"`, i)
		}
		return steps(n) + "," + step("last", "stock", "reserve", `,"after":[`+strings.Join(names, ",")+`]`)
	}
	padded := func(n int) []byte {
		b := body(one)
		return append(b, bytes.Repeat([]byte(" "), n-len(b))...)
	}
	idAt := func(d time.Duration) []byte {
		id := newID(t)
		ms := c.Now().Add(d).UnixMilli()
		for i := 5; i >= 0; i-- {
			id[i] = byte(ms)
			ms >>= 8
		}
		return bodyWith(one, map[string]any{"id": id})
	}
	with := func(member, value string) []byte {
		return []byte(`{"definition":` + string(one.JSON()) + `,"` + member + `":` + value + `}`)
	}
	base64Of := func(n int) string {
		return `{"s1":{"type":"application/octet-stream","data":"` + base64.StdEncoding.EncodeToString(make([]byte, n)) + `"}}`
	}
	instant := func(d time.Duration) string { return `"` + c.Now().Add(d).Format(time.RFC3339Nano) + `"` }
	const slack = time.Minute // the test itself takes some of it
	for what, tc := range map[string]struct{ at, past coordinator.SubmitParams }{
		"input":         {sub(with("input", text(saga.InputBytesMax))), sub(with("input", text(saga.InputBytesMax+1)))},
		"own input":     {sub(with("inputs", `{"s1":`+text(saga.InputBytesMax)+`}`)), sub(with("inputs", `{"s1":`+text(saga.InputBytesMax+1)+`}`))},
		"base64 input":  {sub(with("inputs_base64", base64Of(saga.InputBytesMax))), sub(with("inputs_base64", base64Of(saga.InputBytesMax+1)))},
		"submission":    {sub(padded(saga.SubmissionBytesMax)), sub(padded(saga.SubmissionBytesMax + 1))},
		"steps":         {sub(definition(steps(saga.StepsMax))), sub(definition(steps(saga.StepsMax + 1)))},
		"after":         {sub(definition(after(saga.AfterMax))), sub(definition(after(saga.AfterMax + 1)))},
		"step":          {sub(definition(step(name(64), "stock", "a", ""))), sub(definition(step(name(65), "stock", "a", "")))},
		"participant":   {sub(definition(step("s", name(64), "a", ""))), sub(definition(step("s", name(65), "a", "")))},
		"action":        {sub(definition(step("s", "stock", name(64), ""))), sub(definition(step("s", "stock", name(65), "")))},
		"request id":    {key(one, name(saga.RequestIDBytesMax)), key(one, name(saga.RequestIDBytesMax+1))},
		"an old id":     {sub(idAt(-5*time.Minute + slack)), sub(idAt(-5*time.Minute - slack))},
		"a new id":      {sub(idAt(5*time.Minute - slack)), sub(idAt(5*time.Minute + slack))},
		"old start":     {sub(with("start_at", instant(-saga.StartDelayMax+slack))), sub(with("start_at", instant(-saga.StartDelayMax-slack)))},
		"start":         {sub(with("start_at", instant(saga.StartDelayMax-slack))), sub(with("start_at", instant(saga.StartDelayMax+slack)))},
		"deadline":      {sub(with("deadline", instant(saga.TimeoutMax-slack))), sub(with("deadline", instant(saga.TimeoutMax+slack)))},
		"past deadline": {sub(with("deadline", instant(slack))), sub(with("deadline", instant(-slack)))},
		"timeout":       {sub(with("timeout", `"`+saga.TimeoutMax.String()+`"`)), sub(with("timeout", `"`+(saga.TimeoutMax+1).String()+`"`))},
		"short timeout": {sub(with("timeout", `"`+saga.TimeoutMin.String()+`"`)), sub(with("timeout", `"`+(saga.TimeoutMin-1).String()+`"`))},
	} {
		if _, err := c.Submit(w.ctx(20*time.Second), tc.at); err != nil {
			t.Errorf("%s at the limit: %v", what, err)
		}
		before := w.count(`SELECT count(*) FROM transactions`)
		_, err := c.Submit(w.ctx(20*time.Second), tc.past)
		var invalid *saga.InvalidError
		if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Fix == "" {
			t.Errorf("%s past the limit: %v", what, err)
		}
		if after := w.count(`SELECT count(*) FROM transactions`); after != before {
			t.Errorf("%s past the limit was stored", what)
		}
	}
}

func sub(body []byte) coordinator.SubmitParams {
	return coordinator.SubmitParams{Caller: caller, Body: body}
}

func key(def *saga.Definition, id string) coordinator.SubmitParams {
	return coordinator.SubmitParams{Caller: caller, RequestID: id, Body: body(def)}
}

// The largest transaction that is accepted runs: names of 64 bytes, eight predecessors with the largest results
// in base64, the largest input. Every later command fits a message and arrives byte for byte (S1.4, S1.6).
func TestLargestCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	who := strings.Repeat("p", saga.NameBytesMax)
	stepName := func(i int) string { return fmt.Sprintf("%0*d", saga.NameBytesMax, i) }
	result := saga.Payload{Type: "application/octet-stream", Data: bytes.Repeat([]byte{0, 0xff}, saga.ResultBytesMax/2)}
	input := bytes.Repeat([]byte{0xff, 0}, saga.InputBytesMax/2)
	var mu sync.Mutex
	bodies := map[string][]byte{}
	w.participant(who, func(cmd saga.Command) saga.Ran {
		mu.Lock()
		defer mu.Unlock()
		bodies[cmd.Step+"/"+string(cmd.Phase)] = cmd.Body
		return saga.Ran{Outcome: saga.OutcomeDone, Result: result}
	})
	b := saga.Define("order")
	var names []string
	for i := range saga.AfterMax {
		names = append(names, stepName(i))
		b.TCC(stepName(i), who, who, saga.Root())
	}
	last := stepName(saga.AfterMax)
	def := b.TCC(last, who, who, saga.After(names...)).MustBuild()
	s, err := c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{Caller: caller, Body: bodyWith(def, map[string]any{
		"inputs_base64": map[string]any{last: map[string]any{"type": "application/octet-stream", "data": input}},
	})})
	if err != nil {
		t.Fatal(err)
	}
	if v := w.wait(c, s.ID); v.Status != saga.StatusCommitted {
		t.Fatalf("got %s, %+v", v.Status, v.Cause)
	}
	mu.Lock()
	defer mu.Unlock()
	parsed, err := wire.ParseBody(saga.PhaseTry, bodies[last+"/try"])
	if err != nil || !bytes.Equal(parsed.Input.Data, input) || len(parsed.Results) != saga.AfterMax {
		t.Fatalf("the largest command: %d bytes, %d results, %v", len(bodies[last+"/try"]), len(parsed.Results), err)
	}
	for _, r := range parsed.Results {
		if !bytes.Equal(r.Data, result.Data) || r.Type != result.Type {
			t.Errorf("the result of %s has changed", r.Step)
		}
	}
	confirm, err := wire.ParseBody(saga.PhaseConfirm, bodies[last+"/confirm"])
	if err != nil || !bytes.Equal(confirm.Try.Data, result.Data) || !bytes.Equal(confirm.Input.Data, input) {
		t.Errorf("the largest confirm: %v", err)
	}
}

// A transaction of the most steps runs to its end, in both directions.
func TestMostSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator()
	p, _ := w.participant("stock", refuse(fmt.Sprintf("s%d", saga.StepsMax)))
	most := func(b *saga.Builder, n int) *saga.Definition {
		for i := range n {
			b.TCC(fmt.Sprintf("s%d", i+1), "stock", "reserve", saga.Root())
		}
		return b.MustBuild()
	}
	// The last step refuses only in the definition that has it.
	cancelled := w.submit(c, most(saga.Define("order"), saga.StepsMax), "")
	committed := w.submit(c, most(saga.Define("order"), saga.StepsMax-1), "")
	if v := w.wait(c, cancelled); v.Status != saga.StatusCancelled {
		t.Errorf("got %s", v.Status)
	}
	if v := w.wait(c, committed); v.Status != saga.StatusCommitted {
		t.Errorf("got %s", v.Status)
	}
	for i := range saga.StepsMax - 1 {
		step := fmt.Sprintf("s%d", i+1)
		p.expectEffects(committed, step, 1, 1, saga.PhaseConfirm)
		if p.ran(cancelled, step, saga.PhaseTry) != p.ran(cancelled, step, saga.PhaseCancel) {
			t.Errorf("%s of the cancelled one: an effect remains", step)
		}
	}
}

// A result one past the limit is no reply: it is kept with its exact bytes, and its operation is set aside.
func TestLimitOfResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	ids := []saga.ID{w.submit(c, define(saga.KindSaga, 1), ""), w.submit(c, define(saga.KindSaga, 1), "")}
	for i, id := range ids {
		r := done(id, "s1", saga.PhaseTry)
		r.Result.Data = []byte(`"` + strings.Repeat("x", saga.ResultBytesMax-2) + `"`)
		m, err := wire.EncodeReply(r, wire.ReplySubject(w.prefix, "stock", 0))
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			m.Data = append(m.Data, ' ')
		}
		w.publish(m)
	}
	if v := w.wait(c, ids[0]); v.Status != saga.StatusCommitted || len(v.Steps[0].Operations[0].Result.Data) != saga.ResultBytesMax {
		t.Errorf("at the limit: %s", v.Status)
	}
	w.until("the larger one is set aside", func() bool { return len(w.letters(c, dlq.Filter{})) == 2 })
	for _, l := range w.letters(c, dlq.Filter{}) {
		if l.Cause != saga.FaultUndecodable || l.Reason == "" || l.Kind == dlq.KindMessage && len(l.Message.Data) != saga.ResultBytesMax+1 {
			t.Errorf("set aside %s, %s, %d bytes, %s", l.Kind, l.Cause, len(l.Message.Data), l.Reason)
		}
	}
	if v := w.get(c, ids[1]); v.Status != saga.StatusRunning || !v.Suspended {
		t.Errorf("past the limit: %s, suspended %t", v.Status, v.Suspended)
	}
}

// One small submission may lead to many large commands. What one commit stores is bounded, however many such
// submissions wait.
func TestLargeBatchesAreSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(oneLane, noTimers)
	var list []string
	for i := range saga.StepsMax {
		list = append(list, fmt.Sprintf(`{"name":"s%d","kind":"saga","participant":"nobody","action":"a"}`, i))
	}
	list[1] = strings.Replace(list[1], "{", `{"after":["s0"],`, 1) // one has an order, so the others are roots
	large := []byte(`{"definition":{"name":"wide","steps":[` + strings.Join(list, ",") + `]},"input":"` + strings.Repeat("x", saga.InputBytesMax-2) + `"}`)
	release := w.hold(`LOCK TABLE transactions IN SHARE MODE`)
	var wg sync.WaitGroup
	submit := func(body []byte) {
		wg.Go(func() {
			if _, err := c.Submit(w.ctx(time.Minute), sub(body)); err != nil {
				t.Error(err)
			}
		})
	}
	submit(body(define(saga.KindSaga, 1)))
	w.untilBlocked(1)
	const n = 3
	for range n {
		submit(large)
	}
	w.until("the batch has gathered", func() bool { return c.Queued() == n })
	release()
	wg.Wait()
	if commits := w.count(`SELECT count(DISTINCT xmin::text) FROM transactions`); commits != n+1 {
		t.Errorf("%d commits, want %d: each of them alone fills one", commits, n+1)
	}
}
