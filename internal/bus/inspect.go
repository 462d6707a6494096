package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Send publishes one message, waits for its PubAck, and returns the number that the message has in its stream. It is
// for those who want to follow one message; everybody else uses Publish.
func (b *Bus) Send(ctx context.Context, m Message) (sequence uint64, err error) {
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Data})
	if err != nil {
		return 0, publishError(err)
	}
	return ack.Sequence, nil
}

// Holds reports whether a stream still has the message with that number. One that is gone from a work queue was
// acknowledged or terminated, or its life was over.
func (b *Bus) Holds(ctx context.Context, s Stream, sequence uint64) (bool, error) {
	stream, err := b.stream(ctx, s)
	if err != nil {
		return false, err
	}
	switch _, err = stream.GetMsg(ctx, sequence); {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("bus: look up message %d of stream %s: %w", sequence, b.StreamName(s), err)
	}
	return true, nil
}

// Messages returns how many messages a stream has, anchors not counted.
func (b *Bus) Messages(ctx context.Context, s Stream) (int, error) {
	stream, err := b.stream(ctx, s)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(b.cfg.Prefix+"."+string(s)+".>"))
	if err != nil {
		return 0, fmt.Errorf("bus: look up the messages of stream %s: %w", b.StreamName(s), err)
	}
	n := 0
	for subject, messages := range info.State.Subjects {
		if !IsAnchor(subject, nil) {
			n += int(messages)
		}
	}
	return n, nil
}

// Consumers returns how many consumers a stream has, those that nobody uses at the moment included.
func (b *Bus) Consumers(ctx context.Context, s Stream) (int, error) {
	stream, err := b.stream(ctx, s)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Consumers, nil
}

// Purge removes the messages of one subject, which may have wildcards, from a stream.
func (b *Bus) Purge(ctx context.Context, s Stream, subject string) error {
	stream, err := b.stream(ctx, s)
	if err != nil {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		return fmt.Errorf("bus: purge %s from stream %s: %w", subject, b.StreamName(s), err)
	}
	return nil
}

func (b *Bus) stream(ctx context.Context, s Stream) (jetstream.Stream, error) {
	stream, err := b.js.Stream(ctx, b.StreamName(s))
	if err != nil {
		return nil, fmt.Errorf("bus: look up stream %s: %w", b.StreamName(s), err)
	}
	return stream, nil
}
