package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// fate is what an order is made for.
type fate string

const (
	fateCommit fate = "nothing refuses it"
	fateRefuse fate = "a bank refuses it"
	fateCancel fate = "its client cancels it, perhaps too late"

	// Of the orders of TestCrashOfEverything only.
	fateDeadline  fate = "it has little time"
	fateImpatient fate = "few attempts, some of which fail"
	fateRepair    fate = "a handler fails until an operator replays it"
	fateUndo      fate = "a bank refuses it, and a handler fails until an operator replays it"
)

// ending is how an order may end.
type ending struct {
	commits bool
	cancels []saga.Why // the causes, if it does not commit
}

// endings are those of each fate. Any order of the old kinds may lose all its attempts to a long outage.
var endings = map[fate]ending{
	fateCommit:    {true, []saga.Why{saga.WhyExhausted}},
	fateRefuse:    {false, []saga.Why{saga.WhyRefused, saga.WhyExhausted}},
	fateCancel:    {true, []saga.Why{saga.WhyClient, saga.WhyExhausted}},
	fateDeadline:  {true, []saga.Why{saga.WhyDeadline}},
	fateImpatient: {true, []saga.Why{saga.WhyExhausted}},
	fateRepair:    {true, nil},
	fateUndo:      {false, []saga.Why{saga.WhyRefused}},
}

// repaired reports whether the order provokes dead letters, which its client replays.
func (f fate) repaired() bool { return f == fateRepair || f == fateUndo }

// order is one transaction that a client wants, with everything that is random about it.
type order struct {
	requestID   string
	fate        fate
	twice       bool          // submit it twice at the same time (I3)
	cancelAfter time.Duration // with fateCancel
	startAfter  time.Duration // zero: at once
	timeout     time.Duration // zero: the definition's
	def         *saga.Definition
	registered  bool   // submit it by the name of its definition
	mixture     string // the kinds of its steps
	inputs      map[string]any
}

// submission is what the client sends, the same whenever it sends it again.
func (o *order) submission() client.Submission {
	s := client.Submission{Definition: o.def, Inputs: o.inputs, Timeout: o.timeout}
	if o.registered {
		s.Definition, s.Registered = nil, fmt.Sprintf("%s@%d", o.def.Name, o.def.Version)
	}
	if o.startAfter > 0 {
		s.StartAt = time.Now().Add(o.startAfter)
	}
	return s
}

// shape is a definition and the moves that it makes. The money of all moves together is constant.
type shape struct {
	def   *saga.Definition
	moves func(rnd *rand.Rand) map[string]*bank.Move
}

// policy makes lost attempts come again soon.
func policy(more ...saga.StepOption) []saga.StepOption {
	return append([]saga.StepOption{
		saga.AttemptTimeout(3 * time.Second),
		saga.RetryBackoff(saga.StrategyExponential, 50*time.Millisecond, time.Second),
	}, more...)
}

func move(rnd *rand.Rand, cents int) *bank.Move {
	return &bank.Move{Account: account(rnd.IntN(accounts)), Cents: int64(cents)}
}

// shapes are sagas and TCCs, in sequence and in parallel, and all kinds of steps in one (M8).
var shapes = []shape{
	{
		saga.Define("saga").
			Saga("take", bankA, bank.ActionWithdraw, policy()...).
			Saga("give", bankB, bank.ActionDeposit, policy()...).MustBuild(),
		func(rnd *rand.Rand) map[string]*bank.Move {
			n := 1 + rnd.IntN(100)
			return map[string]*bank.Move{"take": move(rnd, n), "give": move(rnd, n)}
		},
	},
	{
		saga.Define("saga-parallel").
			Saga("take", bankB, bank.ActionWithdraw, policy(saga.Root())...).
			Saga("give", bankA, bank.ActionDeposit, policy(saga.Root())...).
			Saga("rest", bankB, bank.ActionDeposit, policy(saga.After("take"))...).MustBuild(),
		func(rnd *rand.Rand) map[string]*bank.Move {
			n, rest := 1+rnd.IntN(100), 1+rnd.IntN(100)
			return map[string]*bank.Move{"take": move(rnd, n+rest), "give": move(rnd, n), "rest": move(rnd, rest)}
		},
	},
	{
		saga.Define("tcc").
			TCC("take", bankA, bank.ActionDebit, policy()...).
			TCC("give", bankB, bank.ActionCredit, policy()...).MustBuild(),
		func(rnd *rand.Rand) map[string]*bank.Move {
			n := 1 + rnd.IntN(100)
			return map[string]*bank.Move{"take": move(rnd, n), "give": move(rnd, n)}
		},
	},
	{
		saga.Define("tcc-parallel").
			TCC("take", bankB, bank.ActionDebit, policy(saga.Root())...).
			TCC("give", bankA, bank.ActionCredit, policy(saga.Root())...).
			TCC("rest", bankB, bank.ActionCredit, policy(saga.Root())...).MustBuild(),
		func(rnd *rand.Rand) map[string]*bank.Move {
			n, rest := 1+rnd.IntN(100), 1+rnd.IntN(100)
			return map[string]*bank.Move{"take": move(rnd, n+rest), "give": move(rnd, n), "rest": move(rnd, rest)}
		},
	},
	{
		saga.Define("mixed").
			Saga("take", bankA, bank.ActionWithdraw, policy()...).
			TCC("hold", bankB, bank.ActionDebit, policy()...).
			Pivot("charge", bankA, bank.ActionCharge, policy()...).
			Retriable("pay", bankB, bank.ActionPayout, policy()...).MustBuild(),
		func(rnd *rand.Rand) map[string]*bank.Move {
			a, b, c := 1+rnd.IntN(100), 1+rnd.IntN(100), 1+rnd.IntN(100)
			return map[string]*bank.Move{"take": move(rnd, a), "hold": move(rnd, b), "charge": move(rnd, c), "pay": move(rnd, a+b+c)}
		},
	},
}

