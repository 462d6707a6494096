package wire_test

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// checkDecodeError checks the type of an error, that it says where, and that it is safe to print.
func checkDecodeError(t *testing.T, err error) *wire.DecodeError {
	t.Helper()
	var e *wire.DecodeError
	if !errors.As(err, &e) || e.Header == "" || e.Problem == "" {
		t.Fatalf("%#v is no usable *DecodeError", err)
	}
	if len(err.Error()) > 500 || strings.ContainsFunc(err.Error(), func(c rune) bool { return c < ' ' || c == 0x7f }) {
		t.Fatalf("not fit for a log: %q", err)
	}
	return e
}

func checkEncodeError(t *testing.T, err error, header string) {
	t.Helper()
	var e *wire.EncodeError
	if !errors.As(err, &e) || e.Header != header || !strings.Contains(e.Error(), header) {
		t.Errorf("got %v, want an *EncodeError about %s", err, header)
	}
}

// with returns the message with one header changed; "" removes it.
func with(m wire.Message, header string, values ...string) wire.Message {
	m.Header = maps.Clone(m.Header)
	delete(m.Header, header)
	if len(values) > 0 {
		m.Header[header] = values
	}
	return m
}

var badNames = []string{"", "a.b", "a b", "*", ">", "a\x00", "-a", "a\r\nb", "ü", "\xff", strings.Repeat("a", 65), "%41"}

var badNumbers = []string{"0", "-1", "+1", "01", "1.0", "1e3", " 1", "0x1", "2147483648", "99999999999999999999", "١"}

// badHeaders holds, for headers of commands and replies, values that must be refused.
var badHeaders = map[string][]string{
	wire.HeaderVerb: {"", "Execute", "delete", "execute "}, wire.HeaderPhase: {"", "Try", "undo"},
	wire.HeaderTenant: badNames, wire.HeaderStep: badNames, wire.HeaderParticipant: badNames,
	wire.HeaderTransaction: {
		"", "0198c7a2-5b7e-4c31-9f6e-0a4b1c2d3e4f", "0198c7a25b7e7c319f6e0a4b1c2d3e4f", "x", "../../etc",
		"0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f\r\n", "0198c7a2-5b7e-7c31-cf6e-0a4b1c2d3e4f",
	},
	wire.HeaderAttempt: badNumbers, wire.HeaderRevision: badNumbers,
	wire.HeaderContentSHA256: {"", "abc", strings.Repeat("g", 64), strings.Repeat("a", 65), strings.Repeat("a", 4097)},
}

var badCommandHeaders = map[string][]string{
	wire.HeaderStepKind: {"", "SAGA", "other"}, wire.HeaderAction: badNames,
	wire.HeaderDeadline: {
		"tomorrow", "2026-03-01", "2026-03-01 12:00:00Z", "1709294400", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
		"2026-02-30T00:00:00Z", "9999-12-31T23:59:59-01:00",
	},
	wire.HeaderFloor: {"x", "0198c7a2-5b7e-4c31-9f6e-0a4b1c2d3e4f"},
	wire.HeaderReplyTo: {
		"", "saga.reply.accounts", "saga.reply.other.1", "saga.reply.accounts.*", "saga.reply.accounts.1024",
		"saga.reply.accounts.-1", "saga.reply.accounts.01", "saga.cmd.accounts", ".reply.accounts.1", "$JS.API.reply.accounts.1",
		"a..b.reply.accounts.1", "saga.reply.accounts.1 ", "*.reply.accounts.1", "saga.reply.accounts.1.>",
	},
	wire.HeaderContentType:   {"", "text/plain", "application/cbor"},
	wire.HeaderTTL:           {"never", "0", "0s", "-1s", "10ms", "61m", "3601", "x", "1e9"},
	wire.HeaderContentSHA256: {strings.Repeat("0", 64)},
}

var badReplyHeaders = map[string][]string{
	wire.HeaderOutcome: {"", "DONE", "ok"}, wire.HeaderState: {"gone", "Tried", "null_cancelled"},
	wire.HeaderCode: {"%", "%4", "%zz", "100 %", strings.Repeat("a", 4097)}, wire.HeaderReason: {"%", "5 % off"},
	wire.HeaderRetryAfter: {"-1", "1s", "1.", ".5", "1.0000000001", "1e3", "NaN", "99999999999"},
	wire.HeaderReplayed:   {"yes", "1", "TRUE"}, wire.HeaderContentType: {"", "a%", "text/" + strings.Repeat("x", 255)},
}

