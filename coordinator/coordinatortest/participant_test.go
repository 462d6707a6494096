package coordinatortest_test

import (
	"encoding/json"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/saga"
)

// Inputs and results reach the actions byte for byte (S1.6), and a confirm gets its try's result.
func TestCallsCarryTheirData(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindTCC, coordinatortest.Done(json.RawMessage(`{"n": 9007199254740993}`)))
	c.Participant("q").On("do", saga.KindSaga, coordinatortest.Done(saga.Payload{Type: "image/png", Data: []byte{0, 255}}))
	def := saga.Define("two").TCC("a", "p", "do").Saga("b", "q", "do").MustBuild()
	submit(t, c, def, func(s *client.Submission) {
		s.Inputs = map[string]any{"b": json.RawMessage(`{ "cents":1.0 }`)}
	})
	q := c.Calls("q")[0]
	if len(q.Results) != 1 || string(q.Results[0].Data) != `{"n": 9007199254740993}` || string(q.Input.Data) != `{ "cents":1.0 }` {
		t.Errorf("b was called with %+v", q)
	}
	var in struct{ Cents float64 }
	if err := q.Decode(&in); err != nil || in.Cents != 1 {
		t.Errorf("decoded %+v, %v", in, err)
	}
	confirm := c.Calls("p")[1]
	if confirm.Phase != saga.PhaseConfirm || string(confirm.Try.Data) != `{"n": 9007199254740993}` || !confirm.Deadline.IsZero() {
		t.Errorf("the confirm was called with %+v", confirm)
	}
}

// What exhausted, panicking, faulty and unknown actions lead to (S2.4, S3).
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind    saga.Kind
		answers []coordinatortest.Answer
		status  saga.Status
		cause   string // of the dead letter; "" for none
	}{
		"retries":         {saga.KindSaga, []coordinatortest.Answer{coordinatortest.Retry(3)}, saga.StatusCancelled, ""},
		"panics":          {saga.KindSaga, []coordinatortest.Answer{coordinatortest.Panic(3)}, saga.StatusRunning, "panic"},
		"fault":           {saga.KindTCC, []coordinatortest.Answer{coordinatortest.Fault("a bug")}, saga.StatusRunning, "handler_fault"},
		"unknown":         {saga.KindPivot, []coordinatortest.Answer{coordinatortest.Unknown("no answer of the bank")}, saga.StatusRunning, "unknown"},
		"retriable":       {saga.KindRetriable, []coordinatortest.Answer{coordinatortest.Retry(3)}, saga.StatusConfirming, "exhausted"},
		"refused forward": {saga.KindRetriable, []coordinatortest.Answer{coordinatortest.Refuse("no", "")}, saga.StatusConfirming, "refused_phase_two"},
		"pivot":           {saga.KindPivot, []coordinatortest.Answer{coordinatortest.Retry(3)}, saga.StatusCancelled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := coordinatortest.New(t)
			c.Participant("p").On("do", test.kind, test.answers...)
			tx := submit(t, c, one(test.kind, saga.Attempts(3), saga.PhaseTwoAttempts(3)))
			wantStatus(t, tx, test.status)
			if test.cause == "" {
				return
			}
			l := letter(t, c.Client())
			if l.Cause != test.cause || !tx.Suspended {
				t.Errorf("the dead letter is %+v, want %s", l, test.cause)
			}
			reason, options := "repaired", []client.ReplayOption(nil)
			if name == "unknown" { // nobody else is here to approve it (E3)
				reason, options = "the bank's statement of today shows no such payment", append(options, client.WithBreakGlass())
			}
			if err := c.Client().Replay(within(t), l.ID, l.Version, reason, options...); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, c.Last(), saga.StatusCommitted) // behind its answers the action is done
			d, err := c.Client().DeadLetter(within(t), l.ID)
			if err != nil || d.Status != saga.DeadLetterClosed || len(d.Audit) != 1+len(options) || !slices.ContainsFunc(d.Audit, func(e client.AuditEntry) bool { return e.Action == "replay" }) || len(d.Attempts) == 0 {
				t.Errorf("after the replay: %+v, %v", d, err)
			}
			wantProblem(t, c.Client().Replay(within(t), l.ID, l.Version, "again"), 412, client.CodeStale)
		})
	}
}

func TestDiscardAndResolve(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindTCC, coordinatortest.Fault("a bug"))
	submit(t, c, one(saga.KindTCC))
	l := letter(t, c.Client())
	tx, err := c.Client().Discard(within(t), l.ID, l.Version, "hopeless")
	if err != nil {
		t.Fatal(err)
	}
	wantCause(t, *tx, saga.WhyExhausted, "a", "discarded")

	c.Participant("p").On("do", saga.KindTCC).Confirm(coordinatortest.Fault("a bug"))
	submit(t, c, one(saga.KindTCC))
	resolved, err := c.Client().Resolve(within(t), c.Last().ID, c.Last().Version, "by hand")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, resolved, saga.StatusResolved)
	_, err = c.Client().Resolve(within(t), resolved.ID, resolved.Version, "again")
	wantProblem(t, err, 409, "obsolete")
}

