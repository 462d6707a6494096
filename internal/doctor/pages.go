package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/saga"
)

// How everything is gone through: in pages that one short transaction can look at.

// sqlNextTransaction finds the end of a page: the id of its last transaction. None if there are fewer.
const sqlNextTransaction = `
SELECT id FROM transactions WHERE id > $1 ORDER BY id OFFSET $2 LIMIT 1`

// sqlNextBarrier does so for the rows of a barrier.
const sqlNextBarrier = `
SELECT transaction_id FROM saga.barrier WHERE transaction_id > $1 ORDER BY transaction_id OFFSET $2 LIMIT 1`

// sqlNextRequest finds the last key of a page of request ids. None if the page is empty.
const sqlNextRequest = `
SELECT tenant, client, request_id
  FROM (SELECT tenant, client, request_id FROM requests
         WHERE (tenant, client, request_id) > ($1::text, $2::text, $3::text)
         ORDER BY tenant, client, request_id LIMIT $4) AS page
 ORDER BY tenant DESC, client DESC, request_id DESC LIMIT 1`

// sqlCount counts the transactions of a page.
const sqlCount = `SELECT count(*) FROM transactions WHERE id > $1 AND id <= $2`

// sqlSettings hold until the end of the transaction. Tables may be large, and are read by ranges of their keys,
// whatever the statistics say.
const sqlSettings = `
SELECT set_config('statement_timeout', $1, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

// page is a part of a table.
type page struct {
	over        walk
	first, last saga.ID // of transactions: the first is excluded
	bounds      []any   // as arguments of a statement
	percent     int     // of the time from the first transaction to now, that lies before its end
}

func (p *page) key() string { return fmt.Sprint(p.over, p.bounds) }

// barrierRowsMax bounds how many rows of one barrier a page has, but for those of its last transaction.
const barrierRowsMax = 10_000

var lastID = saga.ID(bytes.Repeat([]byte{0xff}, 16))

// transactionPages goes through all ids, those that only a barrier or another table knows included.
func (d *doctor) transactionPages(ctx context.Context) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		var began time.Time
		for first := idAt(d.Since); first != lastID; {
			p := page{over: overTransactions, first: first, last: lastID}
			err := d.boundPage(ctx, &p)
			if began.IsZero() && p.last != lastID {
				began = p.last.Time()
			}
			if whole := d.at.Sub(began); p.last != lastID && whole > 0 {
				p.percent = min(99, max(0, int(100*p.last.Time().Sub(began)/whole)))
			} else {
				p.percent = 100
			}
			if !yield(p, err) || err != nil {
				return
			}
			first = p.last
		}
	}
}

// boundPage finds the end of a page: no source has much more than its share before it.
func (d *doctor) boundPage(ctx context.Context, p *page) error {
	bound := func(pool *pgxpool.Pool, sql string, rows int) error {
		return d.read(ctx, pool, func(tx pgx.Tx) error {
			var id [16]byte
			err := tx.QueryRow(ctx, sql, [16]byte(p.first), rows-1).Scan(&id)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err == nil && bytes.Compare(id[:], p.last[:]) < 0 {
				p.last = id
			}
			return err
		})
	}
	if err := bound(d.Coordinator, sqlNextTransaction, d.PageMax); err != nil {
		return err
	}
	for _, db := range d.databases {
		if err := bound(db.pool, sqlNextBarrier, barrierRowsMax); err != nil {
			return err
		}
	}
	p.bounds = []any{[16]byte(p.first), [16]byte(p.last)}
	return nil
}

// requestPages goes through all request ids.
func (d *doctor) requestPages(ctx context.Context) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		for first := []string{"", "", ""}; ; {
			last := make([]string, 3)
			err := d.read(ctx, d.Coordinator, func(tx pgx.Tx) error {
				return tx.QueryRow(ctx, sqlNextRequest, first[0], first[1], first[2], d.PageMax).Scan(&last[0], &last[1], &last[2])
			})
			if errors.Is(err, pgx.ErrNoRows) {
				return
			}
			p := page{over: overRequests, bounds: []any{first[0], first[1], first[2], last[0], last[1], last[2]}}
			if !yield(p, err) || err != nil {
				return
			}
			first = last
		}
	}
}

// read calls f in one snapshot of a database that is only read.
func (d *doctor) read(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlSettings, fmt.Sprint(d.StatementTimeout.Milliseconds())); err != nil {
			return err
		}
		return f(tx)
	})
}

// ask asks the checks of the coordinator's database that go over such pages; with only, just those. A statement that
// fails, as by its timeout, is not asked again, and others go on.
func (d *doctor) ask(ctx context.Context, p page, only map[string]bool) error {
	return d.read(ctx, d.Coordinator, func(tx pgx.Tx) error {
		if p.over == overTransactions && only == nil {
			var n int
			if err := tx.QueryRow(ctx, sqlCount, p.bounds...).Scan(&n); err != nil {
				return err
			}
			d.looked += n
		}
		for _, c := range checks {
			s := d.byName[c.name]
			if c.over != p.over || only != nil && !only[c.name] || d.room(s) == 0 {
				continue
			}
			if err := d.askOne(ctx, tx, c.sql, p, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// askOne asks one statement, in a savepoint of its own.
func (d *doctor) askOne(ctx context.Context, tx pgx.Tx, sql string, p page, s *state) error {
	args := append(append([]any{}, p.bounds...), d.room(s))
	var found []suspect
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (suspect, error) {
			f := suspect{page: p}
			return f, row.Scan(&f.Object, &f.Detail)
		})
		return err
	})
	var failed *pgconn.PgError
	if errors.As(err, &failed) && ctx.Err() == nil {
		s.failed = fmt.Errorf("PostgreSQL: %s (SQLSTATE %s)", failed.Message, failed.Code)
		return nil
	}
	s.suspects = append(s.suspects, found...)
	return err
}
