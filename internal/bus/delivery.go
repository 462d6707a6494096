package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Delivery is a message that a consumer got. It must be settled exactly once, by Ack, AckSync, Nak, Term
// or Leave, from any goroutine and at any time; until then it counts against MaxAckPending. Further
// calls to settle it do nothing.
type Delivery struct {
	Message
	msg     jetstream.Msg
	settled atomic.Bool
	free    func() // gives the place back
}

// NumDelivered returns how often the message has been delivered, this time included; 1 for a first
// delivery, and when the server did not say.
func (d *Delivery) NumDelivered() uint64 {
	if m := d.metadata(); m != nil {
		return m.NumDelivered
	}
	return 1
}

// Sequence returns the message's number in its stream, 0 when the server did not say. Numbers start again
// when a stream is lost.
func (d *Delivery) Sequence() uint64 {
	if m := d.metadata(); m != nil {
		return m.Sequence.Stream
	}
	return 0
}

// Stored returns when the stream stored the message, by the server's clock; zero when it did not say.
func (d *Delivery) Stored() time.Time {
	if m := d.metadata(); m != nil {
		return m.Timestamp
	}
	return time.Time{}
}

// metadata parses the delivery's reply subject. It is called rarely, so it is not kept.
func (d *Delivery) metadata() *jetstream.MsgMetadata {
	m, err := d.msg.Metadata()
	if err != nil {
		return nil
	}
	return m
}

// Ack says that the message is done. It is sent without waiting: when it is lost the message comes again.
func (d *Delivery) Ack() error { return d.settle(d.msg.Ack) }

// AckSync says that the message is done and waits until the server knows.
func (d *Delivery) AckSync(ctx context.Context) error {
	return d.settle(func() error { return d.msg.DoubleAck(ctx) })
}

// Nak gives the message back, to be delivered again at once. It is not for retries, which belong to the
// database (C4), but for a message that was taken and will not be looked at.
func (d *Delivery) Nak() error { return d.settle(d.msg.Nak) }

// Term says that the message can never be handled. It is not delivered again.
func (d *Delivery) Term(reason string) error {
	return d.settle(func() error { return d.msg.TermWithReason(reason) })
}

// Leave says nothing: the message comes again after AckWait.
func (d *Delivery) Leave() { _ = d.settle(func() error { return nil }) }

// InProgress starts AckWait anew. It does not settle the message.
func (d *Delivery) InProgress() error {
	if d.settled.Load() {
		return nil
	}
	return d.msg.InProgress()
}

func (d *Delivery) settle(how func() error) error {
	if !d.settled.CompareAndSwap(false, true) {
		return nil
	}
	defer d.free()
	if err := how(); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return publishError(err)
	}
	return nil
}
