package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/doctor"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// plants make, each, the violation that one check looks for, in a database that is healthy before. :name stands for
// the id of the transaction of the definition of that name.
var plants = map[string]string{
	"transaction-columns": `UPDATE transactions SET decided_at = NULL WHERE id = :transfer`,
	"operation-columns":   `UPDATE operations SET next_at = NULL WHERE transaction_id = :silent`,
	"operation-step":      `UPDATE operations SET phase = 'confirm', result = NULL WHERE transaction_id = :order AND step = 'send'; ` + givenUp(":order"),
	"operation-direction": `UPDATE transactions SET status = 'accepted', start_at = now() + interval '2 hours' WHERE id = :silent`,
	"confirmed-and-cancelled": `INSERT INTO operations (transaction_id, step, phase, state, wait, replaying, attempt, counted, counted_to, floor, revision, content_sha256, sent_at)
		SELECT transaction_id, step, 'cancel', 'done', '', false, 1, 0, 0, 0, 1, content_sha256, sent_at
		  FROM operations WHERE transaction_id = :transfer AND step = 'take' AND phase = 'confirm'; ` + givenUp(":transfer"),
	"committed-not-done":            `UPDATE operations SET state = 'given_up' WHERE transaction_id = :transfer AND step = 'give' AND phase = 'confirm'`,
	"cancelled-not-undone":          `DELETE FROM operations WHERE transaction_id = :refused AND step = 'take' AND phase = 'cancel'`,
	"ended-operation-open":          `UPDATE operations SET state = 'sent', next_at = now() WHERE transaction_id = :transfer AND step = 'give' AND phase = 'confirm'`,
	"ended-dead-letter-open":        letter(":transfer", "take", "confirm", "open"),
	"dead-letter-missing":           `UPDATE dead_letters SET status = 'closed' WHERE transaction_id = :waits`,
	"dead-letter-without-operation": letter(":silent", "take", "try", "open"),
	"dead-letter-twice":             `DROP INDEX dead_letters_operation; ` + letter(":waits", "send", "try", "open"),
	"suspended-flag":                `UPDATE transactions SET suspended = false WHERE id = :waits`,
	"timer-missing":                 `UPDATE transactions SET wake_at = NULL WHERE id = :silent`,
	"waits-for-nobody":              `UPDATE transactions SET wake_at = 'infinity' WHERE id = :silent`,
	"timer-late":                    `UPDATE transactions SET wake_at = now() + interval '2 days' WHERE id = :silent`,
	"timer-overdue":                 `UPDATE transactions SET wake_at = now() - interval '2 minutes' WHERE id = :silent`,
	"outbox-old":                    `INSERT INTO outbox (id, created_at, subject, message_id, headers, data) VALUES (gen_random_uuid(), now() - interval '2 minutes', 'x', '', '', '')`,
	"outbox-without-state":          `INSERT INTO outbox (id, subject, message_id, headers, data) VALUES (gen_random_uuid(), 'x', '', E'Saga-Verb: execute\nSaga-Transaction: ' || :silent || E'\nSaga-Step: take\nSaga-Phase: try\nSaga-Action: act\nSaga-Attempt: 2\n', '')`,
	"submission-missing":            `DELETE FROM submissions WHERE transaction_id = :transfer`,
	"submission-alone":              `INSERT INTO submissions VALUES (gen_random_uuid(), '', '')`,
	"request-missing":               `DELETE FROM requests WHERE transaction_id = :transfer`,
	"request-alone":                 `INSERT INTO requests VALUES ('default', 'test', 'lost', gen_random_uuid(), '', '')`,
	"rows-alone":                    `INSERT INTO attempts VALUES (gen_random_uuid(), 'take', 'try', 1, NULL, now(), 'unknown')`,
	"definition-missing":            `UPDATE transactions SET definition = '\x00' WHERE id = :later`,
	"definition-content":            `UPDATE definitions SET body = body || ' ' WHERE name = 'later'`,
	"attempt-number":                `INSERT INTO attempts VALUES (:silent, 'take', 'try', 2, NULL, now(), 'unknown')`,
	"incident":                      `INSERT INTO incidents VALUES (gen_random_uuid(), now(), 'default', :transfer, 'take', 'try', 'contradicts', '', '{}', '')`,

	"barrier-confirm-without-try":     `UPDATE saga.barrier SET try_sha256 = NULL WHERE transaction_id = :transfer AND step = 'take'`,
	"barrier-late-try":                `UPDATE saga.barrier SET state = 'null_cancelled' WHERE transaction_id = :refused AND step = 'take'`,
	"barrier-entered":                 row(":silent", "take", "saga", "entered"),
	"barrier-confirmed-and-cancelled": `UPDATE saga.barrier SET state = 'cancelled', cancel_sha256 = '' WHERE transaction_id = :transfer AND step = 'take'; ` + givenUp(":transfer"),
	"barrier-committed":               `DELETE FROM saga.barrier WHERE transaction_id = :order AND step = 'pay'`,
	"barrier-cancelled":               `UPDATE saga.barrier SET state = 'tried' WHERE transaction_id = :refused AND step = 'take'`,
	"barrier-direction":               `UPDATE saga.barrier SET state = 'cancelled', cancel_sha256 = '' WHERE transaction_id = :half AND step = 'hold'`,
	"barrier-lost":                    `UPDATE saga.barrier SET state = 'tried' WHERE transaction_id = :half AND step = 'hold' AND confirm_sha256 IS NOT NULL; UPDATE saga.barrier SET confirm_sha256 = NULL WHERE transaction_id = :half`,
	"barrier-unknown":                 `INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state, try_outcome) VALUES (gen_random_uuid(), 'take', 'default', 'saga', 'tried', 'done')`,
	"bank-held":                       end + `UPDATE bank.accounts SET held_cents = 5 WHERE id = 'alice'`,
	"bank-ran-twice":                  `INSERT INTO bank.effects SELECT * FROM bank.effects WHERE transaction_id = :order AND step = 'pay'`,
}

