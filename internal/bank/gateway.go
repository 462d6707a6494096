package bank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/participant"
)

// ExternalPrefix begins the names of the actions that do the same through a gateway.
const ExternalPrefix = "external-"

// gatewayMargin is how much longer a lease is than a handler may take: PostgreSQL acts on what it has got at once.
const gatewayMargin = time.Second

// gateway stands for a system outside of the participant's local transaction (U4): it has transactions of its own,
// executes the requests of one key once, remembers its refusals, and can be asked. Its tables are beside the
// bank's only so that one can count.
type gateway struct{ pool *pgxpool.Pool }

// States of a request.
const (
	gatewayDone      = "done"
	gatewayRefused   = "refused"
	gatewayVoid      = "void"
	gatewayConfirmed = "confirmed"
	gatewayCancelled = "cancelled"
)

const codeVoided = "voided"

const (
	sqlGatewayInsert = `INSERT INTO bank.gateway (key, state) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`
	sqlGatewayGet    = `SELECT state, code, coalesce(moved, '{}') FROM bank.gateway WHERE key = $1`
	sqlGatewayRefuse = `UPDATE bank.gateway SET state = 'refused', code = $2 WHERE key = $1`
	sqlGatewayMoved  = `UPDATE bank.gateway SET moved = $2 WHERE key = $1`
	sqlGatewaySettle = `UPDATE bank.gateway SET state = $2 WHERE key = $1 AND state = 'done'`
)

// handle adds an external action of every kind.
func (g gateway) handle(p *participant.Participant, handlerTimeout time.Duration) {
	lease := handlerTimeout + gatewayMargin
	tcc := func(action, try, confirm, cancel string) {
		participant.Handle(p, ExternalPrefix+action, participant.ExternalTCC[Move, Moved]{
			Do: g.do(try), Confirm: g.settle(confirm, gatewayConfirmed), Cancel: g.settle(cancel, gatewayCancelled),
			Inquire: g.inquire, Void: g.void, Idempotent: true, Lease: lease,
		})
	}
	undoable := func(action, try, cancel string) {
		participant.Handle(p, ExternalPrefix+action, participant.External[Move, Moved]{
			Do: g.do(try), Undo: g.settle(cancel, gatewayCancelled), Inquire: g.inquire, Void: g.void, Idempotent: true, Lease: lease,
		})
	}
	pivot := func(action, try string) {
		participant.Handle(p, ExternalPrefix+action, participant.ExternalPivot[Move, Moved]{
			Do: g.do(try), Inquire: g.inquire, Void: g.void, Idempotent: true, Lease: lease,
		})
	}
	retriable := func(action, try string) {
		participant.Handle(p, ExternalPrefix+action, participant.ExternalRetriable[Move, Moved]{
			Do: g.do(try), Inquire: g.inquire, Idempotent: true, Lease: lease,
		})
	}
	tcc(ActionDebit, sqlHold, sqlHoldUse, sqlHoldRelease)
	tcc(ActionCredit, sqlExpect, sqlExpectUse, sqlExpectRelease)
	undoable(ActionWithdraw, sqlTake, sqlGive)
	undoable(ActionDeposit, sqlGive, sqlTake)
	pivot(ActionCharge, sqlTake)
	pivot(ActionGrant, sqlGive)
	retriable(ActionPayout, sqlGive)
	retriable(ActionCollect, sqlTake)
}

// do makes a change of an account once for each key, and repeats what came of it.
func (g gateway) do(sql string) participant.DoFunc[Move, Moved] {
	return func(ctx context.Context, c participant.Call[Move]) (moved Moved, err error) {
		m, err := amount(c)
		if err != nil {
			return Moved{}, asked(err)
		}
		var no *refused
		err = pgx.BeginFunc(ctx, g.pool, func(tx pgx.Tx) (err error) {
			moved, err = once(ctx, tx, c.Operation, m, sql)
			if errors.As(err, &no) && c.CanRefuse() {
				return nil // it is kept
			}
			return err
		})
		if err == nil && no != nil {
			err = no
		}
		return moved, asked(err)
	}
}

// once makes the change, or keeps that it is refused, unless the key is known.
func once(ctx context.Context, tx pgx.Tx, op participant.Operation, m Move, sql string) (moved Moved, err error) {
	tag, err := tx.Exec(ctx, sqlGatewayInsert, op.Key(), gatewayDone)
	if err != nil {
		return Moved{}, err
	}
	if tag.RowsAffected() == 0 {
		_, moved, err = find(ctx, tx, op.Key())
		return moved, err
	}
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) { // a savepoint
		moved, err = move(ctx, tx, op, m, sql)
		return err
	})
	var no *refused
	switch {
	case err == nil:
		_, err = tx.Exec(ctx, sqlGatewayMoved, op.Key(), moved)
		return moved, err
	case errors.As(err, &no) && op.CanRefuse():
		if _, err := tx.Exec(ctx, sqlGatewayRefuse, op.Key(), no.code); err != nil {
			return Moved{}, err
		}
	}
	return Moved{}, err
}

// find returns what came of a request: pgx.ErrNoRows if there was none, a *refused if it never will be executed.
func find(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, key string,
) (state string, moved Moved, err error) {
	var code string
	if err := q.QueryRow(ctx, sqlGatewayGet, key).Scan(&state, &code, &moved); err != nil {
		return "", Moved{}, err
	}
	switch state {
	case gatewayRefused:
		return state, Moved{}, &refused{code, errors.New("it was refused before")}
	case gatewayVoid:
		return state, Moved{}, &refused{codeVoided, errors.New("the request is void")}
	}
	return state, moved, nil
}

// settle ends what do began, once.
func (g gateway) settle(sql, state string) participant.UndoFunc[Move, Moved] {
	return func(ctx context.Context, c participant.Settle[Move, Moved]) error {
		return asked(pgx.BeginFunc(ctx, g.pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sqlGatewaySettle, c.TryKey(), state)
			if err != nil {
				return err
			}
			is, moved, err := find(ctx, tx, c.TryKey())
			switch {
			case err != nil:
				return err
			case is != state:
				return fmt.Errorf("the request is %s and cannot be %s", is, state)
			case tag.RowsAffected() == 0: // by an earlier call
				return nil
			}
			m := c.Input
			m.Cents = moved.Cents
			_, err = move(ctx, tx, c.Operation, m, sql)
			return err
		}))
	}
}

func (g gateway) inquire(ctx context.Context, e participant.Effect[Move]) (participant.Found[Moved], error) {
	_, moved, err := find(ctx, g.pool, e.Key())
	if errors.Is(err, pgx.ErrNoRows) {
		return participant.FoundAbsent[Moved](), nil
	}
	return participant.FoundDone(moved), asked(err)
}

// void makes the gateway refuse the key for ever.
func (g gateway) void(ctx context.Context, e participant.Effect[Move]) error {
	tag, err := g.pool.Exec(ctx, sqlGatewayInsert, e.Key(), gatewayVoid)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	state, _, err := find(ctx, g.pool, e.Key())
	var no *refused
	switch {
	case errors.As(err, &no):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the request is %s by now and cannot be void", state)
}
