package wire_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func encodeCommand(t fataler, c saga.Command) wire.Message {
	t.Helper()
	m, err := wire.EncodeCommand("saga", c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return m
}

func encodeReply(t fataler, r saga.Reply) wire.Message {
	t.Helper()
	m, err := wire.EncodeReply(r, wire.ReplySubject("saga", r.Participant, wire.Shard(r.Transaction, 8)))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return m
}

func sameCommand(t fataler, got, want saga.Command) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func sameReply(t fataler, got, want saga.Reply) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func sameMessage(t fataler, got, want wire.Message) {
	t.Helper()
	if got.Subject != want.Subject || !reflect.DeepEqual(got.Header, want.Header) || !bytes.Equal(got.Data, want.Data) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// asDecoded is what decoding makes of a command: the attempt timeout in whole seconds.
func asDecoded(c saga.Command) saga.Command {
	c.Timeout = (c.Timeout + time.Second - 1).Truncate(time.Second)
	return c
}

// asTransported is what NATS makes of a message: values without blanks at their ends, line breaks as blanks.
func asTransported(m wire.Message) wire.Message {
	h := wire.Header{}
	for name, values := range m.Header {
		for _, v := range values {
			v = strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.Trim(v, " \t\r\n"))
			h[name] = append(h[name], v)
		}
	}
	return wire.Message{Subject: m.Subject, Header: h, Data: m.Data}
}

var (
	genName = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,63}`)
	genText = rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 200), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{
			"", " ", "%", "%41", "100 %", "a\r\nb", "\x00", "\xff\xfe", " lead", "trail ", "\ttab", "ü",
			strings.Repeat("€", 900), strings.Repeat("\xff", 3000),
		}),
	)
	genID = rapid.Custom(func(t *rapid.T) saga.ID {
		id := saga.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
		return id
	})
	genNumber = rapid.OneOf(rapid.IntRange(1, 50), rapid.IntRange(1, wire.NumberMax))
	genHash   = rapid.Map(rapid.SliceOfN(rapid.Byte(), 32, 32), func(b []byte) [32]byte { return [32]byte(b) })
	genJSON   = rapid.SampledFrom([]string{
		`null`, ` {"a": 1, "a": 2} `, `9007199254740993`, `"\u0000"`, `"x]}\",{"`, `[[],{}, -1.0e+30]`, "\n[1,\t2]\r\n",
		`""`, "\"\xff\"", `{"\\":"\\\""}`, `{"input":1,"results":{"x":2}}`,
	})
	genType  = rapid.SampledFrom([]string{"application/pdf", "text/plain; charset=utf-8", `a/b; c="<%&>"`, "x"})
	genBytes = rapid.SliceOfN(rapid.Byte(), 0, 100)
	// genPayload makes values that are there.
	genPayload = rapid.Custom(func(t *rapid.T) saga.Payload {
		if rapid.Bool().Draw(t, "json") {
			return saga.Payload{Data: []byte(genJSON.Draw(t, "data"))}
		}
		return saga.Payload{Type: genType.Draw(t, "type"), Data: genBytes.Draw(t, "data")}
	})
	genMaybePayload = rapid.OneOf(rapid.Just(saga.Payload{}), genPayload)
)

var genCommand = rapid.Custom(func(t *rapid.T) saga.Command {
	c := saga.Command{
		Verb:        rapid.SampledFrom([]saga.Verb{saga.VerbExecute, saga.VerbInquire, saga.VerbReserve}).Draw(t, "verb"),
		Tenant:      genName.Draw(t, "tenant"),
		Transaction: genID.Draw(t, "transaction"),
		Step:        genName.Draw(t, "step"),
		Phase:       rapid.SampledFrom([]saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel}).Draw(t, "phase"),
		Kind:        rapid.SampledFrom([]saga.Kind{saga.KindSaga, saga.KindTCC, saga.KindPivot, saga.KindRetriable}).Draw(t, "kind"),
		Participant: genName.Draw(t, "participant"),
		Action:      genName.Draw(t, "action"),
		Attempt:     genNumber.Draw(t, "attempt"),
		Revision:    genNumber.Draw(t, "revision"),
		Timeout:     time.Duration(rapid.Int64Range(0, int64(saga.AttemptTimeoutMax)).Draw(t, "timeout")),
		Body:        genBytes.Draw(t, "body"),
		Traceparent: rapid.StringMatching(`|00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]`).Draw(t, "traceparent"),
		Tracestate:  rapid.StringMatching(`|[a-z]{1,9}=[!-~]{1,200}`).Draw(t, "tracestate"),
	}
	if rapid.Bool().Draw(t, "has deadline") {
		c.Deadline = time.Unix(rapid.Int64Range(0, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
	}
	if rapid.Bool().Draw(t, "has floor") {
		c.Floor = genID.Draw(t, "floor")
	}
	if c.Verb == saga.VerbInquire && rapid.Bool().Draw(t, "has a question") {
		c.Question = "q" + genName.Draw(t, "question")[1:]
	}
	c.ReplyTo = wire.ReplySubject("a.b", c.Participant, rapid.IntRange(0, wire.ShardsMax-1).Draw(t, "shard"))
	return sealed(c)
})

var genReply = rapid.Custom(func(t *rapid.T) saga.Reply {
	c := genCommand.Draw(t, "command")
	r := saga.Reply{
		Verb: c.Verb, Tenant: c.Tenant, Transaction: c.Transaction, Step: c.Step, Phase: c.Phase,
		Participant: c.Participant, Attempt: c.Attempt, Revision: c.Revision, ContentSHA256: genHash.Draw(t, "hash"),
		Outcome: rapid.SampledFrom([]saga.Outcome{
			saga.OutcomeDone, saga.OutcomeRefused, saga.OutcomeRetry, saga.OutcomeInProgress, saga.OutcomeUnknown,
			saga.OutcomeHanging, saga.OutcomeFault, saga.OutcomeState, saga.OutcomeReserved,
		}).Draw(t, "outcome"),
		Code: genText.Draw(t, "code"), Reason: genText.Draw(t, "reason"),
		Result:      genMaybePayload.Draw(t, "result"),
		RetryAfter:  time.Duration(rapid.Int64Range(0, int64(2*saga.BackoffMax)).Draw(t, "retry after")),
		Replayed:    rapid.Bool().Draw(t, "replayed"),
		Traceparent: c.Traceparent,
		Question:    c.Question,
	}
	if r.Outcome == saga.OutcomeState || rapid.Bool().Draw(t, "has state") {
		r.State = rapid.SampledFrom([]saga.BarrierState{
			saga.BarrierAbsent, saga.BarrierTrying, saga.BarrierTried, saga.BarrierRefused, saga.BarrierConfirmed,
			saga.BarrierCancelled, saga.BarrierPastRetention,
		}).Draw(t, "state")
	}
	if r.Outcome == saga.OutcomeFault && r.Code == "" {
		r.Code = saga.FaultConflict
	}
	return r
})

func TestCommandRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genCommand.Draw(t, "command")
		m := encodeCommand(t, c)
		sameMessage(t, asTransported(m), m)
		got, err := wire.DecodeCommand(m)
		if err != nil {
			t.Fatalf("%v", err)
		}
		sameCommand(t, got, asDecoded(c))
		sameMessage(t, encodeCommand(t, got), m)
		checkHeaders(t, m)
	})
}

func TestReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genReply.Draw(t, "reply")
		m := encodeReply(t, r)
		sameMessage(t, asTransported(m), m)
		got, err := wire.DecodeReply(m)
		if err != nil {
			t.Fatalf("%v", err)
		}
		want := r
		want.Code, want.Reason = got.Code, got.Reason
		want.RetryAfter = min(r.RetryAfter, saga.BackoffMax)
		sameReply(t, got, want)
		checkCut(t, got.Code, r.Code, saga.CodeBytesMax)
		checkCut(t, got.Reason, r.Reason, saga.ReasonBytesMax)
		sameMessage(t, encodeReply(t, got), m)
		checkHeaders(t, m)
	})
}

// checkCut checks that text came back whole, or as its longest beginning that fits and splits no rune.
func checkCut(t fataler, got, text string, limit int) {
	t.Helper()
	if len(text) <= limit {
		if got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
		return
	}
	if !strings.HasPrefix(text, got) || len(got) > limit || len(got) <= limit-utf8.UTFMax {
		t.Fatalf("%q was cut to %q", text, got)
	}
	if utf8.ValidString(text) && !utf8.ValidString(got) {
		t.Fatalf("%q was cut in a rune: %q", text, got)
	}
}

// checkHeaders checks that all headers are visible ASCII, single and bounded.
func checkHeaders(t fataler, m wire.Message) {
	t.Helper()
	size := 0
	for name, values := range m.Header {
		if len(values) != 1 || values[0] == "" {
			t.Fatalf("%s has the values %q", name, values)
		}
		for i := range len(values[0]) {
			if c := values[0][i]; c < ' ' || c > '~' {
				t.Fatalf("%s has the byte %q", name, c)
			}
		}
		size += len(name) + len(": \r\n") + len(values[0])
	}
	if size > wire.HeadersBytesMax {
		t.Fatalf("%d bytes of headers", size)
	}
}

func TestBodyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, try := genPayload.Draw(t, "input"), genMaybePayload.Draw(t, "try")
		settle := saga.SettleBody(input, try)
		got, err := wire.ParseBody(saga.PhaseCancel, settle)
		if err != nil {
			t.Fatalf("%s: %v", settle, err)
		}
		if want := (wire.Body{Input: input, Try: try}); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
		steps := rapid.SliceOfNDistinct(genName, 0, saga.AfterMax, rapid.ID).Draw(t, "steps")
		var results, asJSON, asBase64 []saga.NamedPayload
		for _, step := range steps {
			r := saga.NamedPayload{Step: step, Payload: genMaybePayload.Draw(t, "result")}
			results = append(results, r)
			switch {
			case r.IsZero():
			case r.Type == "":
				asJSON = append(asJSON, r)
			default:
				asBase64 = append(asBase64, r)
			}
		}
		body := saga.TryBody(input, results)
		if got, err = wire.ParseBody(saga.PhaseTry, body); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if want := (wire.Body{Input: input, Results: append(asJSON, asBase64...)}); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}
