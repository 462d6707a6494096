package bank_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/bank"
	"github.com/sagacity-tx/sagacity/internal/testdb"
	"github.com/sagacity-tx/sagacity/participant"
	"github.com/sagacity-tx/sagacity/saga"
	"github.com/sagacity-tx/sagacity/saga/wire"
)

// A bank that queues its statements answers as the other one does, and leaves the same accounts and effects.
func TestBatchesAreTheSame(t *testing.T) {
	t.Parallel()
	both := []string{"", ""}
	for i, construct := range []func(string, *pgxpool.Pool) (*participant.Participant, error){
		func(name string, pool *pgxpool.Pool) (*participant.Participant, error) {
			return bank.NewParticipant(name, pool, testdb.NATS(t))
		},
		func(name string, pool *pgxpool.Pool) (*participant.Participant, error) {
			return bank.NewBatchParticipant(name, pool, testdb.NATS(t))
		},
	} {
		ctx, pool := t.Context(), testdb.New(t, empty)
		if err := errors.Join(bank.Migrate(ctx, pool), bank.Seed(ctx, pool, 500, "alice", "bob")); err != nil {
			t.Fatal(err)
		}
		p, err := construct("bank", pool)
		if err != nil {
			t.Fatal(err)
		}
		both[i] = answersOf(ctx, t, p, pool)
	}
	if both[0] != both[1] {
		t.Errorf("the one that queues answers\n%s\nthe other one\n%s", both[1], both[0])
	}
}

// answersOf sends commands of all actions, phases and ends, and writes down the answers and what they have left.
func answersOf(ctx context.Context, t *testing.T, p *participant.Participant, pool *pgxpool.Pool) (text string) {
	t.Helper()
	kinds := map[string]saga.Kind{
		bank.ActionDebit: saga.KindTCC, bank.ActionCredit: saga.KindTCC, bank.ActionWithdraw: saga.KindSaga, bank.ActionDeposit: saga.KindSaga,
		bank.ActionCharge: saga.KindPivot, bank.ActionGrant: saga.KindPivot, bank.ActionPayout: saga.KindRetriable, bank.ActionCollect: saga.KindRetriable,
	}
	moves := []bank.Move{
		{Account: "alice", Cents: 7},
		{Account: "alice", Cents: 1 << 50},
		{Account: "nobody", Cents: 1},
		{Account: "alice", Cents: -1},
		{Account: "bob", Cents: 1, Wish: bank.Wish{Refuse: "no"}},
		{Account: "bob", Cents: 1, Wish: bank.Wish{FailTimes: 1}},
		{Account: "bob", Cents: 1, Wish: bank.Wish{PanicTimes: 1}},
		{Account: "bob", Cents: 1, Wish: bank.Wish{Fault: "never"}},
		{Account: "bob", Cents: 1, Wish: bank.Wish{SleepMs: 1, FailWhile: "off", RefuseWhile: "off"}},
		{Account: "bob", Cents: 1, Wish: bank.Wish{Phase: saga.PhaseCancel, FailTimes: 1}},
		{Account: "bob", From: "take"},
	}
	n := byte(0)
	for _, action := range sorted(kinds) {
		for i, m := range moves {
			for _, end := range []saga.Phase{saga.PhaseConfirm, saga.PhaseCancel} {
				if kinds[action] == saga.KindSaga && end == saga.PhaseConfirm || kinds[action] == saga.KindPivot || kinds[action] == saga.KindRetriable {
					continue
				}
				n++
				text += answers(ctx, t, p, fmt.Sprintf("%s %d %s: ", action, i, end), command(t, n, action, kinds[action], m), end)
			}
			if kinds[action] == saga.KindPivot || kinds[action] == saga.KindRetriable {
				n++
				text += answers(ctx, t, p, fmt.Sprintf("%s %d: ", action, i), command(t, n, action, kinds[action], m), "")
			}
		}
	}
	var left string
	err := pool.QueryRow(ctx, `SELECT (SELECT string_agg(a::text, ' ' ORDER BY a.id) FROM bank.accounts a) ||
		(SELECT string_agg(step || phase || action || account || cents || transaction_id, ' ' ORDER BY transaction_id, phase) FROM bank.effects)`).Scan(&left)
	if err != nil {
		t.Fatal(err)
	}
	return text + left
}

func sorted(kinds map[string]saga.Kind) (names []string) {
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func command(t *testing.T, n byte, action string, kind saga.Kind, m bank.Move) saga.Command {
	t.Helper()
	input, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return saga.Command{
		Verb: saga.VerbExecute, Tenant: "acme", Transaction: saga.ID{6: 0x70, 8: 0x80, 15: n}, Step: "s", Phase: saga.PhaseTry, Kind: kind,
		Action: action, Participant: "bank", Attempt: 1, Revision: 1, ContentSHA256: [32]byte{n}, Timeout: time.Minute,
		Body: saga.TryBody(saga.Payload{Data: input}, []saga.NamedPayload{{Step: "take", Payload: saga.Payload{Data: []byte(`{"cents":3}`)}}}),
	}
}

// answers sends a try until it is not to be tried again, and then what ends it.
func answers(ctx context.Context, t *testing.T, p *participant.Participant, name string, try saga.Command, end saga.Phase) string {
	t.Helper()
	cmds := []saga.Command{try, try}
	if end != "" {
		settle := try
		settle.Phase, settle.Body = end, saga.SettleBody(inputOf(t, try), saga.Payload{})
		cmds = append(cmds, settle, settle)
	}
	for i := range cmds {
		cmds[i].Attempt = i%2 + 1
		r, err := p.Execute(ctx, cmds[i])
		if err != nil {
			t.Fatalf("%s%v", name, err)
		}
		name += fmt.Sprintf("%s %s %q %s; ", r.Outcome, r.Code, r.Reason, r.Result.Data)
	}
	return name + "\n"
}

func inputOf(t *testing.T, try saga.Command) saga.Payload {
	t.Helper()
	body, err := wire.ParseBody(saga.PhaseTry, try.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body.Input
}
