package doctor_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sagacity-tx/sagacity/internal/doctor"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

// copies makes thousands of one committed transaction.
const copies = `
CREATE TEMP TABLE origin AS SELECT id FROM transactions WHERE definition_name = 'transfer';
CREATE TEMP TABLE copy AS
SELECT n, (lpad(to_hex((extract(epoch FROM clock_timestamp() - interval '1 day') * 1000)::bigint + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid AS id
  FROM generate_series(1, 6000) AS n;
INSERT INTO transactions
SELECT copy.id, t.version, t.status, t.suspended, t.tenant, t.client, 'r' || copy.n, t.definition, t.definition_name, t.why, t.why_step, t.why_code, t.why_reason,
       t.created_at, t.start_at, t.deadline, t.decided_at, t.finished_at, t.wake_at, t.traceparent, t.tracestate
  FROM copy, transactions t WHERE t.id = (SELECT id FROM origin);
INSERT INTO submissions SELECT copy.id, s.content_sha256, s.body FROM copy, submissions s WHERE s.transaction_id = (SELECT id FROM origin);
INSERT INTO requests SELECT 'default', 'test', 'r' || copy.n, copy.id, '', '' FROM copy;
INSERT INTO operations
SELECT copy.id, o.step, o.phase, o.state, o.wait, o.replaying, o.attempt, o.counted, o.counted_to, o.floor, o.revision, o.content_sha256, o.sent_at, o.next_at,
       o.outcome, o.code, o.reason, o.result, o.result_type
  FROM copy, operations o WHERE o.transaction_id = (SELECT id FROM origin);
INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state, try_sha256, try_outcome, confirm_sha256)
SELECT copy.id, b.step, b.tenant, b.kind, b.state, b.try_sha256, b.try_outcome, b.confirm_sha256
  FROM copy, saga.barrier b WHERE b.transaction_id = (SELECT id FROM origin);
`

// No statement goes through a page more than once, whether statistics are known or not: one that does takes longer
// than it may.
func testLarge(t *testing.T, lived testdb.Template) {
	pool := testdb.New(t, lived)
	exec(t, pool, copies)
	for _, known := range []bool{false, true} {
		if known {
			exec(t, pool, `ANALYZE`)
		}
		r := examine(t, pool, func(o *doctor.Options) {
			o.StatementTimeout = 20 * time.Second // that of a page per row takes minutes
			o.Participants = map[string]*pgxpool.Pool{"bank": pool}
		})
		if r.Transactions != 6010 || r.Unfinished() > 0 || r.Problems() > 0 {
			t.Errorf("statistics %v: %d transactions, %+v", known, r.Transactions, r.Checks)
		}
	}
}