// givenUp makes a transaction one that an operator ended, of which little has to be so.
func givenUp(id string) string { return `UPDATE transactions SET status = 'resolved' WHERE id = ` + id }

func letter(id, step, phase, status string) string {
	return fmt.Sprintf(`INSERT INTO dead_letters (id, kind, status, cause, fingerprint, transaction_id, step, phase, subject, headers, body)
		VALUES (gen_random_uuid(), 'operation', '%s', 'unknown', '', %s, '%s', '%s', '', '{}', '')`, status, id, step, phase)
}

func row(id, step, kind, state string) string {
	return fmt.Sprintf(`INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state) VALUES (%s, '%s', 'default', '%s', '%s')`, id, step, kind, state)
}

// end takes everything away that is under way.
const end = `
DELETE FROM saga.barrier WHERE transaction_id IN (SELECT id FROM transactions WHERE finished_at IS NULL);
DELETE FROM operations WHERE transaction_id IN (SELECT id FROM transactions WHERE finished_at IS NULL);
DELETE FROM submissions WHERE transaction_id IN (SELECT id FROM transactions WHERE finished_at IS NULL);
DELETE FROM attempts WHERE transaction_id IN (SELECT id FROM transactions WHERE finished_at IS NULL);
DELETE FROM dead_letters WHERE transaction_id IN (SELECT id FROM transactions WHERE finished_at IS NULL);
DELETE FROM transactions WHERE finished_at IS NULL;
`

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	for _, name := range []string{"transfer", "order", "refused", "pivot-refused", "waits", "later", "silent", "half"} {
		sql = strings.ReplaceAll(sql, ":"+name, "(SELECT id FROM transactions WHERE definition_name = '"+name+"')")
	}
	err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// A healthy database is clean; each violation is found by the check that looks for it, and by no other.