// newOrders draws orders. In a hundred, so many are refused and so many cancelled by their clients.
func newOrders(rnd *rand.Rand, n, refusedPercent, cancelledPercent int) []*order {
	orders := make([]*order, n)
	for i := range orders {
		o := &order{requestID: fmt.Sprintf("order-%05d", i), fate: fateCommit, twice: rnd.IntN(20) == 0}
		s := shapes[i%len(shapes)]
		moves := s.moves(rnd)
		switch percent := rnd.IntN(100); {
		case percent < refusedPercent:
			o.fate = fateRefuse
			makeRefused(rnd, s.def, moves)
		case percent < refusedPercent+cancelledPercent:
			o.fate = fateCancel
			o.cancelAfter = time.Duration(rnd.IntN(40)) * time.Millisecond
		}
		o.def, o.inputs = s.def, make(map[string]any, len(moves))
		for _, step := range s.def.Steps {
			m := moves[step.Name]
			if m.Wish == (bank.Wish{}) {
				m.Wish.SleepMs = rnd.IntN(10) // banks take their time, so that work piles up
			}
			o.inputs[step.Name] = *m
		}
		orders[i] = o
	}
	return orders
}

// makeRefused makes one of the steps that may refuse do so.
func makeRefused(rnd *rand.Rand, def *saga.Definition, moves map[string]*bank.Move) {
	steps := def.Steps
	if steps[len(steps)-1].Kind == saga.KindRetriable {
		steps = steps[:len(steps)-1]
	}
	step := steps[rnd.IntN(len(steps))]
	m := moves[step.Name]
	switch step.Action {
	case bank.ActionWithdraw, bank.ActionDebit, bank.ActionCharge:
		if rnd.IntN(2) == 0 {
			m.Cents = 1 << 50 // insufficient funds
			return
		}
	}
	switch rnd.IntN(2) {
	case 0:
		m.Account = "nobody"
	default:
		m.Wish.Refuse = "not_today"
	}
}

// result is what a client saw of its order.
type result struct {
	*order
	submitted client.Submitted
	ended     client.Transaction
	err       error // what no client should see
}

// load is the clients at work.
type load struct {
	client   *client.Client
	results  []result
	answered atomic.Int64
	ended    atomic.Int64
	replays  atomic.Int64 // of dead letters
	limit    atomic.Int64 // how many orders are taken at most
	done     chan struct{}
	started  time.Time
}

// plenty is how many orders are drawn for a load of so many: it goes on until the last fault is over, however fast the
// machine is.
func plenty(total int) int { return 5 * total }

// startLoad lets so many clients work at the same time. Each takes an order, submits it, waits for its end, and
// takes the next; whatever happens to the coordinator meanwhile, it goes on trying.
func startLoad(t *testing.T, c *client.Client, orders []*order, clients int) *load {
	t.Helper()
	l := &load{client: c, results: make([]result, len(orders)), done: make(chan struct{}), started: time.Now()}
	l.limit.Store(int64(len(orders)))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var next atomic.Int64
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= l.limit.Load() || ctx.Err() != nil {
					return
				}
				l.results[i] = result{order: orders[i]}
				l.carryOut(ctx, &l.results[i])
				l.ended.Add(1)
			}
		})
	}
	go func() {
		work.Wait()
		close(l.done)
	}()
	t.Cleanup(func() { cancel(); <-l.done })
	return l
}