// A step of another kind than the action's is a fault, as by a participant.
func TestOtherKind(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindTCC)
	submit(t, c, one(saga.KindSaga))
	if l := letter(t, c.Client()); l.Cause != saga.FaultUndecodable {
		t.Errorf("the dead letter is %+v", l)
	}
}

// A function of the test sees the call and says what happens; its panic and its end are a handler's.
func TestDo(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindSaga, coordinatortest.Do(func(call coordinatortest.Call) coordinatortest.Answer {
		switch call.Attempt {
		case 1:
			panic("at the disco")
		case 2:
			runtime.Goexit()
		case 3:
			return coordinatortest.Silent(1)
		case 4:
			return coordinatortest.Delay(time.Second, coordinatortest.Retry(1))
		}
		return coordinatortest.Refuse("enough", string(call.Input.Data))
	}))
	tx := submit(t, c, one(saga.KindSaga))
	wantCause(t, tx, saga.WhyRefused, "a", "enough")
	if tx.Cause.Reason != `{"cents":100}` {
		t.Errorf("the reason is %q", tx.Cause.Reason)
	}
	wantCalls(t, c, "a/try retry panic", "a/try retry panic", "a/try silent", "a/try retry error", "a/try refused enough")
}

// Lost, doubled and late messages change nothing about what takes effect (I-3, I-6).
func TestFaults(t *testing.T) {
	t.Parallel()
	def := one(saga.KindTCC)
	for name, test := range map[string]struct {
		plan func(*coordinatortest.Coordinator)
		want []string
	}{
		"lost try":     {func(c *coordinatortest.Coordinator) { c.Lose("a", saga.PhaseTry, 2) }, nil},
		"lost reply":   {func(c *coordinatortest.Coordinator) { c.LoseReply("a", saga.PhaseTry, 2) }, nil},
		"lost confirm": {func(c *coordinatortest.Coordinator) { c.LoseReply("a", saga.PhaseConfirm, 3) }, nil},
		"doubled":      {func(c *coordinatortest.Coordinator) { c.Duplicate("a", saga.PhaseTry, 1) }, nil},
		"late try":     {func(c *coordinatortest.Coordinator) { c.Late("a", saga.PhaseTry, time.Hour, 1) }, nil},
		"all of them": {func(c *coordinatortest.Coordinator) {
			c.Lose("a", saga.PhaseTry, 1)
			c.Duplicate("a", saga.PhaseTry, 1)
		}, nil},
		"doubled late":   {func(c *coordinatortest.Coordinator) { c.Late("a", saga.PhaseConfirm, time.Minute, 1) }, nil},
		"nothing at all": {func(*coordinatortest.Coordinator) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := coordinatortest.New(t)
			c.Participant("p").On("do", saga.KindTCC)
			test.plan(c)
			wantStatus(t, submit(t, c, def), saga.StatusCommitted)
			wantCalls(t, c, "a/try done", "a/confirm done")
		})
	}
}

// A reply that was lost beside other replies of the participant counts as an attempt (S2.8).
func TestLostReplyExhausts(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	p := c.Participant("p")
	p.On("do", saga.KindSaga)
	p.On("count", saga.KindSaga, coordinatortest.Retry(coordinatortest.Always))
	c.Lose("a", saga.PhaseTry, coordinatortest.Always)
	def := saga.Define("two").Saga("a", "p", "do", saga.Root(), saga.Attempts(2)).
		Saga("b", "p", "count", saga.Root(), saga.Attempts(1000), saga.RetryBackoff(saga.StrategyFixed, time.Second, time.Second)).MustBuild()
	tx := submit(t, c, def)
	wantCause(t, tx, saga.WhyExhausted, "a", "timeout")
	if calls := c.Calls(); slices.ContainsFunc(calls, func(c coordinatortest.Call) bool { return c.Step == "a" }) {
		t.Errorf("a was called: %v", calls)
	}
}

// Two operations that are sent in one write: the reply to the one came after the other was sent (S2.8).
func TestRepliesComeAfterTheirCommands(t *testing.T) {
	t.Parallel()
	c := coordinatortest.New(t)
	c.Participant("p").On("do", saga.KindSaga)
	c.Lose("a", saga.PhaseTry, coordinatortest.Always)
	def := saga.Define("two").Saga("a", "p", "do", saga.Root(), saga.Attempts(1)).Saga("b", "p", "do", saga.Root()).MustBuild()
	wantCause(t, submit(t, c, def), saga.WhyExhausted, "a", "timeout")
	wantCalls(t, c, "b/try done", "b/cancel done")
}
