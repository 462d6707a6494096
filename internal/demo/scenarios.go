package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/saga"
)

// scenarios are the stories, in the order in which they run. The last one looks at what all left behind.
func (w *World) scenarios() []scenario {
	list := []scenario{
		{name: "saga commits", expected: "committed, 10.00 moved once", run: sagaCommits},
		{name: "TCC commits", expected: "committed, 10.00 moved once", run: tccCommits},
		{name: "three steps in parallel", expected: "committed, 3 tries sent together", run: parallel},
		{name: "refused at step 3", expected: "cancelled (refused by step 3: insufficient_funds), no money moved", run: refused},
		{name: "same operation, other content", expected: "fault: conflict; the try ran once", run: otherContent},
		{name: "null compensation", expected: "done; the cancel did not run", run: nullCompensation},
		{name: "hanging try", expected: "hanging; the try did not run", run: hangingTry},
		{name: "duplicate submission", expected: "12 answers, 1 transaction, 10.00 moved once", run: duplicateSubmission},
		{name: "lost reply", expected: "unknown, then committed; the try ran once", run: lostReply},
		{name: "participant down", expected: "unknown, then committed; 10.00 moved once", run: participantDown},
		{name: "handler panics", expected: "dead letter (panic), replayed, committed; 10.00 moved once", run: panicReplay},
	}
	if w.Crash != nil {
		list = append(list, scenario{name: "killed in full flight", expected: "all committed, each moved its cent once", run: killed, timeout: killedTimeout})
	}
	return append(list, scenario{name: "the bank's total", expected: "unchanged, 0.00 held, no effect twice", run: theTotal})
}

func sagaCommits(ctx context.Context, w *World) (string, error) {
	return w.statusAndMoney(ctx, w.saga(bank.Wish{}, bank.Wish{}))
}

func tccCommits(ctx context.Context, w *World) (string, error) {
	return w.statusAndMoney(ctx, w.tcc())
}

func (w *World) statusAndMoney(ctx context.Context, t transfer) (string, error) {
	before, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	tx, err := w.finish(ctx, t)
	if err != nil {
		return "", err
	}
	moved, err := w.moved(ctx, before)
	return string(tx.Status) + ", " + moved, err
}

// parallel takes nothing on balance: three holds at once, all confirmed against credits that return them.
func parallel(ctx context.Context, w *World) (string, error) {
	def := saga.Define("parallel").
		TCC("take", w.A.Name, bank.ActionDebit, append(quick, saga.Root())...).
		TCC("give-half", w.A.Name, bank.ActionCredit, append(quick, saga.Root())...).
		TCC("give-rest", w.A.Name, bank.ActionCredit, append(quick, saga.Root())...).
		MustBuild()
	tx, err := w.finish(ctx, transfer{def: def, inputs: map[string]any{
		"take":      bank.Move{Account: alice, Cents: cents},
		"give-half": bank.Move{Account: alice, Cents: cents / 2},
		"give-rest": bank.Move{Account: alice, Cents: cents / 2},
	}})
	if err != nil {
		return "", err
	}
	together := 0
	for _, s := range tx.Steps {
		if s.Operations[0].SentAt.Equal(tx.Steps[0].Operations[0].SentAt) {
			together++
		}
	}
	return fmt.Sprintf("%s, %d tries sent together", tx.Status, together), nil
}

// refused asks for more than bob has, in the third step: the first two are compensated.
func refused(ctx context.Context, w *World) (string, error) {
	before, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	def := saga.Define("refused").
		Saga("take", w.A.Name, bank.ActionWithdraw, quick...).
		Saga("give", w.B.Name, bank.ActionDeposit, quick...).
		Saga("fee", w.B.Name, bank.ActionWithdraw, quick...).MustBuild()
	tx, err := w.finish(ctx, transfer{def: def, inputs: map[string]any{
		"take": bank.Move{Account: alice, Cents: cents},
		"give": bank.Move{Account: bob, Cents: cents},
		"fee":  bank.Move{Account: bob, Cents: 1 << 50},
	}})
	if err != nil {
		return "", err
	}
	moved, err := w.moved(ctx, before)
	step := 1 + slices.IndexFunc(tx.Steps, func(s client.Step) bool { return tx.Cause != nil && s.Name == tx.Cause.Step })
	why := "nothing"
	if tx.Cause != nil {
		why = fmt.Sprintf("%s by step %d: %s", tx.Cause.Why, step, tx.Cause.Code)
	}
	return fmt.Sprintf("%s (%s), %s", tx.Status, why, moved), err
}

