package wire_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// The golden files are a frozen contract. Participants that run today, in any language, read and write these
// messages: a change in a golden file breaks them. Only files may be added.
var update = flag.Bool("update", false, "rewrite the golden files; see the comment before you do")

const frozen = "# Frozen: participants in the field depend on these bytes. Add files, never change one.\n"

// messageText writes a message readably: subject, headers in order of their names, a blank line, the body.
func messageText(m wire.Message) []byte {
	b := []byte("subject: " + m.Subject + "\n")
	names := make([]string, 0, len(m.Header))
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range m.Header[name] {
			b = append(b, name+": "+value+"\n"...)
		}
	}
	return append(append(b, '\n'), m.Data...)
}

// parseMessageText reads what messageText wrote, as a transport would: lines without a colon are skipped.
func parseMessageText(text []byte) wire.Message {
	head, body, _ := bytes.Cut(text, []byte("\n\n"))
	m := wire.Message{Header: wire.Header{}, Data: body}
	for line := range strings.SplitSeq(string(head), "\n") {
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case !ok || strings.HasPrefix(line, "#"):
		case name == "subject":
			m.Subject = value
		default:
			m.Header[name] = append(m.Header[name], value)
		}
	}
	return m
}

func goldenPath(name string) string { return filepath.Join("testdata", name+".golden") }

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	got = append([]byte(frozen), got...)
	if *update {
		if err := os.WriteFile(goldenPath(name), got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenPath(name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from its golden file. Got:\n%s\nWant:\n%s", name, got, want)
	}
}

func mustID(s string) saga.ID {
	id, err := saga.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

var (
	testID    = mustID("0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f")
	testFloor = mustID("0198c7a2-0000-7000-8000-000000000001")
)

func baseCommand() saga.Command {
	return saga.Command{
		Verb: saga.VerbExecute, Tenant: "acme", Transaction: testID, Step: "debit", Phase: saga.PhaseTry,
		Kind: saga.KindTCC, Participant: "accounts", Action: "debit", Attempt: 1, Revision: 1,
		Deadline: time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.UTC), Timeout: 10 * time.Second,
		Floor: testFloor, ReplyTo: "saga.reply.accounts.7",
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Tracestate:  "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
		Body: saga.TryBody(saga.Payload{Data: []byte(`{"account": "A-1", "amount": 12345678901234567890}`)},
			[]saga.NamedPayload{{Step: "quote", Payload: saga.Payload{Data: []byte(`{"rate":1.50}`)}}}),
	}
}

// sealed sets the content hash.
func sealed(c saga.Command) saga.Command {
	c.ContentSHA256 = saga.ContentSHA256(c.Action, c.Body)
	return c
}

func goldenCommands() map[string]saga.Command {
	settle := func(phase saga.Phase, try saga.Payload) saga.Command {
		c := baseCommand()
		c.Phase, c.Deadline, c.Tracestate = phase, time.Time{}, ""
		c.Body = saga.SettleBody(saga.Payload{Data: []byte(`{"account": "A-1", "amount": 12345678901234567890}`)}, try)
		return c
	}
	confirm := settle(saga.PhaseConfirm, saga.Payload{Data: []byte(`{"hold":"h-77"}`)})
	confirm.Attempt, confirm.Revision, confirm.Timeout = 2, 2, 1500*time.Millisecond // the timeout travels as 2s
	cancel := settle(saga.PhaseCancel, saga.Payload{})
	cancel.Floor, cancel.Traceparent = saga.ID{}, ""
	inquire := baseCommand()
	inquire.Verb, inquire.Attempt = saga.VerbInquire, 4
	reserve := settle(saga.PhaseCancel, saga.Payload{Type: "application/pdf", Data: []byte("%PDF-1.7")})
	reserve.Verb, reserve.Attempt, reserve.Revision, reserve.Kind = saga.VerbReserve, 31, 1, saga.KindSaga
	unchecked := settle(saga.PhaseConfirm, saga.Payload{})
	unchecked.Verb, unchecked.Body = saga.VerbInquire, nil
	minimal := baseCommand()
	minimal.Kind, minimal.Step, minimal.Action = saga.KindRetriable, "notify", "send_mail"
	minimal.Deadline, minimal.Timeout, minimal.Floor = time.Time{}, 0, saga.ID{}
	minimal.Traceparent, minimal.Tracestate = "", ""
	minimal.Body = saga.TryBody(saga.Payload{}, nil)
	commands := map[string]saga.Command{
		"command_try": baseCommand(), "command_confirm": confirm, "command_cancel": cancel,
		"command_inquire": inquire, "command_inquire_unchecked": unchecked, "command_reserve": reserve, "command_minimal": minimal,
	}
	for name, c := range commands {
		if c.Body != nil {
			commands[name] = sealed(c)
		}
	}
	return commands
}

func baseReply(outcome saga.Outcome) saga.Reply {
	c := sealed(baseCommand())
	return saga.Reply{
		Verb: c.Verb, Tenant: c.Tenant, Transaction: c.Transaction, Step: c.Step, Phase: c.Phase,
		Participant: c.Participant, Attempt: c.Attempt, Revision: c.Revision, ContentSHA256: c.ContentSHA256,
		Outcome: outcome,
	}
}

func goldenReplies() map[string]saga.Reply {
	done := baseReply(saga.OutcomeDone)
	done.Result, done.Traceparent = saga.Payload{Data: []byte(`{"hold":"h-77"}`)}, baseCommand().Traceparent
	replayed := done
	replayed.Attempt, replayed.Replayed = 2, true
	binary := baseReply(saga.OutcomeDone)
	binary.Result = saga.Payload{Type: "text/plain; charset=utf-8", Data: []byte{}}
	plain := baseReply(saga.OutcomeDone)
	plain.Phase = saga.PhaseConfirm
	refused := baseReply(saga.OutcomeRefused)
	refused.Code, refused.Reason = "insufficient_funds", "100 % of Zoë's money\r\nis held "
	retry := baseReply(saga.OutcomeRetry)
	retry.Code, retry.Reason, retry.RetryAfter = saga.CodeBusy, "lock timeout", 1500*time.Millisecond
	inProgress := baseReply(saga.OutcomeInProgress)
	inProgress.RetryAfter = 30 * time.Second
	fault := baseReply(saga.OutcomeFault)
	fault.Phase, fault.Code, fault.Reason = saga.PhaseConfirm, saga.FaultNotTried, "no try is recorded"
	contradicts := baseReply(saga.OutcomeFault)
	contradicts.Phase, contradicts.Code, contradicts.Result = saga.PhaseCancel, saga.FaultContradicts, done.Result
	state := baseReply(saga.OutcomeState)
	state.Verb, state.Attempt, state.State, state.Result = saga.VerbInquire, 4, saga.BarrierTried, done.Result
	reserved := baseReply(saga.OutcomeReserved)
	reserved.Verb, reserved.Phase, reserved.Attempt, reserved.Revision = saga.VerbReserve, saga.PhaseCancel, 31, 1
	return map[string]saga.Reply{
		"reply_done": done, "reply_done_replayed": replayed, "reply_done_empty_text": binary,
		"reply_done_no_result": plain, "reply_refused": refused, "reply_retry": retry,
		"reply_in_progress": inProgress, "reply_unknown": baseReply(saga.OutcomeUnknown),
		"reply_hanging": baseReply(saga.OutcomeHanging), "reply_fault": fault,
		"reply_fault_contradicts": contradicts, "reply_state": state, "reply_reserved": reserved,
	}
}

func TestGoldenCommands(t *testing.T) {
	for name, c := range goldenCommands() {
		t.Run(name, func(t *testing.T) {
			m := encodeCommand(t, c)
			checkGolden(t, name, messageText(m))
			text, err := os.ReadFile(goldenPath(name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.DecodeCommand(parseMessageText(text))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Body) == 0 {
				got.Body = nil
			}
			sameCommand(t, got, asDecoded(c))
		})
	}
}

func TestGoldenReplies(t *testing.T) {
	for name, r := range goldenReplies() {
		t.Run(name, func(t *testing.T) {
			m := encodeReply(t, r)
			checkGolden(t, name, messageText(m))
			text, err := os.ReadFile(goldenPath(name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.DecodeReply(parseMessageText(text))
			if err != nil {
				t.Fatal(err)
			}
			sameReply(t, got, r)
		})
	}
}

func TestGoldenCanonical(t *testing.T) {
	checkGolden(t, "canonical_command", wire.Canonical(encodeCommand(t, goldenCommands()["command_try"])))
	checkGolden(t, "canonical_reply", wire.Canonical(encodeReply(t, goldenReplies()["reply_refused"])))
}

// Every golden file has its test: one that nothing writes any more would no longer be held.
func TestGoldenFilesAreAllUsed(t *testing.T) {
	files, err := filepath.Glob(goldenPath("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".golden")
		_, command := goldenCommands()[name]
		_, reply := goldenReplies()[name]
		_, event := goldenEvents()[name]
		if !command && !reply && !event && !strings.HasPrefix(name, "canonical_") {
			t.Errorf("%s belongs to no test", file)
		}
	}
}
