package doctor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/saga"
)

// The checks that need participants' databases. The first of them are one statement on a barrier, as those of the
// coordinator's database are; the others compare the two databases, in judge.go; the last two are the bank's.
var participantChecks = []check{
	{"barrier-confirm-without-try", "I-4", "a barrier row is confirmed only after its try", overTransactions, sqlConfirmWithoutTry},
	{"barrier-late-try", "I-6", "no try was executed after its cancel or refusal", overTransactions, sqlLateTry},
	{"barrier-entered", "B", "a barrier row says how its operation ended", overTransactions, sqlEntered},
	{checkBoth, "I-1", "no transaction has a confirmed and a cancelled barrier row", overTransactions, ""},
	{checkCommitted, "I-2", "the barriers hold the effects of a committed transaction", overTransactions, ""},
	{checkCancelled, "I-2", "the barriers hold no effect of a cancelled transaction, and refuse late tries", overTransactions, ""},
	{checkDirection, "I-8", "barriers have confirmed and cancelled only what was decided", overTransactions, ""},
	{checkLost, "B5", "what the coordinator was told is in the barrier", overTransactions, ""},
	{checkUnknown, "I-10", "the coordinator knows the transaction of every effect", overTransactions, ""},
	{checkHeld, "I-12", "a bank holds no money when nothing is under way", overBanks, sqlHeld},
	{checkTwice, "I-3", "a bank's journal has every operation once", overBanks, sqlRanTwice},
}

// Names of the checks that are no single statement.
const (
	checkBoth      = "barrier-confirmed-and-cancelled"
	checkCommitted = "barrier-committed"
	checkCancelled = "barrier-cancelled"
	checkDirection = "barrier-direction"
	checkLost      = "barrier-lost"
	checkUnknown   = "barrier-unknown"
	checkHeld      = "bank-held"
	checkTwice     = "bank-ran-twice"
)

const sqlConfirmWithoutTry = `
SELECT transaction_id::text, concat('step ', step, ' is confirmed, and its try is ', coalesce(try_outcome, 'not there'))
  FROM saga.barrier
 WHERE transaction_id > $1::uuid AND transaction_id <= $2::uuid
   AND (state = 'confirmed' OR confirm_sha256 IS NOT NULL) AND (try_sha256 IS NULL OR try_outcome IS DISTINCT FROM 'done')
 LIMIT $3`

const sqlLateTry = `
SELECT transaction_id::text, concat('step ', step, ' is ', state, ', and its try was executed')
  FROM saga.barrier
 WHERE transaction_id > $1::uuid AND transaction_id <= $2::uuid
   AND (state = 'null_cancelled' AND try_sha256 IS NOT NULL OR state = 'refused' AND try_outcome = 'done')
 LIMIT $3`

const sqlEntered = `
SELECT transaction_id::text, concat('step ', step, ' is ', state, ', try ', coalesce(try_outcome, 'without outcome'))
  FROM saga.barrier
 WHERE transaction_id > $1::uuid AND transaction_id <= $2::uuid
   AND (state NOT IN ('absent', 'trying', 'tried', 'refused', 'confirmed', 'cancelled', 'null_cancelled')
        OR state = 'tried' AND try_outcome IS DISTINCT FROM 'done'
        OR state = 'refused' AND try_outcome IS NULL
        OR state = 'trying' AND lease_until IS NULL
        OR state IN ('cancelled', 'null_cancelled') AND cancel_sha256 IS NULL)
 LIMIT $3`

const sqlBarrierRows = `
SELECT transaction_id, tenant, step, kind, state
  FROM saga.barrier WHERE transaction_id > $1::uuid AND transaction_id <= $2::uuid`

const sqlBarrierFloor = `SELECT floor, to_regclass('bank.effects') IS NOT NULL FROM saga.barrier_floor`

// database is one that holds the barrier of one participant or of several.
type database struct {
	names []string
	pool  *pgxpool.Pool
	floor saga.ID // transactions below it are forgotten
	bank  bool
}

// rowKey is the identity of a barrier row within a page.
type rowKey struct {
	transaction  saga.ID
	tenant, step string
}

// barrierRow is what a barrier says about a step.
type barrierRow struct {
	rowKey
	kind  saga.Kind
	state saga.BarrierState
	in    *database
}

