package bank

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/participant"
)

// The actions.
const (
	ActionDebit    = "debit"
	ActionCredit   = "credit"
	ActionWithdraw = "withdraw"
	ActionDeposit  = "deposit"
	ActionCharge   = "charge"
	ActionGrant    = "grant"
	ActionPayout   = "payout"
	ActionCollect  = "collect"
)

// Codes of refusals.
const (
	CodeInsufficientFunds = "insufficient_funds"
	CodeNoAccount         = "no_account"
	CodeBadAmount         = "bad_amount"
)

// Move is the input of every action.
type Move struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`          // more than 0
	From    string `json:"from,omitempty"` // instead of Cents: as many as the result of this step says, which is in after (M8)
	Wish    Wish   `json:"wish,omitzero"`
}

// Moved is the result of every try.
type Moved struct {
	Account      string `json:"account"`
	Cents        int64  `json:"cents"`
	BalanceCents int64  `json:"balance_cents"` // after it
}

// NewParticipant returns a bank that answers to name, with its database and a connection to NATS. The options
// change its configuration.
func NewParticipant(name string, pool *pgxpool.Pool, nc *nats.Conn, opts ...func(*participant.Config)) (*participant.Participant, error) {
	return newParticipant(handleActions, name, pool, nc, opts...)
}

// NewBatchParticipant is NewParticipant with handlers that queue their statements.
func NewBatchParticipant(name string, pool *pgxpool.Pool, nc *nats.Conn, opts ...func(*participant.Config)) (*participant.Participant, error) {
	return newParticipant(handleBatches, name, pool, nc, opts...)
}

func newParticipant(handle func(*participant.Participant), name string, pool *pgxpool.Pool, nc *nats.Conn, opts ...func(*participant.Config)) (*participant.Participant, error) {
	c := participant.Config{Name: name, Pool: pool, NATS: nc}
	for _, opt := range opts {
		opt(&c)
	}
	p, err := participant.New(c)
	if err != nil {
		return nil, err
	}
	handle(p)
	gateway{pool}.handle(p, cmp.Or(c.HandlerTimeout, participant.DefaultHandlerTimeout))
	return p, nil
}

// handleActions adds the actions whose effects are in the database.
func handleActions(p *participant.Participant) {
	participant.Handle(p, ActionDebit, participant.TCC[Move, Moved]{
		Try: try(sqlHold), Confirm: settle(sqlHoldUse), Cancel: settle(sqlHoldRelease),
	})
	participant.Handle(p, ActionCredit, participant.TCC[Move, Moved]{
		Try: try(sqlExpect), Confirm: settle(sqlExpectUse), Cancel: settle(sqlExpectRelease),
	})
	participant.Handle(p, ActionWithdraw, participant.Saga[Move, Moved]{Try: try(sqlTake), Cancel: settle(sqlGive)})
	participant.Handle(p, ActionDeposit, participant.Saga[Move, Moved]{Try: try(sqlGive), Cancel: settle(sqlTake)})
	participant.Handle(p, ActionCharge, participant.Pivot[Move, Moved]{Try: try(sqlTake)})
	participant.Handle(p, ActionGrant, participant.Pivot[Move, Moved]{Try: try(sqlGive)})
	participant.Handle(p, ActionPayout, participant.Retriable[Move, Moved]{Try: try(sqlGive)})
	participant.Handle(p, ActionCollect, participant.Retriable[Move, Moved]{Try: try(sqlTake)})
}

// try makes a change of an account into a try, which refuses if the change is not possible.
func try(sql string) participant.TryFunc[Move, Moved] {
	return func(ctx context.Context, tx pgx.Tx, c participant.Call[Move]) (Moved, error) {
		m, err := amount(c)
		if err != nil {
			return Moved{}, asked(err)
		}
		moved, err := move(ctx, tx, c.Operation, m, sql)
		return moved, asked(err)
	}
}

// amount completes the input of a try with the result of an earlier step, if that says how many cents.
func amount(c participant.Call[Move]) (Move, error) {
	m := c.Input
	if m.From != "" {
		moved, err := participant.Result[Moved](c, m.From)
		if err != nil {
			return m, err
		}
		m.Cents = moved.Cents
	}
	if m.Cents <= 0 {
		return m, &refused{CodeBadAmount, fmt.Errorf("%d cents", m.Cents)}
	}
	return m, nil
}

// refused is a no for a business reason.
type refused struct {
	code string
	err  error
}

func (r *refused) Error() string { return r.code + ": " + r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// asked makes a refusal the one that a participant understands.
func asked(err error) error {
	var no *refused
	if errors.As(err, &no) {
		return participant.Refuse(no.code, no.err)
	}
	return err
}

// settle makes a change of an account into a confirm or cancel. It cannot refuse: what is not possible now
// (money that was spent in between) is tried again.
func settle(sql string) participant.SettleFunc[Move, Moved] {
	return func(ctx context.Context, tx pgx.Tx, c participant.Settle[Move, Moved]) error {
		m := c.Input
		switch {
		case m.From == "":
		case c.Try != nil:
			m.Cents = c.Try.Cents
		default: // it was not known when the command was made: find what the try wrote (S2.5)
			if err := tx.QueryRow(ctx, sqlTriedCents, c.Tenant, [16]byte(c.Transaction), c.Step).Scan(&m.Cents); err != nil {
				return err
			}
		}
		_, err := move(ctx, tx, c.Operation, m, sql)
		return asked(err)
	}
}

func move(ctx context.Context, tx pgx.Tx, op participant.Operation, m Move, sql string) (Moved, error) {
	if err := m.Wish.sleep(ctx, tx, op); err != nil {
		return Moved{}, err
	}
	moved := Moved{Account: m.Account, Cents: m.Cents}
	err := tx.QueryRow(ctx, sql, m.Account, m.Cents).Scan(&moved.BalanceCents)
	if errors.Is(err, pgx.ErrNoRows) {
		return Moved{}, impossible(ctx, tx, op, m)
	}
	if err != nil {
		return Moved{}, err
	}
	_, err = tx.Exec(ctx, sqlEffectInsert,
		op.Tenant, [16]byte(op.Transaction), op.Step, string(op.Phase), op.Action, m.Account, m.Cents)
	if err != nil {
		return Moved{}, err
	}
	return moved, m.Wish.grant(ctx, tx, op)
}

// impossible says why a change was not possible: a refusal of a try, a passing failure of anything that has to
// go forward.
func impossible(ctx context.Context, tx pgx.Tx, op participant.Operation, m Move) error {
	var exists bool
	if err := tx.QueryRow(ctx, sqlAccountExists, m.Account).Scan(&exists); err != nil {
		return err
	}
	return impossibleIf(exists, op, m)
}

// impossibleIf is impossible for one who has looked whether the account exists.
func impossibleIf(exists bool, op participant.Operation, m Move) error {
	code, err := CodeNoAccount, fmt.Errorf("there is no account %q", m.Account)
	if exists {
		code, err = CodeInsufficientFunds, fmt.Errorf("account %q does not have %d cents", m.Account, m.Cents)
	}
	if op.CanRefuse() {
		return &refused{code, err}
	}
	return err
}