func TestDecodeRefusesBadHeaders(t *testing.T) {
	command := encodeCommand(t, goldenCommands()["command_try"])
	reply := encodeReply(t, goldenReplies()["reply_state"])
	decodeCommand := func(m wire.Message) error { _, err := wire.DecodeCommand(m); return err }
	decodeReply := func(m wire.Message) error { _, err := wire.DecodeReply(m); return err }
	for _, c := range []struct {
		name   string
		m      wire.Message
		decode func(wire.Message) error
		bad    []map[string][]string
	}{
		{"command", command, decodeCommand, []map[string][]string{badHeaders, badCommandHeaders}},
		{"reply", reply, decodeReply, []map[string][]string{badHeaders, badReplyHeaders}},
	} {
		for _, bad := range c.bad {
			for header, values := range bad {
				for _, v := range values {
					if e := checkDecodeError(t, c.decode(with(c.m, header, v))); e.Header != header {
						t.Errorf("%s with %s %q: %v", c.name, header, v, e)
					}
					if v == "" { // as good as absent
						checkDecodeError(t, c.decode(with(c.m, header)))
					}
				}
				if e := checkDecodeError(t, c.decode(with(c.m, header, "a", "a"))); e.Header != header {
					t.Errorf("%s with %s twice: %v", c.name, header, e)
				}
			}
		}
		if err := c.decode(c.m); err != nil {
			t.Errorf("%s was changed by the test: %v", c.name, err)
		}
		checkDecodeError(t, c.decode(wire.Message{}))
	}
}

func TestDecodeAcceptsOtherSpellings(t *testing.T) {
	command := encodeCommand(t, goldenCommands()["command_try"])
	want, err := wire.DecodeCommand(command)
	if err != nil {
		t.Fatal(err)
	}
	hash := command.Header[wire.HeaderContentSHA256][0]
	for header, values := range map[string][]string{
		wire.HeaderTTL:           {"10", "10s", "9.5s", "10000ms"},
		wire.HeaderDeadline:      {"2026-03-01T13:30:00.123456789+01:00"},
		wire.HeaderContentSHA256: {strings.ToUpper(hash)},
		wire.HeaderTransaction:   {strings.ToUpper(testID.String())},
	} {
		for _, v := range values {
			got, err := wire.DecodeCommand(with(command, header, v))
			if err != nil {
				t.Fatalf("%s %q: %v", header, v, err)
			}
			sameCommand(t, got, want)
		}
	}
}

// Headers that are not known are ignored by Decode and stay in the message (the package's relays pass them on).
func TestUnknownHeadersAreKept(t *testing.T) {
	m := with(encodeCommand(t, goldenCommands()["command_try"]), "Saga-Of-Tomorrow", "1", "2")
	got, err := wire.DecodeCommand(m)
	if err != nil {
		t.Fatal(err)
	}
	sameCommand(t, got, goldenCommands()["command_try"])
	if len(m.Header["Saga-Of-Tomorrow"]) != 2 {
		t.Error("decoding changed the message")
	}
}

func TestSubjectAndHeaderAgree(t *testing.T) {
	command := encodeCommand(t, goldenCommands()["command_try"])
	for _, subject := range []string{"saga.cmd.other", "saga.reply.accounts.1", "cmd.accounts", "accounts", "saga.cmd.>"} {
		command.Subject = subject
		c, err := wire.DecodeCommand(command)
		if e := checkDecodeError(t, err); e.Header != wire.PartSubject || wire.Answerable(c) {
			t.Errorf("%s: %v, can be answered: %v", subject, err, wire.Answerable(c))
		}
	}
	command.Subject = "" // over a bridge
	if _, err := wire.DecodeCommand(command); err != nil {
		t.Error(err)
	}
	reply := encodeReply(t, goldenReplies()["reply_done"])
	for _, subject := range []string{"saga.reply.other.7", "saga.cmd.accounts", "reply.accounts.1", "saga.reply.accounts.x"} {
		reply.Subject = subject
		r, err := wire.DecodeReply(reply)
		checkDecodeError(t, err)
		if wire.Attributable(r) {
			t.Errorf("%s: a reply under another's subject counts as the participant's", subject)
		}
	}
}

