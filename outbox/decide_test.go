package outbox

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga/relay"
)

func TestResultOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want relay.Result
	}{
		{nil, relay.Acknowledged},
		{fmt.Errorf("%w: x", bus.ErrTooLarge), relay.Permanent},
		{bus.ErrInvalid, relay.Permanent},
		{bus.ErrFull, relay.Blocked},
		{bus.ErrNoStream, relay.Blocked},
		{bus.ErrTimeout, relay.Transient},
		{bus.ErrDisconnected, relay.Transient},
		{bus.ErrClosed, relay.Transient},
		{errors.New("x"), relay.Transient},
	} {
		if got := resultOf(c.err); got != c.want {
			t.Errorf("resultOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestHeaderText(t *testing.T) {
	header := map[string][]string{"b": {"1", ""}, "A": {"x: y"}, headerMsgID: {"id"}}
	text, id := headerText(header)
	if text != "A: x: y\nb: 1\nb: \n" || id != "id" {
		t.Errorf("%q %q", text, id)
	}
	if got := parseHeader(text, id); !reflect.DeepEqual(got, header) {
		t.Errorf("%v", got)
	}
	// What another program may have inserted.
	got := parseHeader("a:b\r\nno colon\n: no name\nä: b\nc: ä\n d: e\nlast: line", "id")
	want := map[string][]string{"a": {"b"}, "last": {"line"}, headerMsgID: {"id"}}
	if !maps.EqualFunc(got, want, func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("%v", got)
	}
}

func FuzzHeaderText(f *testing.F) {
	f.Add("name", "value", "other")
	f.Fuzz(func(t *testing.T, name, value, other string) {
		header := map[string][]string{name: {value, other}, headerMsgID: {"id"}}
		if name == headerMsgID || headerProblem(name, header[name]) != "" {
			return // refused before it is stored
		}
		text, id := headerText(header)
		if got := parseHeader(text, id); !reflect.DeepEqual(got, header) {
			t.Errorf("%v became %q and %v", header, text, got)
		}
	})
}

// The bound on a message's size is what NATS counts.
func TestSizeIsWhatNATSCounts(t *testing.T) {
	e, err := newEntry(Message{Subject: "s", Header: map[string][]string{"a": {"bc", "d"}, headerMsgID: {"i"}}, Data: []byte("xyz")}, 1<<20, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := len("NATS/1.0\r\na: bc\r\na: d\r\nNats-Msg-Id: i\r\n\r\nxyz") + len("s")
	if e.size != want || sizeOf(e.msg) != want {
		t.Errorf("size %d and %d, want %d", e.size, sizeOf(e.msg), want)
	}
}
