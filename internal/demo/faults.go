package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/bus"
	"github.com/sagacity-tx/sagacity/saga"
)

// Scenarios in which something breaks.

// lostReply holds back the coordinator's replies until the participant has answered, and then throws them
// away: to the coordinator the outcome is unknown, and only the participant knows that it happened.
func lostReply(ctx context.Context, w *World) (string, error) {
	js, err := jetstream.New(w.NATS)
	if err != nil {
		return "", err
	}
	stream := w.probe.commands.StreamName(bus.Replies)
	if err := w.awaitReplies(ctx, "all earlier replies were taken", false); err != nil {
		return "", err
	}
	resume, err := holdBack(ctx, js, stream)
	if err != nil {
		return "", err
	}
	id, err := w.submit(ctx, w.saga(bank.Wish{}, bank.Wish{}))
	if err == nil {
		err = w.loseReply(ctx, js, stream)
	}
	if err := errors.Join(err, resume()); err != nil {
		return "", err
	}
	tx, err := w.Client.Wait(ctx, id)
	if err != nil {
		return "", err
	}
	runs, err := w.runs(ctx, w.A, id, "take", saga.PhaseTry)
	if err != nil {
		return "", err
	}
	first, err := w.firstOutcome(ctx, id)
	return fmt.Sprintf("%s, then %s; the try %s", first, tx.Status, times(runs)), err
}

// holdBack pauses all consumers of a stream until resume is called.
func holdBack(ctx context.Context, js jetstream.JetStream, name string) (resume func() error, err error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	var held []string
	resume = func() error {
		var errs []error
		for _, consumer := range held {
			_, err := js.ResumeConsumer(context.WithoutCancel(ctx), name, consumer)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	consumers := stream.ConsumerNames(ctx)
	for consumer := range consumers.Name() {
		if _, err := js.PauseConsumer(ctx, name, consumer, time.Now().Add(scenarioTimeout)); err != nil {
			return nil, errors.Join(err, resume())
		}
		held = append(held, consumer)
	}
	if err := consumers.Err(); err != nil {
		return nil, errors.Join(err, resume())
	}
	return resume, nil
}

// loseReply waits until a reply is in the stream and throws it away.
func (w *World) loseReply(ctx context.Context, js jetstream.JetStream, name string) error {
	if err := w.awaitReplies(ctx, "the participant has replied", true); err != nil {
		return err
	}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	return stream.Purge(ctx)
}

// awaitReplies waits until there are replies in the stream, or none.
func (w *World) awaitReplies(ctx context.Context, what string, some bool) error {
	return poll(ctx, what, func() (bool, error) {
		n, err := w.probe.commands.Messages(ctx, bus.Replies)
		return err == nil && n > 0 == some, err
	})
}

// firstOutcome is how the first attempt that did not settle its operation ended.
func (w *World) firstOutcome(ctx context.Context, id saga.ID) (string, error) {
	attempts, err := w.Client.Attempts(ctx, id)
	if err != nil || len(attempts) == 0 {
		return "no attempt lost", err
	}
	return string(attempts[0].Outcome), nil
}

// participantDown stops bank B until an attempt has timed out.
func participantDown(ctx context.Context, w *World) (string, error) {
	before, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	if err := w.B.Stop(); err != nil {
		return "", err
	}
	id, err := w.submit(ctx, w.saga(bank.Wish{}, bank.Wish{}))
	if err == nil {
		err = poll(ctx, "an attempt has timed out", func() (bool, error) {
			attempts, err := w.Client.Attempts(ctx, id)
			return len(attempts) > 0, err
		})
	}
	if err := errors.Join(err, w.B.Start()); err != nil {
		return "", err
	}
	tx, err := w.Client.Wait(ctx, id)
	if err != nil {
		return "", err
	}
	first, err := w.firstOutcome(ctx, id)
	if err != nil {
		return "", err
	}
	moved, err := w.moved(ctx, before)
	return fmt.Sprintf("%s, then %s; %s", first, tx.Status, moved), err
}

// panicReplay lets a handler panic until its operation is a dead letter, repairs it, and replays.
func panicReplay(ctx context.Context, w *World) (string, error) {
	const broken = "demo-broken"
	before, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	if err := bank.Switch(ctx, w.B.Pool, broken, true); err != nil {
		return "", err
	}
	t := w.saga(bank.Wish{}, bank.Wish{PanicWhile: broken})
	def := saga.Define("panics").Saga("take", w.A.Name, bank.ActionWithdraw, quick...).
		Saga("give", w.B.Name, bank.ActionDeposit, append(quick, saga.Attempts(3))...).MustBuild()
	t.def = def
	id, err := w.submit(ctx, t)
	if err != nil {
		return "", err
	}
	letter, err := w.deadLetter(ctx, id)
	if err != nil {
		return "", err
	}
	if err := bank.Switch(ctx, w.B.Pool, broken, false); err != nil {
		return "", err
	}
	if err := w.Client.Replay(ctx, letter.ID, letter.Version, "the handler is repaired"); err != nil {
		return "", err
	}
	tx, err := w.Client.Wait(ctx, id)
	if err != nil {
		return "", err
	}
	moved, err := w.moved(ctx, before)
	return fmt.Sprintf("dead letter (%s), replayed, %s; %s", letter.Cause, tx.Status, moved), err
}

// deadLetter waits for the open dead letter of a transaction.
func (w *World) deadLetter(ctx context.Context, id saga.ID) (client.DeadLetter, error) {
	var found client.DeadLetter
	err := poll(ctx, "there is a dead letter", func() (bool, error) {
		page, err := w.Client.DeadLetters(ctx, client.DeadLetterFilter{Transaction: id, Status: saga.DeadLetterOpen})
		if err != nil || len(page.DeadLetters) == 0 {
			return false, err
		}
		found = page.DeadLetters[0]
		return true, nil
	})
	return found, err
}
