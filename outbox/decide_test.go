package outbox

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

func TestResultOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want result
	}{
		{nil, acknowledged},
		{fmt.Errorf("%w: x", bus.ErrTooLarge), permanent},
		{bus.ErrInvalid, permanent},
		{bus.ErrFull, blocked},
		{bus.ErrNoStream, blocked},
		{bus.ErrTimeout, transient},
		{bus.ErrDisconnected, transient},
		{bus.ErrClosed, transient},
		{errors.New("x"), transient},
	} {
		if got := resultOf(c.err); got != c.want {
			t.Errorf("resultOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestRetryDelayGrowsWithAge(t *testing.T) {
	for _, c := range []struct {
		res  result
		age  time.Duration
		want time.Duration // without jitter
	}{
		{transient, 0, transientDelayMin},
		{transient, 4 * time.Second, 2 * time.Second},
		{transient, time.Hour, transientDelayMax},
		{blocked, 0, blockedDelayMin},
		{blocked, time.Minute, 30 * time.Second},
		{blocked, time.Hour, blockedDelayMax},
		{permanent, 0, permanentDelay},
	} {
		if got := retryDelay(c.res, c.age, 0.5); got != c.want {
			t.Errorf("retryDelay(%d, %s) = %s, want %s", c.res, c.age, got, c.want)
		}
		lo, hi := retryDelay(c.res, c.age, 0), retryDelay(c.res, c.age, 0.999999)
		if lo >= c.want || hi <= c.want || lo < c.want*8/10-1 || hi > c.want*12/10+1 {
			t.Errorf("jitter from %s to %s around %s", lo, hi, c.want)
		}
	}
}

func TestPollRoom(t *testing.T) {
	limit := usage{count: 1000, bytes: 10 << 20}
	for name, c := range map[string]struct {
		failing bool
		use     usage
		want    usage
	}{
		"free":         {false, usage{}, usage{100, 5 << 20}},
		"failing":      {true, usage{}, usage{pollProbe, 5 << 20}},
		"nearly full":  {false, usage{495, 0}, usage{5, 5 << 20}},
		"half in use":  {false, usage{500, 0}, usage{}},
		"half in size": {false, usage{1, 5 << 20}, usage{}},
	} {
		if got := pollRoom(100, c.failing, c.use, limit); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestSweep(t *testing.T) {
	now, interval, id := time.Unix(1000, 0), time.Second, uuid.UUID{1}
	room := usage{count: 10, bytes: 10 << 20}
	full := claimed{count: 10, last: id}
	first, wait := sweep{}.next(full, room, now, interval, 0.5)
	if first.after != id || !first.began.Equal(now) || wait != 0 {
		t.Errorf("a full poll: %+v, %s", first, wait)
	}
	if s, wait := first.next(claimed{count: 9, last: id}, room, now, interval, 0.5); s != (sweep{}) || wait != interval {
		t.Errorf("the last of a pass: %+v, %s", s, wait)
	}
	if s, wait := first.next(claimed{}, room, now, interval, 0.5); s != (sweep{}) || wait != interval {
		t.Errorf("nothing: %+v, %s", s, wait)
	}
	if s, wait := first.next(claimed{count: 3, bytes: 9<<20 + 1, last: id}, room, now, interval, 0.5); s.after != id || wait != 0 {
		t.Errorf("full in bytes: %+v, %s", s, wait)
	}
	if s, wait := first.next(full, room, now.Add(sweepMax+1), interval, 0.5); s != (sweep{}) || wait != 0 {
		t.Errorf("a long pass: %+v, %s", s, wait)
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