// An undecodable command can be answered whenever its identity is intact.
func TestAnswerable(t *testing.T) {
	m := encodeCommand(t, goldenCommands()["command_try"])
	m.Data = []byte(`{"input":"another"}`)
	c, err := wire.DecodeCommand(m)
	if e := checkDecodeError(t, err); e.Header != wire.HeaderContentSHA256 {
		t.Errorf("other content is reported as %v", err)
	}
	if !wire.Answerable(c) {
		t.Error("a command with other content could be answered")
	}
	answer(t, c)
	for _, header := range []string{
		wire.HeaderVerb, wire.HeaderTenant, wire.HeaderTransaction, wire.HeaderStep, wire.HeaderPhase,
		wire.HeaderParticipant, wire.HeaderAttempt, wire.HeaderRevision, wire.HeaderReplyTo,
	} {
		if c, err := wire.DecodeCommand(with(m, header)); err == nil || wire.Answerable(c) {
			t.Errorf("a command without %s cannot be answered: %v", header, err)
		}
	}
}

// An undecodable reply is about an operation whenever its identity is intact.
func TestAttributable(t *testing.T) {
	m := encodeReply(t, goldenReplies()["reply_done"])
	m.Data = []byte(`{"cut":`)
	r, err := wire.DecodeReply(m)
	if e := checkDecodeError(t, err); e.Header != wire.PartBody || !wire.Attributable(r) {
		t.Errorf("a result that is cut: %v, attributable: %t", err, wire.Attributable(r))
	}
	for _, header := range []string{
		wire.HeaderVerb, wire.HeaderTenant, wire.HeaderTransaction, wire.HeaderStep, wire.HeaderPhase,
		wire.HeaderParticipant, wire.HeaderAttempt, wire.HeaderRevision,
	} {
		if r, err := wire.DecodeReply(with(m, header)); err == nil || wire.Attributable(r) {
			t.Errorf("a reply without %s is about no operation: %v", header, err)
		}
	}
}

// An inquiry by someone who does not know the content is compared with nothing; no other command is.
func TestInquiryWithoutContent(t *testing.T) {
	c := goldenCommands()["command_inquire"]
	c.Body, c.ContentSHA256 = nil, [32]byte{}
	got, err := wire.DecodeCommand(encodeCommand(t, c))
	if err != nil {
		t.Fatal(err)
	}
	sameCommand(t, got, c)
	c.Body = []byte("1")
	_, err = wire.DecodeCommand(encodeCommand(t, c))
	checkDecodeError(t, err)
	c.Body, c.Verb = nil, saga.VerbExecute
	_, err = wire.DecodeCommand(encodeCommand(t, c))
	checkDecodeError(t, err)
}

// Sizes are checked before anything is hashed or parsed.
func TestDecodeCommandRefusesLargeBodies(t *testing.T) {
	m := encodeCommand(t, goldenCommands()["command_try"])
	m.Data = make([]byte, wire.BodyBytesMax+1)
	_, err := wire.DecodeCommand(m)
	if e := checkDecodeError(t, err); e.Header != wire.PartBody {
		t.Error(e)
	}
}