func TestChecks(t *testing.T) {
	t.Parallel()
	lived := lived(t)
	healthy := examine(t, testdb.New(t, lived))
	if got := problems(healthy); len(got) > 0 || healthy.Unfinished() > 0 || healthy.Transactions != 10 {
		t.Fatalf("a healthy database: %+v", healthy)
	}
	for _, c := range healthy.Checks {
		if (c.Status != doctor.StatusOK) != (c.Name == "bank-held") { // transactions are under way
			t.Errorf("%s: %s, %s", c.Name, c.Status, c.Note)
		}
		if plants[c.Name] == "" {
			t.Errorf("nobody plants what %s looks for", c.Name)
		}
	}
	if len(plants) != len(healthy.Checks) {
		t.Errorf("%d violations for %d checks", len(plants), len(healthy.Checks))
	}
	t.Run("violations", func(t *testing.T) {
		for name, sql := range plants {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				pool := testdb.New(t, lived)
				exec(t, pool, sql)
				r := examine(t, pool)
				if got := problems(r); !slices.Equal(got, []string{name}) {
					t.Errorf("found %q: %+v", got, r.Checks)
				}
				for _, c := range r.Checks {
					if c.Name == name && (len(c.Findings) != 1 || c.Findings[0].Object == "" || c.Findings[0].Detail == "" || c.Rule == "" || c.What == "") {
						t.Errorf("got %+v", c)
					}
					if c.Name == name {
						t.Logf("%s %s", c.Findings[0].Object, c.Findings[0].Detail)
					}
				}
			})
		}
	})
	t.Run("pages", func(t *testing.T) { testPages(t, lived) })
	t.Run("large", func(t *testing.T) { testLarge(t, lived) })
	t.Run("limits", func(t *testing.T) { testLimits(t, lived) })
	t.Run("transient", func(t *testing.T) { testTransient(t, lived) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, lived) })
	t.Run("participants", func(t *testing.T) { testParticipants(t, lived) })
	t.Run("never sent", func(t *testing.T) { testNeverSent(t, lived) })
}

// A try that the gate held back until the transaction was cancelled was never sent: it needs no cancel, and its
// participant no row (S2.4, R1 to R4).
func testNeverSent(t *testing.T, lived testdb.Template) {
	pool := testdb.New(t, lived)
	exec(t, pool, `
UPDATE operations SET state = 'closed', result = NULL, attempt = 0, counted = 0, counted_to = 0, floor = 0
 WHERE transaction_id = :refused AND step = 'take' AND phase = 'try';
DELETE FROM operations WHERE transaction_id = :refused AND step = 'take' AND phase = 'cancel';
DELETE FROM attempts WHERE transaction_id = :refused AND step = 'take';
DELETE FROM saga.barrier WHERE transaction_id = :refused AND step = 'take'`)
	if r := examine(t, pool); len(problems(r)) > 0 {
		t.Errorf("found %q: %+v", problems(r), r.Checks)
	}
	exec(t, pool, `UPDATE operations SET attempt = 1 WHERE transaction_id = :refused AND step = 'take'`)
	if got := problems(examine(t, pool)); !slices.Equal(got, []string{"cancelled-not-undone", "barrier-cancelled"}) {
		t.Errorf("sent after all: found %q", got)
	}
}

// In pages of one transaction all is seen that is seen in one page, and progress is told.
func testPages(t *testing.T, lived testdb.Template) {
	pool := testdb.New(t, lived)
	exec(t, pool, plants["submission-alone"]+";"+plants["barrier-unknown"]+";"+plants["request-alone"]+";"+plants["committed-not-done"])
	told := 0
	r := examine(t, pool, func(o *doctor.Options) {
		o.PageMax = 1
		o.Progress = func(transactions, percent int) {
			if told++; transactions > 10 || percent < 0 || percent > 100 {
				t.Errorf("%d transactions, %d%%", transactions, percent)
			}
		}
	})
	want := []string{"committed-not-done", "submission-alone", "request-alone", "barrier-unknown"}
	if got := problems(r); !slices.Equal(got, want) || r.Transactions != 10 || told < 10 {
		t.Errorf("found %q in %d transactions, told %d times: %+v", got, r.Transactions, told, r.Checks)
	}
	r = examine(t, pool, func(o *doctor.Options) { o.Since = time.Now().Add(time.Hour) })
	if r.Transactions != 0 || slices.Contains(problems(r), "committed-not-done") {
		t.Errorf("since later: %+v", r)
	}
}

// Findings are bounded, and a statement that takes too long ends that check only.
func testLimits(t *testing.T, lived testdb.Template) {
	pool := testdb.New(t, lived)
	exec(t, pool, `DELETE FROM submissions`)
	r := examine(t, pool, func(o *doctor.Options) { o.FindingsMax = 3 })
	for _, c := range r.Checks {
		if c.Name == "submission-missing" && (len(c.Findings) != 3 || !c.More) {
			t.Errorf("got %+v", c)
		}
	}
	exec(t, pool, `ALTER TABLE outbox RENAME TO outbox_table; CREATE VIEW outbox AS SELECT o.* FROM pg_sleep(20) LEFT JOIN outbox_table o ON true`)
	r = examine(t, pool, func(o *doctor.Options) { o.StatementTimeout = 500 * time.Millisecond })
	if r.Unfinished() != 2 || !slices.Equal(problems(r), []string{"submission-missing"}) {
		t.Errorf("got %+v", r.Checks)
	}
}

