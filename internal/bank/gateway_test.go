package bank

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// gatewayCase calls the functions of one external debit.
type gatewayCase struct {
	gateway
	op participant.Operation
	in Move
}

func (g gatewayCase) doIt(ctx context.Context) error {
	_, err := g.do(sqlHold)(ctx, participant.Call[Move]{Operation: g.op, Input: g.in})
	return err
}

func (g gatewayCase) settleIt(ctx context.Context, phase saga.Phase, sql, state string) error {
	op := g.op
	op.Phase = phase
	return g.settle(sql, state)(ctx, participant.Settle[Move, Moved]{Operation: op, Input: g.in})
}

func (g gatewayCase) effect() participant.Effect[Move] {
	return participant.Effect[Move]{Operation: g.op, Input: g.in}
}

// The gateway keeps its promises: one key is executed once, a refusal and a void key stay so, and it can be asked (U4).
func TestGateway(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), testdb.New(t, testdb.Template{})
	if err := errors.Join(Migrate(ctx, pool), Seed(ctx, pool, 500, "alice")); err != nil {
		t.Fatal(err)
	}
	last := byte(0)
	request := func(in Move) gatewayCase {
		last++
		return gatewayCase{gateway{pool}, participant.Operation{
			Tenant: "acme", Transaction: saga.ID{15: last}, Step: "take", Phase: saga.PhaseTry, Kind: saga.KindTCC, Attempt: 1,
		}, in}
	}
	alice := Move{Account: "alice", Cents: 10}

	done := request(alice)
	if found, err := done.inquire(ctx, done.effect()); err != nil || found != participant.FoundAbsent[Moved]() {
		t.Errorf("before the request: %+v, %v", found, err)
	}
	wantNil(t, done.doIt(ctx), done.doIt(ctx))
	want := participant.FoundDone(Moved{Account: "alice", Cents: 10, BalanceCents: 490})
	if found, err := done.inquire(ctx, done.effect()); err != nil || found != want {
		t.Errorf("after it: %+v, %v", found, err)
	}
	if err := done.void(ctx, done.effect()); err == nil {
		t.Error("what is done becomes void")
	}
	wantNil(t, done.settleIt(ctx, saga.PhaseCancel, sqlHoldRelease, gatewayCancelled), done.settleIt(ctx, saga.PhaseCancel, sqlHoldRelease, gatewayCancelled))
	if err := done.settleIt(ctx, saga.PhaseConfirm, sqlHoldUse, gatewayConfirmed); err == nil {
		t.Error("what is cancelled is confirmed")
	}
	wantRuns(t, pool, done, 1, 1)

	no := request(Move{Account: "alice", Cents: 1000})
	first := no.doIt(ctx)
	if _, err := pool.Exec(ctx, "UPDATE bank.accounts SET balance_cents = 2000"); err != nil {
		t.Fatal(err)
	}
	_, asked := no.inquire(ctx, no.effect())
	for _, err := range []error{first, no.doIt(ctx), asked} {
		wantRefusal(t, err, participant.Refuse(CodeInsufficientFunds, nil))
	}
	wantRuns(t, pool, no, 0, 0)

	void := request(alice)
	wantNil(t, void.void(ctx, void.effect()), void.void(ctx, void.effect()))
	wantRefusal(t, void.doIt(ctx), participant.Refuse(codeVoided, nil))
	wantRuns(t, pool, void, 0, 0)

	failing := request(Move{Account: "alice", Cents: 10, Wish: Wish{FailTimes: 1}})
	if err := failing.doIt(ctx); err == nil {
		t.Error("the first attempt does not fail")
	}
	failing.op.Attempt = 2
	wantNil(t, failing.doIt(ctx))
	wantRuns(t, pool, failing, 1, 0)
}

func wantNil(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// wantRefusal compares the beginnings: the reasons differ.
func wantRefusal(t *testing.T, got, want error) {
	t.Helper()
	if got == nil || len(got.Error()) < len(want.Error()) || got.Error()[:len(want.Error())] != want.Error() {
		t.Errorf("got %v, want %v", got, want)
	}
}

func wantRuns(t *testing.T, pool *pgxpool.Pool, g gatewayCase, tries, cancels int) {
	t.Helper()
	key := saga.OperationKey{Tenant: g.op.Tenant, Transaction: g.op.Transaction, Step: g.op.Step, Phase: saga.PhaseTry}
	tried, err := Runs(t.Context(), pool, key)
	key.Phase = saga.PhaseCancel
	cancelled, err2 := Runs(t.Context(), pool, key)
	if err := errors.Join(err, err2); err != nil || tried != tries || cancelled != cancels {
		t.Errorf("%d tries and %d cancels, want %d and %d; %v", tried, cancelled, tries, cancels, err)
	}
}
