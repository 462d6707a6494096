package participant_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// Commands that come through Execute are executed once and answered as those of NATS are.
func TestExecute(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.bank()
	try := k.command(bank.ActionDebit, saga.KindTCC, saga.PhaseTry, bank.Move{Account: "alice", Cents: 10})
	first, err := p.Execute(t.Context(), try)
	if err != nil || first.Outcome != saga.OutcomeDone || first.Replayed {
		t.Fatalf("the first time: %+v, %v", first, err)
	}
	second, err := p.Execute(t.Context(), again(try))
	if err != nil || !second.Replayed || string(second.Result.Data) != string(first.Result.Data) || second.Attempt != 2 {
		t.Errorf("the second time: %+v, %v", second, err)
	}
	k.wantRuns(try, 1)

	late := k.command(bank.ActionDebit, saga.KindTCC, saga.PhaseCancel, bank.Move{Account: "alice", Cents: 10})
	for _, step := range []struct {
		cmd  saga.Command
		want saga.Outcome
	}{{late, saga.OutcomeDone}, {with(late, saga.PhaseTry, bank.Move{Account: "alice", Cents: 10}), saga.OutcomeHanging}} {
		r, err := p.Execute(t.Context(), step.cmd)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, step.want, "")
	}
	defer func() {
		if recover() == nil {
			t.Error("an action was added after the first command")
		}
	}()
	participant.Handle(p, "late", participant.Pivot[participant.None, participant.None]{})
}

// Copies of a command that come at the same time take effect once (I-3).
func TestExecuteTogether(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.bank()
	try := k.command(bank.ActionDebit, saga.KindTCC, saga.PhaseTry, bank.Move{Account: "alice", Cents: 10})
	var copies sync.WaitGroup
	for range 4 {
		copies.Go(func() {
			if r, err := p.Execute(t.Context(), try); err != nil || r.Outcome != saga.OutcomeDone {
				t.Errorf("answered %+v, %v", r, err)
			}
		})
	}
	copies.Wait()
	k.wantRuns(try, 1)
}

// A handler that fails often is no suspect: its process lives on.
func TestExecuteAgainAndAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.new()
	participant.Handle(p, "fail", participant.Pivot[participant.None, participant.None]{
		Try: func(context.Context, pgx.Tx, participant.Call[participant.None]) (participant.None, error) {
			panic("always")
		},
	})
	c := k.command("fail", saga.KindPivot, saga.PhaseTry, nil)
	for range 2 * participant.DefaultDeliveriesMax {
		r, err := p.Execute(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, saga.OutcomeRetry, saga.CodePanic)
		c = again(c)
	}
}

// Without the database nobody knows, and without NATS there is nothing to run.
func TestDirect(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	c := k.config()
	c.NATS = nil
	p, err := participant.NewDirect(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "NATS connection is nil") {
		t.Errorf("Run returned %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	try := k.command(bank.ActionDebit, saga.KindTCC, saga.PhaseTry, bank.Move{Account: "alice", Cents: 10})
	if r, err := p.Execute(ctx, try); err == nil {
		t.Errorf("answered without its database: %+v", r)
	}
	c.Name = ""
	if _, err := participant.NewDirect(c); err == nil {
		t.Error("a participant without a name was made")
	}
}