// What is right a moment later is no problem: the second look is what counts.
func testTransient(t *testing.T, lived testdb.Template) {
	pool := testdb.New(t, lived)
	exec(t, pool, `CREATE TABLE kept AS SELECT * FROM saga.barrier WHERE transaction_id = :order AND step = 'pay'; `+plants["barrier-committed"])
	repaired := false
	r := examine(t, pool, func(o *doctor.Options) {
		o.Progress = func(int, int) {
			if !repaired {
				repaired = true
				exec(t, pool, `INSERT INTO saga.barrier SELECT * FROM kept`)
			}
		}
	})
	if got := problems(r); len(got) > 0 || !repaired {
		t.Errorf("found %q", got)
	}
}

func testInterrupted(t *testing.T, lived testdb.Template) {
	pool := testdb.New(t, lived)
	exec(t, pool, plants["submission-missing"])
	ctx, cancel := context.WithCancel(t.Context())
	r, err := doctor.Run(ctx, doctor.Options{Coordinator: pool, RecheckAfter: time.Hour, Progress: func(int, int) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	if got := problems(r); !slices.Equal(got, []string{"submission-missing"}) || r.Unfinished() == 0 {
		t.Errorf("got %+v", r.Checks)
	}
	for _, c := range r.Checks {
		if c.Status == doctor.StatusProblems && c.Note == "" {
			t.Errorf("it does not say that it was not looked at again: %+v", c)
		}
	}
}

// What a participant that was not given holds is not known, and no problem.
func testParticipants(t *testing.T, lived testdb.Template) {
	pool := testdb.New(t, lived)
	empty := testdb.New(t, testdb.Template{Name: "empty", Migrate: func(ctx context.Context, dsn string) error {
		p, err := pgxpool.New(ctx, dsn)
		if err != nil {
			return err
		}
		defer p.Close()
		return migrateAll(ctx, dsn, p)
	}})
	r := examine(t, pool, func(o *doctor.Options) { o.Participants = map[string]*pgxpool.Pool{"other": empty} })
	if got := problems(r); len(got) > 0 || !slices.Equal(r.Participants, []string{"other"}) {
		t.Errorf("found %q", got)
	}
	// a bank whose database was lost
	r = examine(t, pool, func(o *doctor.Options) { o.Participants = map[string]*pgxpool.Pool{"bank": empty, "other": empty} })
	if got := problems(r); !slices.Equal(got, []string{"barrier-committed", "barrier-cancelled", "barrier-lost"}) {
		t.Errorf("found %q", got)
	}
	exec(t, empty, `UPDATE saga.barrier_floor SET floor = 'ffffffff-ffff-7fff-8fff-ffffffffffff'`)
	r = examine(t, pool, func(o *doctor.Options) { o.Participants = map[string]*pgxpool.Pool{"bank": empty} })
	if got := problems(r); len(got) > 0 {
		t.Errorf("found %q, although the participant has forgotten all", got)
	}
	if r = examine(t, pool, func(o *doctor.Options) { o.Participants = nil }); len(problems(r)) > 0 || r.Checks[len(r.Checks)-1].Status != doctor.StatusSkipped {
		t.Errorf("got %+v", r.Checks)
	}
	if r = examine(t, empty); len(problems(r)) > 0 || r.Transactions != 0 {
		t.Errorf("an empty database: %+v", r.Checks)
	}
	none := testdb.New(t, testdb.Template{})
	if _, err := doctor.Run(t.Context(), doctor.Options{Coordinator: none}); err == nil || !strings.Contains(err.Error(), "has it been migrated") {
		t.Errorf("a database without tables: %v", err)
	}
	if _, err := doctor.Run(t.Context(), doctor.Options{Coordinator: pool, Participants: map[string]*pgxpool.Pool{"p": none}}); err == nil || !strings.Contains(err.Error(), "participant p") {
		t.Errorf("a participant without barrier: %v", err)
	}
}
