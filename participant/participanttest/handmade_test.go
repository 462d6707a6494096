package participanttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant/participanttest"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// handmade is a participant without the SDK that keeps its rows and its business in memory, and takes one command
// after the other. As it is it is right; what is wrong with it is in its bug.
type handmade struct {
	prefix string
	bus    *bus.Bus
	bug    bug

	mu      sync.Mutex
	rows    map[stepKey]saga.BarrierRow
	effects map[stepKey]participanttest.Effect
	runs    int
	lastN   int // that the probe was asked about
}

// stepKey is what the rows of the barrier and of the business are found by (S1.1).
type stepKey struct {
	tenant      string
	transaction saga.ID
	step        string
}

func keyOf(cmd saga.Command) stepKey { return stepKey{cmd.Tenant, cmd.Transaction, cmd.Step} }

// bug is what a participant does wrong. The zero value is right.
type bug struct {
	// enter changes what the barrier has decided, and may do harm.
	enter func(h *handmade, row saga.BarrierRow, cmd saga.Command, v saga.Verdict, next saga.BarrierRow) (saga.Verdict, saga.BarrierRow)
	// content makes the barrier see another content hash than the command's.
	content func(row saga.BarrierRow, cmd saga.Command) saga.Command
	// answer changes what is answered.
	answer func(h *handmade, cmd saga.Command, r saga.Reply) saga.Reply
	// ackFirst acknowledges commands before their reply is published.
	ackFirst bool
	// mute leaves the commands of a phase unanswered.
	mute saga.Phase
	// leaky leaves in place what a try that fails or refuses has changed.
	leaky bool
	// msgID changes the message id of a reply.
	msgID func(cmd saga.Command, r saga.Reply) string
	// stepless keys the barrier's rows by the transaction alone.
	stepless bool
}

// handmadeKinds are its actions.
var handmadeKinds = map[string]saga.Kind{"hold": saga.KindTCC, "take": saga.KindSaga, "decide": saga.KindPivot, "tell": saga.KindRetriable}