// otherContent sends one operation twice with two amounts. Only the first runs; it is taken back afterwards.
func otherContent(ctx context.Context, w *World) (string, error) {
	id, err := newID()
	if err != nil {
		return "", err
	}
	if _, err := w.tell(ctx, id, saga.PhaseTry, 1, cents); err != nil {
		return "", err
	}
	second, err := w.tell(ctx, id, saga.PhaseTry, 2, 2*cents)
	if err != nil {
		return "", err
	}
	runs, err := w.runs(ctx, w.A, id, "take", saga.PhaseTry)
	if err != nil {
		return "", err
	}
	if _, err := w.tell(ctx, id, saga.PhaseCancel, 1, cents); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; the try %s", words(second), times(runs)), nil
}

// nullCompensation cancels what was never tried.
func nullCompensation(ctx context.Context, w *World) (string, error) {
	id, err := newID()
	if err != nil {
		return "", err
	}
	reply, err := w.tell(ctx, id, saga.PhaseCancel, 1, cents)
	if err != nil {
		return "", err
	}
	runs, err := w.runs(ctx, w.A, id, "take", saga.PhaseCancel)
	return fmt.Sprintf("%s; the cancel %s", words(reply), times(runs)), err
}

// hangingTry lets a try arrive after its cancel.
func hangingTry(ctx context.Context, w *World) (string, error) {
	id, err := newID()
	if err != nil {
		return "", err
	}
	if _, err := w.tell(ctx, id, saga.PhaseCancel, 1, cents); err != nil {
		return "", err
	}
	reply, err := w.tell(ctx, id, saga.PhaseTry, 1, cents)
	if err != nil {
		return "", err
	}
	runs, err := w.runs(ctx, w.A, id, "take", saga.PhaseTry)
	return fmt.Sprintf("%s; the try %s", words(reply), times(runs)), err
}

// tell sends bank A a withdrawal's command as a coordinator would.
func (w *World) tell(ctx context.Context, id saga.ID, phase saga.Phase, attempt int, amount int64) (saga.Reply, error) {
	c, err := command(w.A, id, phase, attempt, amount)
	if err != nil {
		return saga.Reply{}, err
	}
	return w.probe.send(ctx, c)
}

func words(r saga.Reply) string {
	if r.Code != "" {
		return string(r.Outcome) + ": " + r.Code
	}
	return string(r.Outcome)
}

// duplicateSubmission sends one request twelve times at once.
func duplicateSubmission(ctx context.Context, w *World) (string, error) {
	before, err := w.balances(ctx)
	if err != nil {
		return "", err
	}
	const copies = 12
	t := w.saga(bank.Wish{}, bank.Wish{})
	requestID := uuid.NewString()
	ids, errs := make([]saga.ID, copies), make([]error, copies)
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() {
			s, err := w.Client.Submit(ctx, client.Submission{Definition: t.def, Inputs: t.inputs}, client.SubmitOptions{RequestID: requestID})
			ids[i], errs[i] = s.ID, err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	distinct := make(map[saga.ID]bool)
	for _, id := range ids {
		distinct[id] = true
		if _, err := w.Client.Wait(ctx, id); err != nil {
			return "", err
		}
	}
	moved, err := w.moved(ctx, before)
	return fmt.Sprintf("%d answers, %d transaction, %s", copies, len(distinct), moved), err
}

// theTotal compares the money of both banks with what it was before all scenarios (I-12, I-3).
func theTotal(ctx context.Context, w *World) (string, error) {
	total, err := w.total(ctx)
	if err != nil {
		return "", err
	}
	held, err := w.held(ctx)
	if err != nil {
		return "", err
	}
	a, errA := bank.Repeated(ctx, w.A.Pool)
	b, errB := bank.Repeated(ctx, w.B.Pool)
	if err := errors.Join(errA, errB); err != nil {
		return "", err
	}
	change := "unchanged"
	if total != w.totalBefore {
		change = fmt.Sprintf("%+.2f", float64(total-w.totalBefore)/100)
	}
	twice := "no effect twice"
	if n := len(a) + len(b); n > 0 {
		twice = fmt.Sprintf("%d effects twice", n)
	}
	return fmt.Sprintf("%s, %.2f held, %s", change, float64(held)/100, twice), nil
}
