package participanttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant/participanttest"
	"github.com/sagacity-tx/sagacity/saga"
)

// Each check is a subtest. The server in the test's own process will do.
func TestRun(t *testing.T) {
	t.Parallel()
	if !participanttest.NATS(t).IsConnected() {
		t.Error("no connection")
	}
	h := startHandmade(t, bug{})
	participanttest.Run(t, h.config(testdb.NATS(t), "tell"))
}

// What was not given is left out, with what to give, and is no success by itself.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	h := startHandmade(t, bug{})
	c := h.config(testdb.NATS(t), "take")
	c.Restart, c.Actions[0].Refusing, c.Actions[0].Failing, c.Seed = nil, nil, nil, 0
	report, err := participanttest.Torture(t.Context(), c)
	if err != nil || !report.OK() || report.Seed == 0 {
		t.Fatalf("%v\n%s", err, report)
	}
	left := map[string]string{}
	for _, c := range report.Checks {
		if c.Verdict == participanttest.LeftOut {
			left[c.Name] = c.Reason
		}
	}
	if len(left) != 4 || left["failure"] != "give Action.Failing" || left["refusal"] != "give Action.Refusing" || left["killed-at-work"] != "give Config.Restart" {
		t.Errorf("left out: %q", left)
	}
	if (participanttest.Report{}).OK() {
		t.Error("a report without checks is ok")
	}
}

// The report is a table for people and JSON for programs.
func TestReport(t *testing.T) {
	t.Parallel()
	r := participanttest.Report{Participant: "hotel", Seed: 7, Checks: []participanttest.Check{
		{Action: "book", Kind: saga.KindTCC, Name: "try", Rules: "S3", Verdict: participanttest.OK},
		{Action: "book", Kind: saga.KindTCC, Name: "late-try", Rules: "M3", Verdict: participanttest.Wrong, Rule: "It never runs.", Sent: []string{"cancel -> done", "try -> done"}, Expected: "hanging", Came: "done", Fix: "Record it."},
		{Action: "free", Kind: saga.KindSaga, Name: "refusal", Rules: "B3", Verdict: participanttest.LeftOut, Reason: "give Action.Refusing"},
	}}
	const want = `ok        book  try       S3
WRONG     book  late-try  M3
    rule      It never runs.
    sent      1. cancel -> done
              2. try -> done
    expected  hanging
    came      done
    do        Record it.
left out  free  refusal   B3: give Action.Refusing
participant hotel: 1 ok, 1 WRONG, 1 left out (seed 7)
`
	if got := r.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	data, err := json.Marshal(r)
	var back participanttest.Report
	if err = errors.Join(err, json.Unmarshal(data, &back)); err != nil || back.String() != want || !strings.Contains(string(data), `"verdict":"WRONG"`) {
		t.Errorf("%v: %s", err, data)
	}
}

// Mistakes of the caller say what to do.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	h := startHandmade(t, bug{})
	nc := testdb.NATS(t)
	for want, spoil := range map[string]func(*participanttest.Config){
		"Config.NATS is nil":          func(c *participanttest.Config) { c.NATS = nil },
		"Config.Actions is empty":     func(c *participanttest.Config) { c.Actions = nil },
		"Config.Patience is negative": func(c *participanttest.Config) { c.Patience = -1 },
		"participant name":            func(c *participanttest.Config) { c.Participant = "no name" },
		"tenant":                      func(c *participanttest.Config) { c.Tenant = "a.b" },
		"subject prefix":              func(c *participanttest.Config) { c.Prefix = "a..b" },
		"Kind is \"\"":                func(c *participanttest.Config) { c.Actions[0].Kind = "" },
		"Input is nil":                func(c *participanttest.Config) { c.Actions[0].Input = nil },
		"Effects is nil":              func(c *participanttest.Config) { c.Actions[0].Effects = nil },
		"Refusing(0) is not JSON": func(c *participanttest.Config) {
			c.Actions[0].Refusing = func(int) []byte { return []byte("{") }
		},
	} {
		c := h.config(nc, "take")
		spoil(&c)
		if _, err := participanttest.Torture(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What keeps the suite from being carried out is an error, and no verdict about the participant.
func TestTortureErrors(t *testing.T) {
	t.Parallel()
	nc := testdb.NATS(t)
	broken := errors.New("it is broken")
	for name, test := range map[string]struct {
		spoil func(t *testing.T, h *handmade, c *participanttest.Config)
		want  string
	}{
		"no participant": {func(_ *testing.T, _ *handmade, c *participanttest.Config) {
			c.Participant, c.Patience = "nobody", 100*time.Millisecond
		}, "participant nobody does not answer"},
		"a coordinator": {func(t *testing.T, h *handmade, _ *participanttest.Config) {
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() {
				ended <- h.bus.Consume(ctx, bus.Consumer{Stream: bus.Replies, Durable: "coordinator"}, func(d *bus.Delivery) { _ = d.Ack() })
			}()
			t.Cleanup(func() {
				cancel()
				<-ended
			})
			for n := 0; n == 0; {
				n, _ = h.bus.Consumers(t.Context(), bus.Replies)
			}
		}, "a coordinator runs on the prefix"},
		"the probe": {func(_ *testing.T, _ *handmade, c *participanttest.Config) {
			c.Actions[0].Effects = func(context.Context, participanttest.Case) (participanttest.Effect, error) {
				return participanttest.Effect{}, broken
			}
		}, "take/try: the probe of action take: it is broken"},
		"the restart": {func(_ *testing.T, _ *handmade, c *participanttest.Config) {
			c.Restart = func(context.Context) error { return broken }
		}, "take/reply-lost: restart the participant: it is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHandmade(t, bug{})
			c := h.config(nc, "take")
			test.spoil(t, h, &c)
			if _, err := participanttest.Torture(t.Context(), c); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// A participant that stops answering is not waited for again and again.
func TestSilence(t *testing.T) {
	t.Parallel()
	h := startHandmade(t, bug{mute: saga.PhaseCancel})
	c := h.config(testdb.NATS(t), "decide")
	c.Patience = 2 * time.Second
	report, err := participanttest.Torture(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Count(participanttest.Wrong); n != 3 || !strings.Contains(report.String(), "came      no reply within 2s") ||
		!strings.Contains(report.String(), "the participant does not answer any more") || strings.Contains(report.String(), "something came on") {
		t.Errorf("%d WRONG\n%s", n, report)
	}
}