func startHandmade(t *testing.T, b bug) *handmade {
	t.Helper()
	h := &handmade{prefix: testdb.Prefix(t), bug: b, rows: map[stepKey]saga.BarrierRow{}, effects: map[stepKey]participanttest.Effect{}}
	var err error
	if h.bus, err = bus.New(testdb.NATS(t), bus.Config{Prefix: h.prefix, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.bus.Close)
	if err := h.bus.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- h.bus.Consume(ctx, bus.Consumer{
			Stream: bus.Commands, Durable: "handmade", FilterSubjects: []string{wire.CommandSubject(h.prefix, "handmade")}, DrainTimeout: 1,
		}, func(d *bus.Delivery) { h.handle(ctx, d) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

// handle answers one command. A reply without a PubAck is left to the next attempt: nothing is acknowledged.
func (h *handmade) handle(ctx context.Context, d *bus.Delivery) {
	cmd, bad := wire.DecodeCommand(d.Message)
	if h.bug.mute != "" && cmd.Phase == h.bug.mute {
		d.Leave()
		return
	}
	reply := saga.AnswerTo(cmd)
	if bad != nil {
		reply.Outcome, reply.Code = saga.OutcomeFault, saga.FaultUndecodable
	} else {
		reply = h.execute(cmd)
	}
	m, err := wire.EncodeReply(reply, cmd.ReplyTo)
	if h.bug.msgID != nil && err == nil {
		m.Header[wire.HeaderMsgID] = []string{h.bug.msgID(cmd, reply)}
	}
	if h.bug.ackFirst {
		_ = d.Ack()
	}
	if err == nil {
		acked := make(chan error, 1)
		h.bus.Publish(ctx, []bus.Message{m}, func(_ int, err error) { acked <- err }) // with anchors, as the SDK does
		err = <-acked
	}
	if err != nil {
		d.Leave()
		return
	}
	_ = d.Ack()
}

// execute is the barrier and the business, by the pure rules.
func (h *handmade) execute(cmd saga.Command) saga.Reply {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := keyOf(cmd)
	if h.bug.stepless {
		key.step = ""
	}
	row := h.rows[key]
	seen := cmd
	if h.bug.content != nil {
		seen = h.bug.content(row, cmd)
	}
	v, next := saga.Admit(row, seen, time.Now())
	if h.bug.enter != nil {
		v, next = h.bug.enter(h, row, cmd, v, next)
	}
	if v.Do == saga.DoRun {
		before := h.effects[keyOf(cmd)]
		v, next = saga.Conclude(next, seen, h.work(cmd))
		if v.Reply.Outcome != saga.OutcomeDone && !h.bug.leaky {
			h.effects[keyOf(cmd)] = before
		}
	}
	h.rows[key] = next
	v.Reply.ContentSHA256 = cmd.ContentSHA256
	if h.bug.answer != nil {
		return h.bug.answer(h, cmd, v.Reply)
	}
	return v.Reply
}

// errand is the input: what the handler shall say after it has done its work.
type errand struct {
	N      int    `json:"n"`
	Refuse string `json:"refuse,omitempty"`
	Fail   bool   `json:"fail,omitempty"` // at the first attempt
}

// work does the work of a phase.
func (h *handmade) work(cmd saga.Command) saga.Ran {
	if handmadeKinds[cmd.Action] != cmd.Kind {
		return saga.Ran{Outcome: saga.OutcomeRetry, Code: saga.CodeUnknownAction}
	}
	var e errand
	body, err := wire.ParseBody(cmd.Phase, cmd.Body)
	if err == nil {
		err = json.Unmarshal(body.Input.Data, &e)
	}
	if err != nil {
		return saga.Ran{Outcome: saga.OutcomeFault, Code: saga.FaultUndecodable}
	}
	h.do(cmd)
	switch {
	case cmd.Phase != saga.PhaseTry:
		return saga.Ran{Outcome: saga.OutcomeDone}
	case e.Fail && cmd.Attempt == 1:
		return saga.Ran{Outcome: saga.OutcomeRetry, Reason: "not now"}
	case e.Refuse != "":
		return saga.Ran{Outcome: saga.OutcomeRefused, Code: e.Refuse, Reason: "not for you"}
	}
	h.runs++
	return saga.Ran{Outcome: saga.OutcomeDone, Result: saga.Payload{Data: fmt.Appendf(nil, `{"run":%d}`, h.runs)}}
}

// do changes the business data.
func (h *handmade) do(cmd saga.Command) {
	e := h.effects[keyOf(cmd)]
	switch tcc := cmd.Kind == saga.KindTCC; {
	case cmd.Phase == saga.PhaseTry && tcc:
		e.Held++
	case cmd.Phase == saga.PhaseTry:
		e.Final++
	case cmd.Phase == saga.PhaseConfirm:
		e.Held--
		e.Final++
	case tcc:
		e.Held--
	default:
		e.Final--
	}
	h.effects[keyOf(cmd)] = e
}

func (h *handmade) probe(_ context.Context, c participanttest.Case) (participanttest.Effect, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastN = max(h.lastN, c.N)
	return h.effects[stepKey{c.Tenant, c.Transaction, c.Step}], nil
}

func (h *handmade) config(nc *nats.Conn, names ...string) participanttest.Config {
	c := participanttest.Config{NATS: nc, Prefix: h.prefix, Participant: "handmade", Seed: 1, Restart: func(context.Context) error { return nil }}
	for _, name := range names {
		c.Actions = append(c.Actions, participanttest.Action{
			Name: name, Kind: handmadeKinds[name], Effects: h.probe,
			Input:    func(n int) []byte { return input(errand{N: n}) },
			Refusing: func(n int) []byte { return input(errand{N: n, Refuse: "no"}) },
			Failing:  func(n int) []byte { return input(errand{N: n, Fail: true}) },
		})
	}
	return c
}

// The participant that the wrong ones are made of is right. It knows the wire protocol only, as one in another
// language does.
func TestHandmade(t *testing.T) {
	t.Parallel()
	h := startHandmade(t, bug{})
	report, err := participanttest.Torture(t.Context(), h.config(testdb.NATS(t), "hold", "take", "decide", "tell"))
	wantClean(t, report, err, 80)
	if h.lastN < 50 || h.lastN >= 150 {
		t.Errorf("%d transactions of an action, not fewer than the 150 that Action.Input is promised", h.lastN)
	}
}
