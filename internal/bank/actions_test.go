package bank

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
)

// A move may be as large as the result of an earlier step says (M8). What ends it works without the try's result (S2.5).
func TestMoveFromAnEarlierStep(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), testdb.New(t, testdb.Template{})
	if err := errors.Join(Migrate(ctx, pool), Seed(ctx, pool, 500, "alice")); err != nil {
		t.Fatal(err)
	}
	op := func(p saga.Phase) participant.Operation {
		return participant.Operation{Tenant: "acme", Transaction: saga.ID{15: 1}, Step: "give", Phase: p, Kind: saga.KindTCC, Action: ActionCredit, Attempt: 1}
	}
	in := Move{Account: "alice", From: "take"}
	result, err := json.Marshal(Moved{Account: "bob", Cents: 70})
	if err != nil {
		t.Fatal(err)
	}
	tried := Moved{Account: "alice", Cents: 70, BalanceCents: 500}
	for _, settled := range []struct {
		name  string
		phase saga.Phase
		sql   string
		try   *Moved
		want  int64
	}{
		{"confirm", saga.PhaseConfirm, sqlExpectUse, &tried, 570},
		{"cancel", saga.PhaseCancel, sqlExpectRelease, &tried, 500},
		{"cancel without the result", saga.PhaseCancel, sqlExpectRelease, nil, 500},
	} {
		t.Run(settled.name, func(t *testing.T) {
			tx, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(ctx) }()
			got, err := try(sqlExpect)(ctx, tx, participant.Call[Move]{
				Operation: op(saga.PhaseTry), Input: in, Results: []saga.NamedPayload{{Step: "take", Payload: saga.Payload{Data: result}}},
			})
			if err != nil || got != tried {
				t.Fatalf("the try: %+v, %v", got, err)
			}
			if err := settle(settled.sql)(ctx, tx, participant.Settle[Move, Moved]{Operation: op(settled.phase), Input: in, Try: settled.try}); err != nil {
				t.Fatal(err)
			}
			wantAccount(t, tx, settled.want)
		})
	}
	_, err = try(sqlExpect)(ctx, nil, participant.Call[Move]{Operation: op(saga.PhaseTry), Input: in})
	if !errors.Is(err, participant.ErrNoResult) {
		t.Errorf("without the result: %v", err)
	}
}

func wantAccount(t *testing.T, tx pgx.Tx, balance int64) {
	t.Helper()
	var has, incoming int64
	err := tx.QueryRow(t.Context(), "SELECT balance_cents, incoming_cents FROM bank.accounts").Scan(&has, &incoming)
	if err != nil || has != balance || incoming != 0 {
		t.Errorf("balance %d, want %d; incoming %d, want 0; %v", has, balance, incoming, err)
	}
}
