package wire_test

import (
	"bytes"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func BenchmarkEncodeCommand(b *testing.B) {
	c := goldenCommands()["command_try"]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.EncodeCommand("saga", c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeCommand(b *testing.B) {
	m := encodeCommand(b, goldenCommands()["command_try"])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeCommand(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeReply(b *testing.B) {
	r := goldenReplies()["reply_done"]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.EncodeReply(r, "saga.reply.accounts.7"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	m := encodeReply(b, goldenReplies()["reply_done"])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeReply(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseBody(b *testing.B) {
	small := goldenCommands()["command_try"].Body
	large := saga.TryBody(saga.Payload{Data: []byte(`"` + string(bytes.Repeat([]byte("x"), saga.InputBytesMax-2)) + `"`)}, nil)
	for name, body := range map[string][]byte{"small": small, "128KiB": large} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := wire.ParseBody(saga.PhaseTry, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	m := encodeCommand(b, goldenCommands()["command_try"])
	b.ReportAllocs()
	for b.Loop() {
		wire.Canonical(m)
	}
}

// The hot path's allocations are bounded: a regression fails the tests, not only a benchmark that nobody runs.
func TestAllocations(t *testing.T) {
	c, r := goldenCommands()["command_try"], goldenReplies()["reply_done"]
	command, reply := encodeCommand(t, c), encodeReply(t, r)
	for name, test := range map[string]struct {
		limit float64
		run   func()
	}{
		"encode command": {9, func() { _, _ = wire.EncodeCommand("saga", c) }},
		"decode command": {3, func() { _, _ = wire.DecodeCommand(command) }},
		"encode reply":   {8, func() { _, _ = wire.EncodeReply(r, "saga.reply.accounts.7") }},
		"decode reply":   {2, func() { _, _ = wire.DecodeReply(reply) }},
		"parse body":     {4, func() { _, _ = wire.ParseBody(c.Phase, c.Body) }},
	} {
		if got := testing.AllocsPerRun(100, test.run); got > test.limit {
			t.Errorf("%s allocates %v times, more than %v", name, got, test.limit)
		}
	}
}
