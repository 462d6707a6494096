package bus

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream keeps messages in block files. A work queue that runs empty throws its last block away and makes a new
// one: with few messages under way that is a file for each acknowledged message, and a third of all the time that it takes
// to serve one client. So whoever publishes commands or replies leaves an anchor now and then: a message that nobody
// consumes, which keeps the last block and which the server itself removes after a while.

const (
	anchorToken = "_" // the last part of its subject: no participant has that name, and shards are numbers
	anchorTTL   = 3 * time.Second
	anchorEvery = time.Second // less than anchorTTL, so that a busy queue is never without
	anchorAfter = 100         // messages since the last one: when a block is full, the next one has none
)

// anchor is the state of one work queue that a bus publishes to.
type anchor struct {
	prefix   string       // of the queue's subjects
	next     atomic.Int64 // time in nanoseconds since the epoch when another one is due
	messages atomic.Int64 // published since the last one
}

// anchors are those of the queues that carry every operation. Submissions are few beside them, and who may publish for one
// tenant only could leave none.
type anchors [2]anchor

func (a *anchors) init(prefix string) {
	for i, s := range []Stream{Commands, Replies} {
		a[i].prefix = prefix + "." + string(s) + "."
	}
}

// due reports, to one caller only, that one more message calls for an anchor.
func (a *anchor) due(now time.Time) bool {
	next := a.next.Load()
	if a.messages.Add(1) < anchorAfter && now.UnixNano() < next {
		return false
	}
	if !a.next.CompareAndSwap(next, now.Add(anchorEvery).UnixNano()) {
		return false
	}
	a.messages.Store(0)
	return true
}

// leaveAnchor leaves an anchor behind a published message of a work queue, if one is due. Nobody waits for it, and nothing
// depends on it.
func (b *Bus) leaveAnchor(m *nats.Msg) {
	for i := range b.anchors {
		a := &b.anchors[i]
		if !strings.HasPrefix(m.Subject, a.prefix) || !a.due(time.Now()) {
			continue
		}
		last := strings.LastIndexByte(m.Subject, '.')
		left := nats.NewMsg(m.Subject[:last+1] + anchorToken)
		left.Header.Set(jetstream.MsgTTLHeader, anchorTTL.String())
		if err := b.nc.PublishMsg(left); err != nil {
			b.log.Debug("an anchor could not be left", "subject", left.Subject, "error", err)
		}
	}
}

// IsAnchor reports whether a message of the queue of commands or replies is an anchor.
func IsAnchor(subject string, data []byte) bool {
	return len(data) == 0 && strings.HasSuffix(subject, "."+anchorToken)
}
