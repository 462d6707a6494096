package bench

import (
	"context"
	"log/slog"

	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// RunNoop answers every command of a participant with done, at once and without a database: what remains is
// the coordinator's own cost. It has no barrier, so it is for measuring only.
func RunNoop(ctx context.Context, b *bus.Bus, name string, log *slog.Logger) error {
	consumer := bus.Consumer{
		Stream: bus.Commands, Durable: name, MaxAckPending: 4096, MaxBatch: 512,
		FilterSubjects: []string{wire.CommandSubject(b.Prefix(), name)},
	}
	return b.Consume(ctx, consumer, func(d *bus.Delivery) {
		c, err := wire.DecodeCommand(d.Message)
		if err != nil {
			log.Error("an undecodable command", "error", err)
			_ = d.Term("undecodable")
			return
		}
		m, err := wire.EncodeReply(saga.Reply{
			Verb: c.Verb, Tenant: c.Tenant, Transaction: c.Transaction, Step: c.Step, Phase: c.Phase, Participant: name,
			Attempt: c.Attempt, Revision: c.Revision, ContentSHA256: c.ContentSHA256, Outcome: saga.OutcomeDone,
		}, c.ReplyTo)
		if err != nil {
			log.Error("a reply cannot be encoded", "error", err)
			_ = d.Term("reply")
			return
		}
		b.Publish(ctx, []bus.Message{m}, func(_ int, err error) {
			if err != nil {
				d.Leave()
				return
			}
			_ = d.Ack()
		})
	})
}
