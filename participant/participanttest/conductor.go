package participanttest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// What JetStream answers to a publisher, as the address that loses replies does.
const (
	pubAckRefused = `{"type":"io.nats.jetstream.api.v1.pub_ack_response","error":{"code":503,"err_code":10077,"description":"the reply is lost on purpose"}}`
	pubAckStored  = `{"type":"io.nats.jetstream.api.v1.pub_ack_response","stream":"PARTICIPANTTEST","seq":1}`
)

// conductor plays the coordinator: it sends commands and gets their replies. It listens to the reply subjects as a
// plain subscriber, so that it sees every reply that is published, also one that JetStream drops as a duplicate.
type conductor struct {
	cfg  Config
	bus  *bus.Bus
	lost string // prefix of the address that loses replies
	subs []*nats.Subscription

	mu        sync.Mutex
	boxes     map[string]*mailbox // by reply subject
	shard     int
	ids       map[string]bool // message ids that were used
	elsewhere string          // subject of a reply that nobody asked for

	replies replies
}

// mailbox is where the reply to one command is expected.
type mailbox struct {
	letters chan answer
	cmd     saga.Command
	lost    bool
	stores  atomic.Bool // of one that loses replies: it does not any more
}

const lettersMax = 64

// newConductor makes the streams that are missing and listens. A coordinator that runs on the same prefix is an
// error: it would take the replies, and make incidents of them.
func newConductor(ctx context.Context, c Config) (*conductor, error) {
	b, err := bus.New(c.NATS, bus.Config{Prefix: c.Prefix, Manage: bus.ManageMissing, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	k := &conductor{cfg: c, bus: b, lost: "lost-" + strings.ToLower(rand.Text()[:8]), boxes: map[string]*mailbox{}, ids: map[string]bool{}}
	k.replies.ids = map[string]origin{}
	if err := k.listen(ctx); err != nil {
		return nil, errors.Join(err, k.close(ctx))
	}
	return k, nil
}

func (k *conductor) listen(ctx context.Context) error {
	if err := k.bus.EnsureStreams(ctx); err != nil {
		return err
	}
	consumers, err := k.bus.Consumers(ctx, bus.Replies)
	if err != nil {
		return err
	}
	if consumers > 0 {
		return fmt.Errorf("stream %s has a consumer: a coordinator runs on the prefix %q, or has; "+
			"run the participant on another prefix, or on a NATS server of the test's own", k.bus.StreamName(bus.Replies), k.cfg.Prefix)
	}
	for _, prefix := range []string{k.cfg.Prefix, k.lost} {
		sub, err := k.cfg.NATS.Subscribe(prefix+".reply.*.*", k.receive)
		if err != nil {
			return err
		}
		k.subs = append(k.subs, sub)
	}
	return k.cfg.NATS.FlushTimeout(k.cfg.Patience) // the server knows the subscriptions
}

// close ends listening and removes the replies from the stream: nobody else will.
func (k *conductor) close(ctx context.Context) error {
	var errs []error
	for _, sub := range k.subs {
		errs = append(errs, sub.Unsubscribe())
	}
	if len(k.subs) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.Patience)
		defer cancel()
		errs = append(errs, k.bus.Purge(ctx, bus.Replies, k.cfg.Prefix+".reply."+k.cfg.Participant+".*"))
	}
	k.bus.Close()
	return errors.Join(errs...)
}

// receive gets every reply that is published.
func (k *conductor) receive(m *nats.Msg) {
	if bus.IsAnchor(m.Subject, m.Data) {
		return
	}
	k.mu.Lock()
	box := k.boxes[m.Subject]
	if box == nil {
		k.elsewhere = m.Subject
	}
	k.mu.Unlock()
	if box == nil {
		return
	}
	if box.lost && m.Reply != "" {
		ack := pubAckRefused
		if box.stores.Load() {
			ack = pubAckStored
		}
		_ = m.Respond([]byte(ack)) // if it is lost the participant waits, as it may have to
	}
	a := readAnswer(m)
	k.replies.see(box.cmd, a)
	select {
	case box.letters <- a:
	default: // nobody reads so many
	}
}

// address gives a command an address of its own for its reply.
func (k *conductor) address(cmd *saga.Command, lost bool) *mailbox {
	prefix := k.cfg.Prefix
	if lost {
		prefix = k.lost
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	cmd.ReplyTo = wire.ReplySubject(prefix, k.cfg.Participant, k.shard)
	k.shard = (k.shard + 1) % wire.ShardsMax
	box := &mailbox{letters: make(chan answer, lettersMax), cmd: *cmd, lost: lost}
	k.boxes[cmd.ReplyTo] = box
	return box
}

// message encodes a command. A copy of an attempt gets a message id of its own, or JetStream would drop it.
func (k *conductor) message(cmd saga.Command) (bus.Message, error) {
	m, err := wire.EncodeCommand(k.cfg.Prefix, cmd)
	if err != nil {
		return m, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	id := m.Header[wire.HeaderMsgID][0]
	if k.ids[id] {
		id += "/copy/" + rand.Text()[:8]
		m.Header[wire.HeaderMsgID] = []string{id}
	}
	k.ids[id] = true
	return m, nil
}

// post sends commands in this order, and returns where their replies will be.
func (k *conductor) post(ctx context.Context, cmds ...saga.Command) ([]*mailbox, error) {
	boxes, msgs := make([]*mailbox, len(cmds)), make([]bus.Message, len(cmds))
	for i, cmd := range cmds {
		boxes[i] = k.address(&cmd, false)
		var err error
		if msgs[i], err = k.message(cmd); err != nil {
			return nil, err
		}
	}
	acks := make(chan error, len(msgs))
	k.bus.Publish(ctx, msgs, func(_ int, err error) { acks <- err })
	var err error
	for range msgs {
		err = errors.Join(err, <-acks)
	}
	return boxes, err
}

// postLost sends a command whose reply is lost: it gets no PubAck until the mailbox stores. sequence is the number of
// the command in its stream.
func (k *conductor) postLost(ctx context.Context, cmd saga.Command) (box *mailbox, sequence uint64, err error) {
	box = k.address(&cmd, true)
	m, err := k.message(cmd)
	if err != nil {
		return nil, 0, err
	}
	sequence, err = k.bus.Send(ctx, m)
	return box, sequence, err
}

// read waits so long for the reply to a command. That none comes is an answer too.
func (k *conductor) read(ctx context.Context, box *mailbox, patience time.Duration) (answer, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var odd answer
	for {
		select {
		case a := <-box.letters:
			if a.problem == "" && !a.answers(box.cmd) {
				odd = answer{problem: fmt.Sprintf("a reply about %s, attempt %d, to the address of %s, attempt %d",
					a.reply.Key(), a.reply.Attempt, box.cmd.Key(), box.cmd.Attempt)}
				continue
			}
			return a, nil
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		case <-timer.C:
		}
		if odd.problem != "" {
			return odd, nil
		}
		return k.silence(patience), nil
	}
}

func (k *conductor) silence(patience time.Duration) answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := answer{silent: true, problem: fmt.Sprintf("no reply within %s", patience)}
	if k.elsewhere != "" {
		a.problem += fmt.Sprintf(" on the subject of Saga-Reply-To; something came on %q instead", k.elsewhere)
	}
	return a
}
