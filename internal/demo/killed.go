package demo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// killedTimeout leaves time for what a killed process had in hand: NATS hands it out again after 30 s.
const killedTimeout = 3 * time.Minute

// killed kills a coordinator and bank B while transfers come in all the time: before, between and after. The bank
// comes back at once, the coordinator only when all is done, so that the other one has to finish its work.
func killed(ctx context.Context, w *World) (string, error) {
	before, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	f := w.feed(ctx)
	err = f.more(ctx)
	if err == nil {
		err = errors.Join(w.Crash.Kill(), f.more(ctx))
	}
	err = errors.Join(err, w.Crash.StartBank())
	if err == nil {
		err = f.more(ctx)
	}
	ids, feedErr := f.end()
	committed := 0
	for _, id := range ids {
		tx, waitErr := w.Client.Wait(ctx, id)
		if waitErr != nil {
			feedErr = errors.Join(feedErr, waitErr)
			break
		}
		if tx.Status == saga.StatusCommitted {
			committed++
		}
	}
	if err := errors.Join(err, feedErr, w.Crash.StartCoordinator()); err != nil {
		return "", err
	}
	now, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	gave, got := before.alice-now.alice, now.bob-before.bob
	if n := len(ids); committed == n && gave == int64(n) && got == int64(n) {
		return "all committed, each moved its cent once", nil
	}
	return fmt.Sprintf("%d of %d committed, alice %+d, bob %+d cents", committed, len(ids), -gave, got), nil
}

// feeder submits transfers of one cent, one after the other, until it is ended.
type feeder struct {
	count atomic.Int64
	stop  context.CancelFunc
	ended chan error
	ids   []saga.ID // when ended
}

const feedPause = 5 * time.Millisecond

func (w *World) feed(ctx context.Context) *feeder {
	// Nothing may give up before the bank is back, however slow the machine is.
	patient := []saga.StepOption{
		saga.AttemptTimeout(2 * time.Second), saga.Attempts(saga.AttemptsMax),
		saga.RetryBackoff(saga.StrategyExponential, 50*time.Millisecond, time.Second),
	}
	t := transfer{
		def: saga.Define("flight").Saga("take", w.A.Name, bank.ActionWithdraw, patient...).
			TCC("give", w.B.Name, bank.ActionCredit, patient...).MustBuild(),
		inputs: map[string]any{
			"take": bank.Move{Account: alice, Cents: 1},
			"give": bank.Move{Account: bob, Cents: 1},
		},
	}
	f := &feeder{ended: make(chan error, 1)}
	run, stop := context.WithCancel(ctx)
	f.stop = stop
	go func() {
		ticker := time.NewTicker(feedPause)
		defer ticker.Stop()
		for run.Err() == nil {
			id, err := w.submit(ctx, t) // one that was begun is finished, so that all are counted
			if err != nil {
				f.ended <- err
				return
			}
			f.ids = append(f.ids, id)
			f.count.Add(1)
			select {
			case <-ticker.C:
			case <-run.Done():
			}
		}
		f.ended <- nil
	}()
	return f
}

// more waits until some more transfers were submitted.
func (f *feeder) more(ctx context.Context) error {
	const some = 50
	until := f.count.Load() + some
	return poll(ctx, "more transfers were submitted", func() (bool, error) {
		select {
		case err := <-f.ended:
			f.ended <- err // for end
			return false, err
		default:
			return f.count.Load() >= until, nil
		}
	})
}

// end ends the submissions and returns their ids.
func (f *feeder) end() ([]saga.ID, error) {
	f.stop()
	err := <-f.ended
	return f.ids, err
}
