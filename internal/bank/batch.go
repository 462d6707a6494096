package bank

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/participant"
)

// handleBatches adds the actions in the form that queues its statements. They answer as the others do, but cannot wait
// for a switch.
func handleBatches(p *participant.Participant) {
	participant.Handle(p, ActionDebit, participant.BatchTCC[Move, Moved]{
		Try: queueTry(sqlHold), Confirm: queueSettle(sqlHoldUse), Cancel: queueSettle(sqlHoldRelease),
	})
	participant.Handle(p, ActionCredit, participant.BatchTCC[Move, Moved]{
		Try: queueTry(sqlExpect), Confirm: queueSettle(sqlExpectUse), Cancel: queueSettle(sqlExpectRelease),
	})
	participant.Handle(p, ActionWithdraw, participant.BatchSaga[Move, Moved]{Try: queueTry(sqlTake), Cancel: queueSettle(sqlGive)})
	participant.Handle(p, ActionDeposit, participant.BatchSaga[Move, Moved]{Try: queueTry(sqlGive), Cancel: queueSettle(sqlTake)})
	participant.Handle(p, ActionCharge, participant.BatchPivot[Move, Moved]{Try: queueTry(sqlTake)})
	participant.Handle(p, ActionGrant, participant.BatchPivot[Move, Moved]{Try: queueTry(sqlGive)})
	participant.Handle(p, ActionPayout, participant.BatchRetriable[Move, Moved]{Try: queueTry(sqlGive)})
	participant.Handle(p, ActionCollect, participant.BatchRetriable[Move, Moved]{Try: queueTry(sqlTake)})
}

// queueTry is try in the form that queues.
func queueTry(sql string) participant.BatchTryFunc[Move, Moved] {
	return func(b *pgx.Batch, c participant.Call[Move], out *Moved) error {
		m, err := amount(c)
		if err != nil {
			return asked(err)
		}
		*out = Moved{Account: m.Account, Cents: m.Cents}
		return queueMove(b, c.Operation, m, sql, &out.BalanceCents)
	}
}

// queueSettle is settle in the form that queues.
func queueSettle(sql string) participant.BatchSettleFunc[Move, Moved] {
	return func(b *pgx.Batch, c participant.Settle[Move, Moved]) error {
		m := c.Input
		if m.From != "" && c.Try != nil {
			m.Cents = c.Try.Cents
		}
		return queueMove(b, c.Operation, m, sql, new(int64))
	}
}

// triedCents stands for cents that only the database knows: those of the step's try.
const triedCents = `(SELECT cents FROM bank.effects WHERE tenant = $2 AND transaction_id = $3 AND step = $4 AND phase = 'try')`

// queueMove is move in the form that queues.
func queueMove(b *pgx.Batch, op participant.Operation, m Move, sql string, balance *int64) error {
	wished := m.Wish.isFor(op.Phase)
	if wished && m.Wish.SleepWhile != "" {
		return participant.Fault(errors.New("a bank that queues its statements does not wait for a switch"))
	}
	if wished && m.Wish.SleepMs > 0 {
		b.Queue(`SELECT pg_sleep($1)`, min(time.Duration(m.Wish.SleepMs)*time.Millisecond, sleepMax).Seconds())
	}
	exists := false
	b.Queue(sqlAccountExists, m.Account).QueryRow(func(row pgx.Row) error { return row.Scan(&exists) })
	args := []any{m.Account, m.Cents}
	if m.Cents == 0 { // not known when the command was made
		sql = strings.ReplaceAll(sql, "$2", triedCents)
		args = []any{m.Account, op.Tenant, [16]byte(op.Transaction), op.Step}
	}
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error {
		err := row.Scan(balance)
		if errors.Is(err, pgx.ErrNoRows) {
			return asked(impossibleIf(exists, op, m))
		}
		return err
	})
	on := map[string]bool{"": false}
	for _, name := range []string{m.Wish.FailWhile, m.Wish.PanicWhile, m.Wish.RefuseWhile} {
		if wished && name != "" {
			b.Queue(sqlSwitchGet, name).QueryRow(func(row pgx.Row) error {
				var is bool
				err := row.Scan(&is)
				on[name] = is
				return err
			})
		}
	}
	effect, values := sqlEffectInsert, []any{op.Tenant, [16]byte(op.Transaction), op.Step, string(op.Phase), op.Action, m.Account, m.Cents}
	if m.Cents == 0 {
		effect, values = sqlEffectOfTry, values[:6]
	}
	b.Queue(effect, values...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("there is no try of step %s to settle", op.Step)
		}
		if !wished {
			return nil
		}
		return asked(m.Wish.grantIf(on, op))
	})
	return nil
}