func TestEncodeCommandRefuses(t *testing.T) {
	good := goldenCommands()["command_try"]
	for header, change := range map[string]func(*saga.Command){
		wire.HeaderTenant:      func(c *saga.Command) { c.Tenant = "a.b" },
		wire.HeaderStep:        func(c *saga.Command) { c.Step = "" },
		wire.HeaderParticipant: func(c *saga.Command) { c.Participant = ">" },
		wire.HeaderAction:      func(c *saga.Command) { c.Action = "a\nb" },
		wire.HeaderVerb:        func(c *saga.Command) { c.Verb = "x" },
		wire.HeaderPhase:       func(c *saga.Command) { c.Phase = "" },
		wire.HeaderStepKind:    func(c *saga.Command) { c.Kind = "" },
		wire.HeaderTransaction: func(c *saga.Command) { c.Transaction = saga.ID{1} },
		wire.HeaderFloor:       func(c *saga.Command) { c.Floor = saga.ID{1} },
		wire.HeaderAttempt:     func(c *saga.Command) { c.Attempt = 0 },
		wire.HeaderRevision:    func(c *saga.Command) { c.Revision = -1 },
		wire.HeaderTTL:         func(c *saga.Command) { c.Timeout = 2 * time.Hour },
		wire.HeaderDeadline:    func(c *saga.Command) { c.Deadline = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		wire.HeaderReplyTo:     func(c *saga.Command) { c.ReplyTo = "" },
		wire.PartBody:          func(c *saga.Command) { c.Body = make([]byte, wire.BodyBytesMax+1) },
	} {
		c := good
		change(&c)
		_, err := wire.EncodeCommand("saga", c)
		checkEncodeError(t, err, header)
	}
	_, err := wire.EncodeCommand("sa ga", good)
	checkEncodeError(t, err, wire.PartSubject)
}

func TestEncodeReplyRefuses(t *testing.T) {
	for header, change := range map[string]func(*saga.Reply){
		wire.HeaderTenant:      func(r *saga.Reply) { r.Tenant = "*" },
		wire.HeaderOutcome:     func(r *saga.Reply) { r.Outcome = "fine" },
		wire.HeaderState:       func(r *saga.Reply) { r.Outcome = saga.OutcomeState },
		wire.HeaderCode:        func(r *saga.Reply) { r.Outcome = saga.OutcomeFault },
		wire.HeaderRetryAfter:  func(r *saga.Reply) { r.RetryAfter = -1 },
		wire.HeaderContentType: func(r *saga.Reply) { r.Result.Type = strings.Repeat("x", 256) },
		wire.PartSubject:       func(r *saga.Reply) { r.Participant = "other" },
		wire.PartBody:          func(r *saga.Reply) { r.Result.Data = []byte(`1},"results_base64":{`) },
	} {
		r := goldenReplies()["reply_done"]
		change(&r)
		_, err := wire.EncodeReply(r, "saga.reply.accounts.7")
		checkEncodeError(t, err, header)
	}
	r := goldenReplies()["reply_done"]
	for _, p := range []saga.Payload{{Data: []byte{}}, {Type: "x", Data: make([]byte, saga.ResultBytesMax+1)}} {
		r.Result = p
		_, err := wire.EncodeReply(r, "saga.reply.accounts.7")
		checkEncodeError(t, err, wire.PartBody)
	}
}

func TestDecodeReplyRefusesResults(t *testing.T) {
	m := encodeReply(t, goldenReplies()["reply_done"])
	for _, data := range []string{"", "{", `1},"results_base64":{`, `1 2`, `"` + strings.Repeat("x", saga.ResultBytesMax) + `"`} {
		m.Data = []byte(data)
		_, err := wire.DecodeReply(m)
		if e := checkDecodeError(t, err); e.Header != wire.PartBody {
			t.Errorf("%.20q: %v", data, err)
		}
	}
	_, err := wire.DecodeReply(with(m, wire.HeaderContentType))
	checkDecodeError(t, err)
}

// A value of no bytes is one, unlike no value.
func TestEmptyResultIsAValue(t *testing.T) {
	r := baseReply(saga.OutcomeDone)
	r.Result = saga.Payload{Type: "text/plain", Data: []byte{}}
	m := encodeReply(t, r)
	m.Data = nil // what some transports make of it
	got, err := wire.DecodeReply(m)
	if err != nil || got.Result.IsZero() || got.Result.Type != "text/plain" {
		t.Errorf("got %+v, %v", got.Result, err)
	}
	r.Result = saga.Payload{Type: "text/plain"} // a type alone is none
	if m = encodeReply(t, r); m.Header[wire.HeaderContentType] != nil {
		t.Error("no value has a Content-Type")
	}
}

// application/json is the type of JSON, however the caller says it.
func TestJSONTypeIsTheEmptyType(t *testing.T) {
	r := goldenReplies()["reply_done"]
	r.Result.Type = wire.ContentTypeJSON
	got, err := wire.DecodeReply(encodeReply(t, r))
	if err != nil || got.Result.Type != "" || !bytes.Equal(got.Result.Data, r.Result.Data) {
		t.Errorf("got %+v, %v", got.Result, err)
	}
}

// What tracing did wrong is left out and stops nothing.
func TestBadTraceContextIsLeftOut(t *testing.T) {
	for _, bad := range []string{"a\r\nb", "ü", " a", "a ", strings.Repeat("x", 513)} {
		c := goldenCommands()["command_try"]
		c.Traceparent, c.Tracestate = bad, bad
		m := encodeCommand(t, c)
		if m.Header[wire.HeaderTraceparent] != nil || m.Header[wire.HeaderTracestate] != nil {
			t.Errorf("%q travels", bad)
		}
		got, err := wire.DecodeCommand(with(m, wire.HeaderTraceparent, bad))
		if err != nil || got.Traceparent != "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	c := goldenCommands()["command_try"]
	c.Tracestate = "k=100%41" // legal, and read directly by tracing libraries
	if m := encodeCommand(t, c); m.Header[wire.HeaderTracestate][0] != c.Tracestate {
		t.Error("tracestate was escaped")
	}
}

// The message id of another attempt, verb, phase or outcome is another one (C3).
func TestMessageIDs(t *testing.T) {
	seen := map[string]bool{}
	add := func(m wire.Message) {
		id := m.Header[wire.HeaderMsgID][0]
		if seen[id] {
			t.Errorf("%s occurs twice", id)
		}
		seen[id] = true
	}
	for _, verb := range []saga.Verb{saga.VerbExecute, saga.VerbInquire, saga.VerbReserve} {
		for _, phase := range []saga.Phase{saga.PhaseTry, saga.PhaseConfirm, saga.PhaseCancel} {
			for attempt := 1; attempt < 4; attempt++ {
				c := goldenCommands()["command_try"]
				c.Verb, c.Phase, c.Attempt = verb, phase, attempt
				add(encodeCommand(t, c))
				for _, outcome := range []saga.Outcome{saga.OutcomeRetry, saga.OutcomeDone} {
					r := baseReply(outcome)
					r.Verb, r.Phase, r.Attempt = verb, phase, attempt
					add(encodeReply(t, r))
				}
			}
		}
	}
	for _, question := range []string{"q1", "q2"} { // asked again, within the window in which copies are dropped
		c := goldenCommands()["command_try"]
		c.Verb, c.Attempt, c.Question = saga.VerbInquire, 1, question
		add(encodeCommand(t, c))
		r := baseReply(saga.OutcomeDone)
		r.Verb, r.Question = saga.VerbInquire, question
		add(encodeReply(t, r))
	}
	for _, question := range []string{"reply", "a/b", "-", "a b"} {
		c := goldenCommands()["command_try"]
		c.Verb, c.Question = saga.VerbInquire, question
		if m, err := wire.EncodeCommand("saga", c); err == nil {
			t.Errorf("the question %q travels as %s", question, m.Header[wire.HeaderMsgID])
		}
	}
	first, second := goldenReplies()["reply_done"], goldenReplies()["reply_done"]
	second.Replayed = true
	if id := wire.HeaderMsgID; encodeReply(t, first).Header[id][0] != encodeReply(t, second).Header[id][0] {
		t.Error("a redelivery's answer is no duplicate of the first")
	}
}

func TestCanonicalIsInjective(t *testing.T) {
	m := wire.Message{Header: wire.Header{wire.HeaderVerb: {"a\nb"}}}
	n := wire.Message{Header: wire.Header{wire.HeaderVerb: {"a"}, wire.HeaderTenant: {"b"}}}
	if bytes.Equal(wire.Canonical(m), wire.Canonical(n)) {
		t.Error("a line break in a value poses as the next value")
	}
	signed := wire.Canonical(encodeCommand(t, goldenCommands()["command_try"]))
	unsigned := with(encodeCommand(t, goldenCommands()["command_try"]), wire.HeaderTraceparent, "x")
	if !bytes.Equal(signed, wire.Canonical(with(unsigned, wire.HeaderSignature, "y"))) {
		t.Error("trace context or the signature itself is signed")
	}
}