func (d *doctor) openBarriers(ctx context.Context) error {
	known := map[*pgxpool.Pool]*database{}
	for _, name := range slices.Sorted(maps.Keys(d.Participants)) {
		pool := d.Participants[name]
		if db := known[pool]; db != nil {
			db.names = append(db.names, name)
			continue
		}
		db := &database{names: []string{name}, pool: pool}
		var floor [16]byte
		if err := pool.QueryRow(ctx, sqlBarrierFloor).Scan(&floor, &db.bank); err != nil {
			return fmt.Errorf("doctor: look at the barrier of participant %s (has its database one, in the schema saga?): %w", name, err)
		}
		db.floor = floor
		known[pool] = db
		d.databases = append(d.databases, db)
	}
	return nil
}

// readBarriers reads the rows of a page from every barrier, and asks its own checks in the same snapshot.
func (d *doctor) readBarriers(ctx context.Context, p page, only map[string]bool) ([]barrierRow, error) {
	var all []barrierRow
	for _, db := range d.databases {
		err := d.read(ctx, db.pool, func(tx pgx.Tx) error {
			for _, c := range participantChecks {
				s := d.byName[c.name]
				if c.over != overTransactions || c.sql == "" || only != nil && !only[c.name] || d.room(s) == 0 {
					continue
				}
				if err := d.askOne(ctx, tx, c.sql, p, s); err != nil {
					return err
				}
			}
			rows, err := tx.Query(ctx, sqlBarrierRows, p.bounds...)
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (barrierRow, error) {
				r := barrierRow{in: db}
				err := row.Scan((*[16]byte)(&r.transaction), &r.tenant, &r.step, (*string)(&r.kind), (*string)(&r.state))
				return r, err
			})
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("doctor: read the barrier of participant %s: %w", db.names[0], err)
		}
	}
	return all, nil
}

// sqlSteps says of every step of the transactions of a page what the coordinator knows.
const sqlSteps = within + `
SELECT tx.id, tx.tenant, tx.status, step.name, step.kind, step.participant,
       coalesce(CASE WHEN try.attempt > 0 THEN try.state END, ''), coalesce(confirm.state, ''), coalesce(cancel.state, '')
  FROM tx
  JOIN step ON step.definition = tx.definition
  LEFT JOIN op AS try ON try.transaction_id = tx.id AND try.step = step.name AND try.phase = 'try'
  LEFT JOIN op AS confirm ON confirm.transaction_id = tx.id AND confirm.step = step.name AND confirm.phase = 'confirm'
  LEFT JOIN op AS cancel ON cancel.transaction_id = tx.id AND cancel.step = step.name AND cancel.phase = 'cancel'`

// compare compares the rows of barriers with what the coordinator knows.
func (d *doctor) compare(ctx context.Context, p page, rows []barrierRow, only map[string]bool) error {
	if len(d.databases) == 0 {
		return nil
	}
	j := judge{barriers: d.databases, rows: map[saga.ID][]barrierRow{}, steps: map[saga.ID][]step{}}
	for _, r := range rows {
		j.rows[r.transaction] = append(j.rows[r.transaction], r)
	}
	err := d.read(ctx, d.Coordinator, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlSteps, p.bounds...)
		if err != nil {
			return err
		}
		steps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s step, err error) {
			err = row.Scan((*[16]byte)(&s.transaction), &s.tenant, (*string)(&s.status), &s.name, (*string)(&s.kind), &s.participant,
				(*string)(&s.try), (*string)(&s.confirm), (*string)(&s.cancel))
			return s, err
		})
		for _, s := range steps {
			j.steps[s.transaction] = append(j.steps[s.transaction], s)
		}
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT floor FROM retention`).Scan((*[16]byte)(&j.floor))
	})
	if err != nil {
		return fmt.Errorf("doctor: read transactions: %w", err)
	}
	j.found = func(check string, id saga.ID, detail string) {
		s := d.byName[check]
		if only != nil && !only[check] || d.room(s) == 0 {
			return
		}
		s.suspects = append(s.suspects, suspect{page: p, Finding: Finding{Object: id.String(), Detail: detail}})
	}
	j.judge()
	return nil
}

func sortIDs(ids []saga.ID) []saga.ID {
	slices.SortFunc(ids, func(a, b saga.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}
