package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// Bank is one of the two banks: its database, and the means to stop and start its participant.
type Bank struct {
	Name  string
	Pool  *pgxpool.Pool
	Start func() error
	Stop  func() error
}

// World is what the scenarios work with.
type World struct {
	Client *client.Client
	A, B   *Bank
	NATS   *nats.Conn
	Prefix string // of the coordinator's subjects
	Crash  *Crash // nil: nobody is killed
	Log    *slog.Logger

	probe       *probe
	totalBefore int64
}

// Crash has the means to kill a coordinator, while another one goes on, and the participant of bank B.
type Crash struct {
	Kill             func() error // both, without warning
	StartBank        func() error
	StartCoordinator func() error
}

// The accounts of the scenarios: one at each bank.
const (
	alice        = "alice" // at bank A
	bob          = "bob"   // at bank B
	initialCents = 1_000_000
	cents        = 1000 // moved in every scenario
)

// Prepare makes the accounts and the probe. Call Close when done.
func (w *World) Prepare(ctx context.Context) error {
	if err := bank.Seed(ctx, w.A.Pool, initialCents, alice); err != nil {
		return err
	}
	if err := bank.Seed(ctx, w.B.Pool, initialCents, bob); err != nil {
		return err
	}
	if err := bank.Refill(ctx, w.A.Pool, alice, initialCents/2); err != nil { // she gives in every scenario
		return err
	}
	var err error
	w.probe, err = newProbe(ctx, w.NATS, w.Prefix, w.Log)
	return err
}

// settleTimeout is how long a run waits for what an interrupted one has left under way.
const settleTimeout = 15 * time.Second

// settle waits until the banks' transactions of an earlier run have ended, so that their money does not move in the
// middle of this one. What waits for a person stays as it is.
func (w *World) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	notSuspended := false
	_ = poll(ctx, "earlier transactions have ended", func() (bool, error) {
		for _, status := range []saga.Status{saga.StatusRunning, saga.StatusConfirming, saga.StatusCancelling} {
			page, err := w.Client.List(ctx, client.Filter{Status: status, Suspended: &notSuspended, Limit: 500})
			if err != nil {
				return false, err
			}
			for _, tx := range page.Transactions {
				if slices.Contains(definitions, tx.Definition.Name) {
					return false, nil
				}
			}
		}
		return true, nil
	}) // if it takes longer, the results will tell
}

// definitions are the names of those that the scenarios use.
var definitions = []string{"transfer", "transfer-tcc", "parallel", "refused", "panics"}

// Close ends what Prepare began.
func (w *World) Close() {
	if w.probe != nil {
		w.probe.close()
	}
}

// total is the money of both banks.
func (w *World) total(ctx context.Context) (int64, error) {
	a, errA := bank.Total(ctx, w.A.Pool)
	b, errB := bank.Total(ctx, w.B.Pool)
	return a + b, errors.Join(errA, errB)
}

// held is the money that is reserved or expected at both banks.
func (w *World) held(ctx context.Context) (int64, error) {
	a, errA := bank.HeldTotal(ctx, w.A.Pool)
	b, errB := bank.HeldTotal(ctx, w.B.Pool)
	return a + b, errors.Join(errA, errB)
}

// balances are what alice and bob have.
type balances struct{ alice, bob int64 }

func (w *World) balances(ctx context.Context) (balances, error) {
	a, errA := bank.Balance(ctx, w.A.Pool, alice)
	b, errB := bank.Balance(ctx, w.B.Pool, bob)
	return balances{a, b}, errors.Join(errA, errB)
}

// moved says in words what has changed since before.
func (w *World) moved(ctx context.Context, before balances) (string, error) {
	now, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	gave, got := before.alice-now.alice, now.bob-before.bob
	switch {
	case gave == 0 && got == 0:
		return "no money moved", nil
	case gave == cents && got == cents:
		return "10.00 moved once", nil
	}
	return fmt.Sprintf("alice %+.2f, bob %+.2f", float64(-gave)/100, float64(got)/100), nil
}

// transfer is a submission that moves the cents from alice to bob.
type transfer struct {
	def    *saga.Definition
	inputs map[string]any
}

// quick makes attempts time out and come again soon, so that nobody waits for the demonstration.
var quick = []saga.StepOption{
	saga.AttemptTimeout(time.Second),
	saga.RetryBackoff(saga.StrategyExponential, 50*time.Millisecond, 500*time.Millisecond),
}

func (w *World) saga(takeWish, giveWish bank.Wish) transfer {
	return transfer{
		def: saga.Define("transfer").Saga("take", w.A.Name, bank.ActionWithdraw, quick...).
			Saga("give", w.B.Name, bank.ActionDeposit, quick...).MustBuild(),
		inputs: map[string]any{
			"take": bank.Move{Account: alice, Cents: cents, Wish: takeWish},
			"give": bank.Move{Account: bob, Cents: cents, Wish: giveWish},
		},
	}
}

func (w *World) tcc() transfer {
	return transfer{
		def: saga.Define("transfer-tcc").TCC("take", w.A.Name, bank.ActionDebit, quick...).
			TCC("give", w.B.Name, bank.ActionCredit, quick...).MustBuild(),
		inputs: map[string]any{
			"take": bank.Move{Account: alice, Cents: cents},
			"give": bank.Move{Account: bob, Cents: cents},
		},
	}
}

// submit starts the transfer and returns its id.
func (w *World) submit(ctx context.Context, t transfer) (saga.ID, error) {
	s, err := w.Client.Submit(ctx, client.Submission{Definition: t.def, Inputs: t.inputs}, client.SubmitOptions{})
	return s.ID, err
}

// finish runs the transfer to its end.
func (w *World) finish(ctx context.Context, t transfer) (client.Transaction, error) {
	id, err := w.submit(ctx, t)
	if err != nil {
		return client.Transaction{}, err
	}
	return w.Client.Wait(ctx, id)
}

// runs counts how often the handler of an operation ran at a bank.
func (w *World) runs(ctx context.Context, b *Bank, id saga.ID, step string, phase saga.Phase) (int, error) {
	return bank.Runs(ctx, b.Pool, saga.OperationKey{Tenant: tenant, Transaction: id, Step: step, Phase: phase})
}

// tenant is whom the API of a development server takes everyone for.
const tenant = "default"

func times(n int) string {
	switch n {
	case 0:
		return "did not run"
	case 1:
		return "ran once"
	}
	return fmt.Sprintf("ran %d times", n)
}
