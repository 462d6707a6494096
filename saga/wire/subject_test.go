package wire_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

func TestSubjectsParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9_-]{1,12}`), 1, 4).Draw(t, "prefix"), ".")
		a, b := genName.Draw(t, "a"), genName.Draw(t, "b")
		shard := rapid.IntRange(0, wire.ShardsMax-1).Draw(t, "shard")
		if err := wire.CheckPrefix(prefix); err != nil {
			t.Fatal(err)
		}
		if p, n, err := wire.ParseCommandSubject(wire.CommandSubject(prefix, a)); p != prefix || n != a || err != nil {
			t.Fatalf("command: %q %q %v", p, n, err)
		}
		if p, n, err := wire.ParseSubmitSubject(wire.SubmitSubject(prefix, a)); p != prefix || n != a || err != nil {
			t.Fatalf("submit: %q %q %v", p, n, err)
		}
		if p, n, s, err := wire.ParseReplySubject(wire.ReplySubject(prefix, a, shard)); p != prefix || n != a || s != shard || err != nil {
			t.Fatalf("reply: %q %q %d %v", p, n, s, err)
		}
		if p, n, d, err := wire.ParseEventSubject(wire.EventSubject(prefix, a, b)); p != prefix || n != a || d != b || err != nil {
			t.Fatalf("event: %q %q %q %v", p, n, d, err)
		}
	})
}

func TestSubjectsAreRefused(t *testing.T) {
	for _, subject := range []string{
		"", ".", "saga", "saga.cmd", "saga.cmd.", ".cmd.a", "cmd.a", "saga.cmd.*", "saga.cmd.>", "saga..cmd.a", "saga.cmd.a b",
		"*.cmd.a", "saga.CMD.a", "saga.submit.*", "saga.event.a.>", "saga.event.a", "saga.reply.a", "saga.reply.a.",
		"saga.reply.a.+1", "saga.reply.*.1", "saga\n.cmd.a", "$SYS.cmd.a", strings.Repeat("x", 65) + ".cmd.a",
		strings.Repeat("x.", 1<<16) + "cmd.a",
	} {
		_, _, err := wire.ParseCommandSubject(subject)
		checkDecodeError(t, err)
		_, _, err = wire.ParseSubmitSubject(subject)
		checkDecodeError(t, err)
		_, _, _, err = wire.ParseReplySubject(subject)
		checkDecodeError(t, err)
		_, _, _, err = wire.ParseEventSubject(subject)
		checkDecodeError(t, err)
	}
}

func TestCheckPrefix(t *testing.T) {
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "a b", "*", "a.>", "$JS", "ü", strings.Repeat("a", 65)} {
		if wire.CheckPrefix(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// Shards are within bounds, frozen for a given id, and even.
func TestShard(t *testing.T) {
	if got := wire.Shard(testID, 8); got != 7 {
		t.Errorf("the shard of %s moved to %d", testID, got)
	}
	for _, n := range []int{-1, 0, 1} {
		if wire.Shard(testID, n) != 0 {
			t.Errorf("of %d shards not the first", n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, wire.ShardsMax).Draw(t, "n")
		if shard := wire.Shard(genID.Draw(t, "id"), n); shard < 0 || shard >= n {
			t.Fatalf("shard %d of %d", shard, n)
		}
	})
	id := saga.ID{6: 0x70, 8: 0x80}
	counts := map[int]int{}
	for i := range 1 << 12 {
		id[15], id[14] = byte(i), byte(i>>8)
		counts[wire.Shard(id, 16)]++
	}
	for shard, n := range counts {
		if n != 1<<8 {
			t.Errorf("shard %d has %d of 4096 ids", shard, n)
		}
	}
}
