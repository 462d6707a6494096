package doctor_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestScaleTMP(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("SCALE"))
	if n == 0 {
		return
	}
	pool := testdb.New(t, lived(t))
	exec(t, pool, `
CREATE TEMP TABLE kept AS SELECT id AS transaction_id FROM transactions WHERE definition_name = 'transfer';
CREATE TEMP TABLE ids AS SELECT i, (lpad(to_hex((extract(epoch FROM clock_timestamp() - interval '1 day')*1000)::bigint + i*10),12,'0') || '7000' || '8000' || lpad(to_hex(i),12,'0'))::uuid AS id FROM generate_series(1, `+strconv.Itoa(n)+`) i;
INSERT INTO transactions SELECT ids.id, t.version, t.status, t.suspended, t.tenant, t.client, 'r' || ids.i, t.definition, t.definition_name, t.why, t.why_step, t.why_code, t.why_reason, t.created_at, t.start_at, t.deadline, t.decided_at, t.finished_at, t.wake_at, t.traceparent, t.tracestate FROM ids, transactions t WHERE t.definition_name = 'transfer';
INSERT INTO submissions SELECT ids.id, s.content_sha256, s.body FROM ids, submissions s WHERE s.transaction_id = (SELECT transaction_id FROM kept);
INSERT INTO requests SELECT 'default', 'test', 'r' || ids.i, ids.id, '', '' FROM ids;
INSERT INTO operations SELECT ids.id, o.step, o.phase, o.state, o.wait, o.replaying, o.attempt, o.counted, o.counted_to, o.floor, o.revision, o.content_sha256, o.sent_at, o.next_at, o.outcome, o.code, o.reason, o.result, o.result_type FROM ids, operations o WHERE o.transaction_id = (SELECT transaction_id FROM kept);
INSERT INTO saga.barrier (transaction_id, step, tenant, kind, state, try_sha256, try_outcome, confirm_sha256) SELECT ids.id, b.step, b.tenant, b.kind, b.state, b.try_sha256, b.try_outcome, b.confirm_sha256 FROM ids, saga.barrier b WHERE b.transaction_id = (SELECT transaction_id FROM kept);
`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			exec(t, pool, `ANALYZE`)
		}
		began := time.Now()
		r := examine(t, pool)
		t.Logf("analyzed %v: %d transactions in %s, problems %q, unfinished %d", analyzed, r.Transactions, time.Since(began), problems(r), r.Unfinished())
	}
}