// endAfter lets the clients take no order any more once they have taken n.
func (l *load) endAfter(n int) { l.limit.Store(int64(n)) }

// wait waits until every order that was taken has ended.
func (l *load) wait(t *testing.T, w *world, limit time.Duration) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.done:
		l.results = slices.DeleteFunc(l.results, func(r result) bool { return r.order == nil })
		t.Logf("%d orders ended after %s", len(l.results), time.Since(l.started).Round(10*time.Millisecond))
	case <-timer.C:
		n, err := w.unfinished(t.Context())
		t.Errorf("%d of %d orders have ended %s after the last fault, %d transactions have not (%v) (I-11)",
			l.ended.Load(), len(l.results), limit, n, err)
		w.showUnfinished(t)
		t.FailNow()
	}
}

// reach waits until so many orders have ended.
func (l *load) reach(t *testing.T, n int, limit time.Duration) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("%d orders have ended", n), func() bool { return l.ended.Load() >= int64(n) })
}

func (l *load) carryOut(ctx context.Context, r *result) {
	if r.submitted, r.err = l.submit(ctx, r.order); r.err != nil {
		return
	}
	l.answered.Add(1)
	if r.fate == fateCancel {
		pause(ctx, r.cancelAfter)
		r.err = persist(ctx, func() error { _, err := l.client.Cancel(ctx, r.submitted.ID, "changed my mind"); return err })
		var p *client.Problem
		if errors.As(r.err, &p) && p.Code == client.CodeNotCancellable {
			r.err = nil // too late
		}
		if r.err != nil {
			return
		}
	}
	if r.fate.repaired() {
		r.err = l.repair(ctx, r.submitted.ID)
		if r.err != nil {
			return
		}
	}
	r.err = persist(ctx, func() (err error) { r.ended, err = l.client.Wait(ctx, r.submitted.ID); return err })
}

// repair is the operator who replays the dead letters of a transaction until it has ended: attempts are numbered on,
// and those that the order makes fail are over.
func (l *load) repair(ctx context.Context, id saga.ID) error {
	for ctx.Err() == nil {
		var tx client.Transaction
		var open client.DeadLetterPage
		err := persist(ctx, func() (err error) { tx, err = l.client.Get(ctx, id); return err })
		if err != nil || tx.Status.Terminal() {
			return err
		}
		err = persist(ctx, func() (err error) {
			open, err = l.client.DeadLetters(ctx, client.DeadLetterFilter{Transaction: id, Status: saga.DeadLetterOpen})
			return err
		})
		if err != nil {
			return err
		}
		for _, d := range open.DeadLetters {
			var alone []client.ReplayOption
			if d.Outcome == saga.OutcomeUnknown { // its attempts died with their processes; the barrier knows what has run
				alone = append(alone, client.WithBreakGlass())
			}
			err := l.client.Replay(ctx, d.ID, d.Version, "the handler is repaired, and nobody else is here", alone...)
			var p *client.Problem
			var unknown *client.UnknownError
			if errors.As(err, &p) && (p.Status == http.StatusConflict || p.Status == http.StatusPreconditionFailed) || errors.As(err, &unknown) {
				continue // it has changed, or nobody knows: look again
			}
			if err != nil {
				return err
			}
			l.replays.Add(1)
		}
		pause(ctx, repairPause)
	}
	return context.Cause(ctx)
}

const repairPause = 100 * time.Millisecond

// submit submits the order until there is an answer. Answers to copies have to be the same, byte for byte (I2).
func (l *load) submit(ctx context.Context, o *order) (client.Submitted, error) {
	copies := 1
	if o.twice {
		copies = 2
	}
	answers, errs := make([]client.Submitted, copies), make([]error, copies)
	submission := o.submission()
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() {
			errs[i] = persist(ctx, func() (err error) {
				answers[i], err = l.client.Submit(ctx, submission, client.SubmitOptions{RequestID: o.requestID})
				return err
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return client.Submitted{}, fmt.Errorf("submit: %w", err)
	}
	if last := answers[copies-1]; !bytes.Equal(answers[0].Answer, last.Answer) {
		return answers[0], fmt.Errorf("two answers to one request id: %s and %s (I2)", answers[0].Answer, last.Answer)
	}
	return answers[0], nil
}

// persist repeats a call whose outcome is unknown: it may be, and is never a failure (U1).
func persist(ctx context.Context, call func() error) error {
	for {
		err := call()
		var unknown *client.UnknownError
		if err == nil || ctx.Err() != nil || !errors.As(err, &unknown) {
			return err
		}
	}
}
