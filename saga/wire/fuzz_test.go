package wire_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// The fuzz targets take a whole message in the form of the golden files.

func addGolden(f *testing.F, pattern string) {
	f.Helper()
	files, err := filepath.Glob(goldenPath(pattern))
	if err != nil || len(files) == 0 {
		f.Fatal("no golden files", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
}

// FuzzDecodeCommand: no message panics, errors name their header, and what decodes encodes to a message that
// decodes to the same command.
func FuzzDecodeCommand(f *testing.F) {
	addGolden(f, "command_*")
	f.Fuzz(func(t *testing.T, text []byte) {
		m := parseMessageText(text)
		wire.Canonical(m)
		c, err := wire.DecodeCommand(m)
		if err != nil {
			checkDecodeError(t, err)
			if wire.Answerable(c) {
				answer(t, c)
			}
			return
		}
		prefix, _, err := wire.ParseCommandSubject(m.Subject)
		if err != nil {
			prefix = "saga"
		}
		again, err := wire.EncodeCommand(prefix, c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		checkHeaders(t, again)
		got, err := wire.DecodeCommand(again)
		if err != nil {
			t.Fatal(err)
		}
		sameCommand(t, got, c)
		twice, err := wire.EncodeCommand(prefix, got)
		if err != nil {
			t.Fatal(err)
		}
		sameMessage(t, twice, again)
		answer(t, c)
	})
}

// answer checks that a fault can be sent for the command.
func answer(t *testing.T, c saga.Command) {
	t.Helper()
	m, err := wire.EncodeReply(saga.Reply{
		Verb: c.Verb, Tenant: c.Tenant, Transaction: c.Transaction, Step: c.Step, Phase: c.Phase,
		Participant: c.Participant, Attempt: c.Attempt, Revision: c.Revision, ContentSHA256: c.ContentSHA256,
		Outcome: saga.OutcomeFault, Code: saga.FaultUndecodable,
	}, c.ReplyTo)
	if err == nil {
		_, err = wire.DecodeReply(m)
	}
	if err != nil {
		t.Fatalf("%+v cannot be answered: %v", c, err)
	}
}

// FuzzDecodeReply: as FuzzDecodeCommand.
func FuzzDecodeReply(f *testing.F) {
	addGolden(f, "reply_*")
	f.Fuzz(func(t *testing.T, text []byte) {
		m := parseMessageText(text)
		r, err := wire.DecodeReply(m)
		if err != nil {
			checkDecodeError(t, err)
			return
		}
		if m.Subject == "" {
			m.Subject = wire.ReplySubject("saga", r.Participant, 0)
		}
		again, err := wire.EncodeReply(r, m.Subject)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		checkHeaders(t, again)
		got, err := wire.DecodeReply(again)
		if err != nil {
			t.Fatal(err)
		}
		sameReply(t, got, r)
		twice, err := wire.EncodeReply(got, m.Subject)
		if err != nil {
			t.Fatal(err)
		}
		sameMessage(t, twice, again)
	})
}

// FuzzParseBody: no body panics, and the parts of one that is accepted encode to the same bytes.
func FuzzParseBody(f *testing.F) {
	pdf := saga.Payload{Type: "application/pdf", Data: []byte("%PDF")}
	number := saga.Payload{Data: []byte(" 9007199254740993 ")}
	f.Add(true, saga.TryBody(saga.Payload{}, nil))
	f.Add(true, saga.TryBody(number, []saga.NamedPayload{{Step: "a", Payload: pdf}, {Step: "b", Payload: number}}))
	f.Add(false, saga.SettleBody(pdf, saga.Payload{}))
	f.Add(false, saga.SettleBody(saga.Payload{Data: []byte(`{"a":"\"}","a":[]}`)}, pdf))
	f.Fuzz(func(t *testing.T, try bool, data []byte) {
		phase := saga.PhaseConfirm
		if try {
			phase = saga.PhaseTry
		}
		b, err := wire.ParseBody(phase, data)
		if err != nil {
			checkDecodeError(t, err)
			if !reflect.DeepEqual(b, wire.Body{}) {
				t.Fatalf("%+v beside an error", b)
			}
			return
		}
		again := saga.SettleBody(b.Input, b.Try)
		if try {
			again = saga.TryBody(b.Input, b.Results)
		}
		if !bytes.Equal(again, data) {
			t.Fatalf("%s was encoded again as\n%s", data, again)
		}
	})
}
